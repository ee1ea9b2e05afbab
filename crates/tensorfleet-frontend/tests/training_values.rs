//! The training library computes what TensorFlow 2.21 computes for the same programs, as listed in `tensorflow/values.txt`
//! by `tensorflow/values.py`: every optimizer with whole gradients and with rows, for both kinds of variables, schedules,
//! moving averages, clipping, losses and initializers.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use tensorfleet::train::{
    Adadelta, Adagrad, AdagradDa, Adam, Decay, ExponentialMovingAverage, Ftrl, GradientDescent,
    MinimizeOptions, Momentum, Optimizer, PolynomialDecay, ProximalAdagrad, ProximalGradientDescent, RmsProp,
};
use tensorfleet::{
    DType, Gradient, Graph, IndexedSlices, Initializer, Loss, Output, Reduction, Result, Session, Tensor,
    Variable,
};

/// What TensorFlow lists under this title.
fn expected(title: &str) -> Vec<f64> {
    let start = format!("{title} | ");
    let line = include_str!("tensorflow/values.txt").lines().find_map(|line| line.strip_prefix(&start));
    let line = line.unwrap_or_else(|| panic!("no line '{title}'"));
    line.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::Double => tensor.as_slice::<f64>().unwrap().to_vec(),
        DType::Int64 => tensor.as_slice::<i64>().unwrap().iter().map(|&x| x as f64).collect(),
        _ => tensor.as_slice::<f32>().unwrap().iter().map(|&x| f64::from(x)).collect(),
    }
}

/// Floats may differ in the last bits, since sums are taken in another order.
fn check(title: &str, found: &[f64]) {
    let expected = expected(title);
    let is_near =
        |(found, expected): (&f64, &f64)| (found - expected).abs() <= 2e-6 * expected.abs().max(1.0);
    let fits = found.len() == expected.len() && found.iter().zip(&expected).all(is_near);
    assert!(fits, "{title}:\n   found {found:?}\nexpected {expected:?}");
}

fn check_run(title: &str, session: &Session, output: &Output) -> Result<()> {
    check(title, &numbers(&session.run(output)?));
    Ok(())
}

fn variable(g: &Graph, name: &str, resource: bool, initial: impl tensorfleet::Operand) -> Variable {
    let variable = g.new_variable(name);
    if resource { variable.resource().init(initial) } else { variable.init(initial) }
}

fn kind(resource: bool) -> &'static str {
    if resource { "resource" } else { "reference" }
}

/// Makes an optimizer, given the global step.
type Make = fn(&Variable) -> Box<dyn Optimizer>;

/// Six steps on a vector with whole gradients and a matrix of which some rows, one of them twice, have gradients.
fn train(name: &str, make: Make, resource: bool, dtype: DType) -> Result<()> {
    let g = Graph::new();
    let constant = |value: &Tensor| g.constant(value.clone()).cast(dtype);
    let (v, e) = g.variable_scope("m", || -> Result<(Variable, Variable)> {
        let start = constant(&Tensor::from_slice(&[1.0f32, -2.0], &[2])?)?;
        let v = variable(&g, "v", resource, start);
        let rows = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[4, 2])?;
        Ok((v, variable(&g, "e", resource, constant(&rows)?)))
    })?;
    let step = g.get_or_create_global_step()?;
    let indices = g.constant([2, 0, 2]);
    let wanted = constant(&Tensor::from_slice(&[1.0f32, 1.0, 0.0, 1.0, 2.0, 0.0], &[3, 2])?)?;
    let distance = (e.value().gather(&indices)? - wanted).check()?;
    let loss = v.value().square()?.reduce_sum(..)? + distance.square()?.reduce_sum(..)?;
    let rows = IndexedSlices { values: (&distance * 2.0).check()?, indices, dense_shape: g.constant([4, 2]) };
    let whole = Gradient::Dense((v.value() * 2.0).check()?);
    let gradients = [(Some(whole), v), (Some(Gradient::Slices(rows)), e)];
    let update = make(&step).apply_gradients(&gradients, Some(&step))?;
    let init = g.global_variables_initializer()?;
    let session = Session::new(&g);
    session.run(&init)?;
    let mut losses = Vec::new();
    for _ in 0..6 {
        losses.extend(numbers(&session.run(&loss)?));
        session.run(&update)?;
    }
    let dtype = if dtype == DType::Float { "float32" } else { "float64" };
    let title = format!("{name} {} {dtype}", kind(resource));
    check(&format!("{title} loss"), &losses);
    for variable in g.global_variables() {
        check_run(&format!("{title} {}", variable.name()), &session, &variable.value())?;
    }
    // No variable of TensorFlow is missing here.
    let listed = include_str!("tensorflow/values.txt").lines().filter(|line| line.starts_with(&title));
    assert_eq!(listed.count(), g.global_variables().len() + 1, "{title}");
    Ok(())
}

