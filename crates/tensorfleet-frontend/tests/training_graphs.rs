//! The training library builds the nodes that TensorFlow 2.21 builds for the same programs: names, ops, inputs, devices and
//! colocation groups, as listed in `tensorflow/graphs.txt` by `tensorflow/graphs.py`.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use tensorfleet::train::{
    Adadelta, Adagrad, Adam, Ftrl, GradientDescent, GradientsAndVariables, Momentum, Optimizer, RmsProp,
};
use tensorfleet::{
    ClusterSpec, DType, Gradient, Graph, IndexedSlices, Initializer, Result, Reuse, Variable,
    replica_device_setter,
};
use tensorfleet_proto::tensorflow::{NodeDef, attr_value::Value};

/// What TensorFlow lists under this title.
fn expected(title: &str) -> Vec<String> {
    let listings = include_str!("tensorflow/graphs.txt");
    let section = listings.split("== ").find_map(|section| section.strip_prefix(&format!("{title}\n")));
    section.unwrap().lines().map(|line| line.trim_end().to_string()).collect()
}

fn listed(node: NodeDef) -> String {
    let (mut control, mut inputs): (Vec<String>, Vec<String>) =
        node.input.into_iter().partition(|input| input.starts_with('^'));
    control.sort();
    inputs.extend(control);
    let value = |name: &str| node.attr.get(name).and_then(|attr| attr.value.clone());
    let class = match value("_class") {
        Some(Value::List(list)) => {
            let groups: Vec<String> = list.s.iter().map(|s| String::from_utf8(s.to_vec()).unwrap()).collect();
            groups.join(",")
        }
        _ => String::new(),
    };
    let mut fields = vec![node.name, node.op, inputs.join(","), node.device, class];
    for flag in ["use_locking", "use_nesterov"] {
        if let Some(Value::B(true)) = node.attr.get(flag).and_then(|attr| attr.value.clone()) {
            fields.push(flag.to_string());
        }
    }
    fields.join(" | ").trim_end().to_string()
}

fn listing(g: &Graph) -> Vec<String> {
    g.to_graph_def().node.into_iter().map(listed).collect()
}

/// Compares as sets first, since that tells more.
fn check(title: &str, g: &Graph) {
    check_where(title, g, |_| true);
}

fn check_where(title: &str, g: &Graph, is_compared: impl Fn(&str) -> bool) {
    let keep =
        |lines: Vec<String>| -> Vec<String> { lines.into_iter().filter(|line| is_compared(line)).collect() };
    let (found, expected) = (keep(listing(g)), keep(expected(title)));
    let missing: Vec<&String> = expected.iter().filter(|line| !found.contains(line)).collect();
    let surplus: Vec<&String> = found.iter().filter(|line| !expected.contains(line)).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "{title}\nmissing {missing:#?}\nsurplus {surplus:#?}");
    assert_eq!(found, expected, "{title}: the order differs");
}

fn variable(g: &Graph, name: &str, resource: bool, initial: impl tensorfleet::Operand) -> Variable {
    let variable = g.new_variable(name);
    if resource { variable.resource().init(initial) } else { variable.init(initial) }
}

fn step(g: &Graph, resource: bool) -> Result<Variable> {
    let step = g.get_variable("global_step").shape(()).dtype(DType::Int64);
    let step = step.initializer(Initializer::zeros()).untrainable();
    if resource { step.resource().build() } else { step.build() }
}

fn dense(output: &tensorfleet::Output) -> Option<Gradient> {
    Some(Gradient::Dense(output.clone()))
}