#[test]
fn every_optimizer_trains_as_tensorflow_does() -> Result<()> {
    let optimizers: [(&str, Make); 13] = [
        ("GradientDescent", |_| Box::new(GradientDescent::new(0.1))),
        ("Adagrad", |_| Box::new(Adagrad::new(0.5))),
        ("Adam", |_| Box::new(Adam::new(0.1))),
        ("Momentum", |_| Box::new(Momentum::new(0.05, 0.9))),
        ("Nesterov", |_| Box::new(Momentum::new(0.05, 0.9).use_nesterov(true))),
        ("RMSProp", |_| Box::new(RmsProp::new(0.02).momentum(0.5))),
        ("CenteredRMSProp", |_| Box::new(RmsProp::new(0.02).momentum(0.5).centered(true))),
        ("Ftrl", |_| Box::new(Ftrl::new(0.5).l1(0.05).l2(0.1))),
        ("FtrlV2", |_| Box::new(Ftrl::new(0.5).l2_shrinkage(0.1))),
        ("Adadelta", |_| Box::new(Adadelta::new(1.0).rho(0.9))),
        ("AdagradDA", |step| Box::new(AdagradDa::new(0.5, step).l1(0.05).l2(0.1))),
        ("ProximalAdagrad", |_| Box::new(ProximalAdagrad::new(0.5).l1(0.05).l2(0.1))),
        ("ProximalGradientDescent", |_| Box::new(ProximalGradientDescent::new(0.1).l1(0.05).l2(0.1))),
    ];
    for (name, make) in optimizers {
        for resource in [false, true] {
            train(name, make, resource, DType::Float)?;
        }
    }
    let adam: Make = |_| Box::new(Adam::new(0.1));
    train("Adam", adam, false, DType::Double)?;
    train("Adam", adam, true, DType::Double)?;
    train("RMSProp", |_| Box::new(RmsProp::new(0.02).momentum(0.5)), false, DType::Double)
}

#[test]
fn a_network_is_minimized_as_in_tensorflow() -> Result<()> {
    for resource in [false, true] {
        let g = Graph::new();
        let w1 = variable(&g, "w1", resource, [[0.1f32, -0.2, 0.3], [0.4, 0.5, -0.6]]);
        let b1 = variable(&g, "b1", resource, [0.1f32, 0.2, 0.3]);
        let w2 = variable(&g, "w2", resource, [[0.5f32], [-0.5], [0.25]]);
        let x = g.constant([[1.0f32, 2.0], [3.0, -1.0], [0.5, 0.25]]);
        let hidden = (x.matmul(&w1)? + &b1).relu()?;
        let wanted = g.constant([[1.0f32], [2.0], [3.0]]);
        let loss = (hidden.matmul(&w2)? - wanted).square()?.reduce_mean(..)?;
        let options =
            MinimizeOptions { global_step: Some(g.get_or_create_global_step()?), ..Default::default() };
        let update = Adam::new(0.05).minimize_with(&loss, &options)?;
        let init = g.global_variables_initializer()?;
        let session = Session::new(&g);
        session.run(&init)?;
        let mut losses = Vec::new();
        for _ in 0..10 {
            losses.extend(numbers(&session.run(&loss)?));
            session.run(&update)?;
        }
        check(&format!("minimize {} loss", kind(resource)), &losses);
        for variable in g.global_variables() {
            let title = format!("minimize {} {}", kind(resource), variable.name());
            check_run(&title, &session, &variable.value())?;
        }
    }
    Ok(())
}