fn one_step(optimizer: &dyn Optimizer, resource: bool) -> Result<Graph> {
    let g = Graph::new();
    let (v, e) = g.variable_scope("m", || {
        let v = variable(&g, "v", resource, [1.0f32, 2.0]);
        (v, variable(&g, "e", resource, [[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    });
    let step = step(&g, resource)?;
    let whole = g.constant_named("dense", [0.1f32, 0.2]);
    let rows = IndexedSlices {
        values: g.constant_named("values", [[0.1f32, 0.2], [0.3, 0.4]]),
        indices: g.constant_named("indices", [1, 1]),
        dense_shape: g.constant_named("shape", [3, 2]),
    };
    optimizer.apply_gradients(&[(dense(&whole), v), (Some(Gradient::Slices(rows)), e)], Some(&step))?;
    Ok(g)
}

#[test]
fn every_optimizer_builds_what_tensorflow_builds() -> Result<()> {
    type Make = fn() -> Box<dyn Optimizer>;
    let optimizers: [(&str, Make); 9] = [
        ("GradientDescent", || Box::new(GradientDescent::new(0.1))),
        ("Adagrad", || Box::new(Adagrad::new(0.1))),
        ("Adam", || Box::new(Adam::new(0.1))),
        ("Momentum", || Box::new(Momentum::new(0.1, 0.9).use_nesterov(true))),
        ("RMSProp", || Box::new(RmsProp::new(0.1).momentum(0.5))),
        ("CenteredRMSProp", || Box::new(RmsProp::new(0.1).momentum(0.5).centered(true))),
        ("Ftrl", || Box::new(Ftrl::new(0.1).l1(0.01))),
        ("FtrlV2", || Box::new(Ftrl::new(0.1).l2_shrinkage(0.01))),
        ("Adadelta", || Box::new(Adadelta::new(0.1))),
    ];
    for (name, make) in optimizers {
        for (kind, resource) in [("reference", false), ("resource", true)] {
            check(&format!("{name} {kind}"), &one_step(&*make(), resource)?);
        }
    }
    Ok(())
}

#[test]
fn slots_and_updates_stand_with_their_variables_on_parameter_servers() -> Result<()> {
    for (kind, resource) in [("reference", false), ("resource", true)] {
        let g = Graph::new();
        let cluster = ClusterSpec::from_hosts("a:1,b:1", "c:1")?;
        let setter = replica_device_setter().cluster(&cluster).worker_device("/job:worker/task:0");
        g.device(setter, || -> Result<()> {
            let a = variable(&g, "a", resource, [1.0f32, 2.0]);
            let b = variable(&g, "b", resource, [1.0f32, 2.0]);
            let step = step(&g, resource)?;
            let ones = g.constant([1.0f32, 1.0]);
            let both: GradientsAndVariables = vec![(dense(&ones), a.clone()), (dense(&ones), b.clone())];
            Adam::new(0.1).apply_gradients(&both, Some(&step))?;
            let row = IndexedSlices {
                values: g.constant([1.0f32]),
                indices: g.constant([0]),
                dense_shape: g.constant([2]),
            };
            let mixed = [(dense(&ones), a.clone()), (Some(Gradient::Slices(row)), b.clone())];
            GradientDescent::new(0.1).apply_gradients(&mixed, Some(&step))?;
            GradientDescent::new(0.1).apply_gradients(&[(dense(&ones), a), (None, b)], None)?;
            Ok(())
        })?;
        check(&format!("cluster {kind}"), &g);
    }
    Ok(())
}

#[test]
fn several_optimizers_share_a_graph_and_follow_its_scopes() -> Result<()> {
    let g = Graph::new();
    g.name_scope("ns", || -> Result<()> {
        let v = g.variable("v", [1.0f32, 2.0]);
        let gradient = [(dense(&g.constant([1.0f32, 1.0])), v)];
        let adam = Adam::new(0.1);
        adam.apply_gradients(&gradient, None)?;
        adam.apply_gradients(&gradient, None)?;
        Adam::new(0.1).apply_gradients(&gradient, None)?;
        Adam::new(0.1).name("Mine").apply_gradients_named(&gradient, None, Some("train"))?;
        g.variable_scope("vs", || {
            Adagrad::new(0.1).use_locking(true).apply_gradients(&gradient, None)?;
            let rate = g.constant_named("rate", 0.1f32);
            Momentum::new(&rate, 0.9).apply_gradients(&gradient, None).map(|_| ())
        })
    })?;
    check("scopes", &g);
    Ok(())
}

#[test]
fn variables_by_name_and_their_initializers() -> Result<()> {
    let g = Graph::new();
    g.set_random_seed(7);
    let make =
        |name: &str, initializer: Initializer| g.get_variable(name).shape([3, 2]).initializer(initializer);
    g.variable_scope("s", || -> Result<()> {
        make("zeros", Initializer::zeros()).build()?;
        make("ones", Initializer::ones()).resource().build()?;
        make("constant", Initializer::constant(0.3)).build()?;
        make("normal", Initializer::random_normal(1.0, 0.5)).build()?;
        make("truncated", Initializer::truncated_normal(0.0, 1.0)).resource().build()?;
        make("uniform", Initializer::random_uniform(-1.0, 1.0)).build()?;
        g.get_variable("default").shape([3, 2]).build()?;
        Ok(())
    })?;
    g.get_variable("integers").shape([2]).dtype(DType::Int32).build()?;
    g.get_variable("value").value([1.0f32, 2.0]).build()?;
    g.get_variable("resource_value").value([1.0f32, 2.0]).resource().build()?;
    for _ in 0..2 {
        g.new_variable_scope("again").reuse(Reuse::Auto).enter(|| -> Result<()> {
            let w = g.get_variable("w").shape([2]).initializer(Initializer::zeros()).build()?;
            w.value().add(1.0)?;
            Ok(())
        })?;
    }
    for _ in 0..2 {
        g.unique_variable_scope("unique", || {
            g.get_variable("w").shape([2]).initializer(Initializer::zeros()).build()
        })?;
    }
    check("variables", &g);
    Ok(())
}

#[test]
fn schedules_have_tensorflows_nodes() -> Result<()> {
    use tensorfleet::train::{Decay, PolynomialDecay};
    let g = Graph::new();
    let step = step(&g, false)?;
    let polynomial = |cycle| PolynomialDecay { end_learning_rate: 0.01, power: 2.0, cycle };
    g.exponential_decay(0.1, &step, 10, 0.9, Decay::Smooth)?;
    g.exponential_decay(0.1, &step, 10, 0.9, Decay::Staircase)?;
    g.polynomial_decay(0.1, &step, 10, polynomial(false))?;
    g.polynomial_decay(0.1, &step, 10, polynomial(true))?;
    g.natural_exp_decay(0.1, &step, 10, 0.5, Decay::Smooth)?;
    g.natural_exp_decay(0.1, &step, 10, 0.5, Decay::Staircase)?;
    g.inverse_time_decay(0.1, &step, 10, 0.5, Decay::Smooth)?;
    g.inverse_time_decay(0.1, &step, 10, 0.5, Decay::Staircase)?;
    g.cosine_decay(0.1, &step, 10, 0.2)?;
    check("schedules", &g);

    let g = Graph::new();
    let step = self::step(&g, true)?;
    g.exponential_decay(0.1, &step, 10, 0.9, Decay::Smooth)?;
    check("resource schedule", &g);
    Ok(())
}

/// TensorFlow makes the first value of an average from copies of conditions; what a checkpoint or a run by name meets are
/// the other nodes.
fn is_no_first_value(line: &str) -> bool {
    let name = line.split(' ').next().unwrap();
    let parts: Vec<&str> = name.split('/').collect();
    let is_condition = parts.contains(&"cond") || name.ends_with("IsVariableInitialized");
    let is_initializer = name.ends_with("Average/Assign") || name.ends_with("v/E/Assign");
    !is_condition && !is_initializer && name != "VarIsInitializedOp"
}

#[test]
fn moving_averages_have_tensorflows_nodes() -> Result<()> {
    use tensorfleet::train::ExponentialMovingAverage;
    for (kind, resource) in [("reference", false), ("resource", true)] {
        for (counted, is_counted) in [("", false), ("counted ", true)] {
            let g = Graph::new();
            let v = variable(&g, "v", resource, [1.0f32, 2.0]);
            let mut averages = ExponentialMovingAverage::new(0.9);
            if is_counted {
                averages = averages.num_updates(&step(&g, resource)?);
            }
            averages.apply([&v])?;
            check_where(&format!("{counted}averages {kind}"), &g, is_no_first_value);
        }
    }
    let g = Graph::new();
    let v = g.variable("v", [1.0f32, 2.0]);
    let x = g.placeholder_named("x", DType::Float, [2]);
    let averages = ExponentialMovingAverage::new(0.9).zero_debias(true).name("E");
    g.name_scope("ns", || averages.apply((&v, &x)))?;
    check_where("averages of outputs", &g, is_no_first_value);
    Ok(())
}

#[test]
fn clips_have_tensorflows_nodes() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder_named("x", DType::Float, [2, 3]);
    let y = g.placeholder_named("y", DType::Float, [2]);
    x.clip_by_norm(2.0, ..)?;
    x.clip_by_norm(2.0, [1])?;
    let gradients = [dense(&x), None, dense(&y)];
    g.clip_by_global_norm(&gradients, 3.0)?;
    x.clip_by_average_norm(2.0)?;
    g.global_norm([gradients[0].as_ref(), gradients[2].as_ref()])?;
    let rows = IndexedSlices { values: x, indices: g.constant([1, 1]), dense_shape: g.constant([5, 3]) };
    let rows = Gradient::Slices(rows);
    rows.clip_by_norm(2.0)?;
    g.clip_by_global_norm(&[Some(rows)], 3.0)?;
    check("clips", &g);
    Ok(())
}

#[test]
fn reports_of_variables_have_tensorflows_nodes() -> Result<()> {
    let g = Graph::new();
    let a = g.variable("a", 1.0f32);
    g.new_variable("b").resource().init(1.0f32);
    g.report_uninitialized_variables()?;
    a.is_initialized()?;
    g.assert_variables_initialized()?;
    g.variables_initializer(&[a])?;
    check("uninitialized", &g);
    Ok(())
}

#[test]
fn layers_have_tensorflows_nodes() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder_named("x", DType::Float, [-1, 3]);
    x.dropout(0.3, None)?;
    x.dropout(0.3, Some(5))?;
    x.l2_normalize(1)?;
    x.moments(&[0])?;
    let weights = g.constant_named("W", [[1.0f32], [2.0], [3.0]]);
    x.xw_plus_b(&weights, g.constant_named("B", [1.0f32]))?;
    check("layers", &g);
    Ok(())
}