#[test]
fn schedules_give_tensorflows_rates() -> Result<()> {
    type Schedule = fn(&Graph, &Variable) -> Result<Output>;
    let polynomial = |cycle| PolynomialDecay { end_learning_rate: 0.01, power: 2.0, cycle };
    let (line, cycle) = (polynomial(false), polynomial(true));
    let schedules: [(&str, Schedule); 8] = [
        ("exponential", |g, step| g.exponential_decay(0.1, step, 10, 0.9, Decay::Smooth)),
        ("exponential staircase", |g, step| g.exponential_decay(0.1, step, 10, 0.9, Decay::Staircase)),
        ("natural", |g, step| g.natural_exp_decay(0.1, step, 10, 0.5, Decay::Smooth)),
        ("natural staircase", |g, step| g.natural_exp_decay(0.1, step, 10, 0.5, Decay::Staircase)),
        ("inverse", |g, step| g.inverse_time_decay(0.1, step, 10, 0.5, Decay::Smooth)),
        ("inverse staircase", |g, step| g.inverse_time_decay(0.1, step, 10, 0.5, Decay::Staircase)),
        ("cosine", |g, step| g.cosine_decay(0.1, step, 10, 0.2)),
        ("piecewise", |g, step| g.piecewise_constant(step, &[5, 10], &[1.0, 0.5, 0.1])),
    ];
    let g = Graph::new();
    let step = g.get_or_create_global_step()?;
    let mut rates = Vec::new();
    for (name, schedule) in schedules {
        rates.push((name, schedule(&g, &step)?));
    }
    rates.push(("polynomial", g.polynomial_decay(0.1, &step, 10, line)?));
    rates.push(("polynomial cycle", g.polynomial_decay(0.1, &step, 10, cycle)?));
    let session = Session::new(&g);
    for (name, rate) in &rates {
        let mut values = Vec::new();
        for at in [0i64, 1, 4, 5, 9, 10, 11, 19, 20, 25] {
            let read = g.operation("global_step/read")?.output(0);
            values.extend(numbers(&session.feed(&read, at).run(rate)?));
        }
        check(&format!("schedule {name}"), &values);
    }
    Ok(())
}

#[test]
fn moving_averages_follow_as_in_tensorflow() -> Result<()> {
    for resource in [false, true] {
        for counted in [false, true] {
            let g = Graph::new();
            let v = variable(&g, "v", resource, [1.0f32, 2.0]);
            let step = g.get_or_create_global_step()?;
            let x = g.placeholder_named("x", DType::Float, [2]);
            let averages = ExponentialMovingAverage::new(0.9);
            let averages = if counted { averages.num_updates(&step) } else { averages };
            let update = averages.apply((&v, &x))?;
            let (count, change) = (step.assign_add(1)?, v.assign_add([1.0f32, -3.0])?);
            let init = g.global_variables_initializer()?;
            let session = Session::new(&g);
            session.run(&init)?;
            let mut values = Vec::new();
            for at in 0..5u8 {
                session.run(&change)?;
                session.feed(&x, [f32::from(at), 10.0]).run(&update)?;
                session.run(&count)?;
                for average in [averages.average(&v).unwrap(), averages.average(&x).unwrap()] {
                    values.extend(numbers(&session.run(&average)?));
                }
            }
            let counted = if counted { " counted" } else { "" };
            check(&format!("average {}{counted}", kind(resource)), &values);
        }
    }
    let g = Graph::new();
    let x = g.placeholder_named("x", DType::Float, [2]);
    let averages = ExponentialMovingAverage::new(0.9).zero_debias(true);
    let update = averages.apply([&x])?;
    let init = g.global_variables_initializer()?;
    let session = Session::new(&g);
    session.run(&init)?;
    let mut values = Vec::new();
    for at in 0..5u8 {
        session.feed(&x, [f32::from(at), 10.0]).run(&update)?;
        values.extend(numbers(&session.run(&averages.average(&x).unwrap())?));
    }
    check("average debiased", &values);
    Ok(())
}

#[test]
fn the_average_of_a_variable_starts_with_the_value_it_has() -> Result<()> {
    let g = Graph::new();
    let v = g.variable("v", 1.0f32);
    let averages = ExponentialMovingAverage::new(0.5);
    averages.apply([&v])?;
    let average = averages.average(&v).unwrap();
    let session = Session::new(&g);
    session.run(v.initializer())?;
    session.run(v.assign(7.0)?)?;
    session.run(average.initializer())?;
    assert_eq!(session.run(&average)?.to_scalar::<f32>()?, 7.0);
    Ok(())
}

#[test]
fn gradients_are_clipped_as_in_tensorflow() -> Result<()> {
    let g = Graph::new();
    let x = g.constant([[3.0f32, -4.0, 0.0], [0.5, 0.25, -0.125]]);
    let y = g.constant([1.0f32, 2.0]);
    let session = Session::new(&g);
    check_run("clip norm", &session, &x.clip_by_norm(2.0, ..)?)?;
    check_run("clip norm of rows", &session, &x.clip_by_norm(2.0, [1])?)?;
    check_run("clip norm of zeros", &session, &g.zeros(DType::Float, [2])?.clip_by_norm(2.0, ..)?)?;
    check_run("clip average norm", &session, &x.clip_by_average_norm(0.5)?)?;
    let gradients = [Some(Gradient::Dense(x.clone())), None, Some(Gradient::Dense(y))];
    for limit in [3.0, 30.0] {
        let (clipped, norm) = g.clip_by_global_norm(&gradients, limit)?;
        assert!(clipped[1].is_none());
        let mut found = Vec::new();
        for gradient in clipped.iter().flatten() {
            found.extend(numbers(&session.run(gradient.values())?));
        }
        found.extend(numbers(&session.run(&norm)?));
        check(&format!("clip global norm {limit:?}"), &found);
    }
    let rows = IndexedSlices { values: x, indices: g.constant([1, 1]), dense_shape: g.constant([5, 3]) };
    let Gradient::Slices(clipped) = Gradient::Slices(rows).clip_by_norm(2.0)? else {
        panic!("rows stay rows")
    };
    check_run("clip norm", &session, &clipped.values)?;
    let infinite = g.clip_by_global_norm(&[Some(Gradient::Dense(g.constant([f32::INFINITY, 1.0])))], 1.0)?;
    let values = session.run(infinite.0[0].as_ref().unwrap().values())?;
    assert!(values.as_slice::<f32>()?.iter().all(|value| value.is_nan()));
    Ok(())
}

#[test]
fn losses_are_those_of_tensorflow() -> Result<()> {
    let g = Graph::new();
    let labels = g.constant([[0.0f32, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]);
    let logits = g.constant([[0.2f32, 1.5, -3.0], [0.1, 0.9, 0.3], [-40.0, 50.0, 2.0], [1.0, 0.5, 0.25]]);
    let probabilities =
        g.constant([[0.2f32, 0.7, 0.1], [0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.9, 0.05, 0.05]]);
    let classes = g.constant([1, 0, 2, 1]);
    let weights = [[1.0f32], [0.0], [2.0], [0.5]];
    let mut losses = vec![
        ("mean_squared_error", Loss::new().mean_squared_error(&labels, &logits)?),
        ("absolute_difference", Loss::new().absolute_difference(&labels, &logits)?),
        ("sigmoid_cross_entropy", Loss::new().sigmoid_cross_entropy(&labels, &logits)?),
        ("softmax_cross_entropy", Loss::new().softmax_cross_entropy(&labels, &logits)?),
        (
            "softmax_cross_entropy smoothed",
            Loss::new().smoothed_softmax_cross_entropy(&labels, &logits, 0.1)?,
        ),
        ("sparse_softmax_cross_entropy", Loss::new().sparse_softmax_cross_entropy(&classes, &logits)?),
        ("log_loss", Loss::new().log_loss(&labels, &probabilities)?),
        ("hinge_loss", Loss::new().hinge_loss(&labels, &logits)?),
        ("huber_loss", Loss::new().huber_loss(&labels, &logits, 0.7)?),
    ];
    for (name, reduction) in [
        ("none", Reduction::None),
        ("weighted_sum", Reduction::Sum),
        ("weighted_mean", Reduction::Mean),
        ("weighted_sum_over_batch_size", Reduction::SumOverBatchSize),
        ("weighted_sum_by_nonzero_weights", Reduction::SumByNonzeroWeights),
    ] {
        let loss = Loss::new().weights(weights).reduction(reduction).uncollected();
        losses.push((name, loss.mean_squared_error(&labels, &logits)?));
    }
    let by_row = Loss::new().weights([1.0f32, 0.0, 2.0, 0.5]).uncollected();
    losses.push(("weighted rows", by_row.sparse_softmax_cross_entropy(&classes, &logits)?));
    let session = Session::new(&g);
    for (name, loss) in &losses {
        check_run(&format!("loss {name}"), &session, loss)?;
    }
    assert_eq!(losses[0].1.name(), "mean_squared_error/value:0");
    assert_eq!(g.losses().len(), 9);
    let total = numbers(&session.run(&g.get_total_loss()?)?)[0];
    let sum: f64 = losses[..9].iter().map(|(name, _)| expected(&format!("loss {name}"))[0]).sum();
    assert!((total - sum).abs() < 1e-3, "{total} {sum}");
    let wrong = Loss::new().weights([1.0f32, 2.0]).mean_squared_error(&labels, &logits).unwrap_err();
    assert!(wrong.message().contains("weights can not be broadcast to values"), "{wrong}");
    Ok(())
}

#[test]
fn layers_and_initializers_compute_tensorflows_numbers() -> Result<()> {
    let g = Graph::new();
    let x = g.constant([[3.0f32, -4.0, 0.0], [0.5, 0.25, -0.125]]);
    let (mean, variance) = x.moments(&[0])?;
    let session = Session::new(&g);
    check_run("l2_normalize", &session, &x.l2_normalize(1)?)?;
    let mut moments = numbers(&session.run(&mean)?);
    moments.extend(numbers(&session.run(&variance)?));
    check("moments", &moments);

    let g = Graph::new();
    g.set_random_seed(7);
    let session = Session::new(&g);
    for (name, initializer) in [
        ("random_normal", Initializer::random_normal(1.0, 0.5).seed(2)),
        ("truncated_normal", Initializer::truncated_normal(0.0, 1.0).seed(3)),
        ("random_uniform", Initializer::random_uniform(-1.0, 1.0).seed(4)),
        ("glorot_uniform", Initializer::glorot_uniform().seed(6)),
        ("glorot_normal", Initializer::glorot_normal().seed(8)),
        ("he_normal", Initializer::he_normal().seed(5)),
    ] {
        let variable = g.get_variable(name).shape([2, 3]).initializer(initializer).build()?;
        session.run(variable.initializer())?;
        check_run(&format!("initializer {name}"), &session, &variable.value())?;
    }
    Ok(())
}
