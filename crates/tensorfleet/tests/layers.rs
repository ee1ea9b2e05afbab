//! Layers, embeddings, losses and metrics compute what TensorFlow 1.15 computes for the same programs, with variables of the
//! same names, as listed in `tensorflow/layers.txt` by `tensorflow/layers.py`.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use tensorfleet::{DType, DataFormat, Graph, Output, Padding, Result, Reuse, Session, Tensor, Variable};

/// What TensorFlow lists under this title.
fn listed(title: &str) -> &'static str {
    let start = format!("{title} | ");
    let line = include_str!("tensorflow/layers.txt").lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no line '{title}'"))
}

/// Floats may differ in the last bits, since sums are taken in another order.
#[track_caller]
fn check(title: &str, found: &[f32]) {
    let expected: Vec<f32> = listed(title).split_whitespace().map(|number| number.parse().unwrap()).collect();
    let is_near =
        |(found, expected): (&f32, &f32)| (found - expected).abs() <= 3e-6 * expected.abs().max(1.0);
    let fits = found.len() == expected.len() && found.iter().zip(&expected).all(is_near);
    assert!(fits, "{title}:\n   found {found:?}\nexpected {expected:?}");
}

#[track_caller]
fn check_run(title: &str, session: &Session, output: &Output) {
    check(title, session.run(output).unwrap().as_slice::<f32>().unwrap());
}

/// The numbers of `pattern` in `layers.py`.
fn pattern(shape: &[usize], period: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let number = |i: usize| ((i * 7 % period) as f64 - (period / 2) as f64) / 10.0;
    let numbers: Vec<f32> = (0..count).map(|i| number(i) as f32).collect();
    Tensor::from_slice(&numbers, shape).unwrap()
}

fn dims(variable: &Variable) -> Vec<usize> {
    variable.shape().unwrap().to_shape().unwrap().to_vec()
}

/// A session in which trainable variables have the numbers of the pattern, as `fill` in `layers.py` gives them.
fn filled(g: &Graph) -> Result<Session> {
    let init = g.global_variables_initializer()?;
    let mut fill = Vec::new();
    for variable in g.trainable_variables() {
        fill.push(variable.assign(pattern(&dims(&variable), 13))?.operation());
    }
    let session = Session::new(g);
    session.run(&init)?;
    session.run(&fill)?;
    Ok(session)
}

/// Names, shapes and whether they are trained.
#[track_caller]
fn check_variables(title: &str, g: &Graph) {
    let trainable: Vec<String> = g.trainable_variables().iter().map(Variable::name).collect();
    let describe = |variable: &Variable| {
        let shape: Vec<String> = dims(variable).iter().map(|dim| dim.to_string()).collect();
        let is_trainable = if trainable.contains(&variable.name()) { "t" } else { "" };
        format!("{}[{}]{is_trainable}", variable.name(), shape.join(","))
    };
    let found: Vec<String> = g.global_variables().iter().map(describe).collect();
    assert_eq!(found.join(" "), listed(&format!("{title} variables")));
}

#[test]
fn convolutions_and_pools() -> Result<()> {
    let g = Graph::new();
    let x = g.constant(pattern(&[2, 7, 6, 3], 11));
    let layer = || g.conv2d(4, [3, 2]).activation(Output::relu);
    let valid = layer().build(&x)?;
    let strided = layer().padding(Padding::Same).strides([2, 1]).build(&x)?;
    let dilated = layer().padding(Padding::Same).dilation(2).build(&x)?;
    check_variables("conv2d", &g);
    let session = filled(&g)?;
    check_run("conv2d valid", &session, &valid);
    check_run("conv2d same strided", &session, &strided);
    check_run("conv2d dilated", &session, &dilated);
    check_run("max_pool2d", &session, &g.max_pool2d(3, 2).padding(Padding::Same).build(&x)?);
    check_run("avg_pool2d", &session, &g.avg_pool2d([2, 3], [2, 1]).build(&x)?);
    let flat = g.flatten(&x)?.shape()?;
    assert_eq!(flat.to_string().replace(',', " ").trim_matches(['[', ']']), listed("flatten"));
    Ok(())
}

/// TensorFlow has no convolution with channels first on processors, so this is held against channels last.
#[test]
fn channels_first_is_channels_last_transposed() -> Result<()> {
    let g = Graph::new();
    let x = g.constant(pattern(&[2, 7, 6, 3], 11));
    let first = x.transpose([0, 3, 1, 2])?;
    let model = |x: &Output, format: DataFormat| {
        g.new_variable_scope("model").reuse(Reuse::Auto).enter(|| {
            let y = g.conv2d(4, 3).name("conv").strides(2).data_format(format).build(x)?;
            let y = g.batch_normalization().name("norm").training(true).data_format(format).build(&y)?;
            g.max_pool2d(2, 1).data_format(format).build(&y)
        })
    };
    let last = model(&x, DataFormat::Nhwc)?;
    let first = model(&first, DataFormat::Nchw)?.transpose([0, 2, 3, 1])?;
    assert_eq!(g.trainable_variables().len(), 4);
    let (last, first) = filled(&g)?.run((&last, &first))?;
    for (last, first) in last.as_slice::<f32>()?.iter().zip(first.as_slice::<f32>()?) {
        assert!((last - first).abs() < 1e-5, "{last} {first}");
    }
    Ok(())
}

fn batch_norm(title: &str, shape: &[usize]) -> Result<()> {
    let g = Graph::new();
    let x = g.constant(pattern(shape, 11));
    let layer = || g.batch_normalization().name("bn").momentum(0.9);
    let y = layer().training(true).build(&x)?;
    let root = g.current_variable_scope();
    let asked = g.again_in(&root).reuse(Reuse::Yes).enter(|| layer().training(false).build(&x))?;
    let decided = g.placeholder(DType::Bool, ());
    let either = g.again_in(&root).reuse(Reuse::Yes).enter(|| layer().training(&decided).build(&x))?;
    let updates = g.update_ops();
    assert_eq!(updates.len(), 4, "two averages of each layer that may be trained");
    let weighted = (&y * pattern(shape, 7)).check()?.reduce_sum(..)?;
    let variables = g.trainable_variables();
    let gradients = g.gradients([&weighted], [&x, &variables[0].value(), &variables[1].value()])?;
    check_variables(title, &g);

    let session = filled(&g)?;
    for (name, gradient) in ["x", "gamma", "beta"].iter().zip(gradients) {
        check_run(&format!("{title} gradient {name}"), &session, &gradient.unwrap().dense()?);
    }
    for _ in 0..2 {
        session.run(&updates[..2].to_vec())?;
    }
    check_run(&format!("{title} training"), &session, &y);
    for variable in &g.global_variables()[2..] {
        check_run(&format!("{title} {}", variable.name()), &session, &variable.value());
    }
    check_run(&format!("{title} inference"), &session, &asked);
    // The flag of a run decides like the flag of the graph; averages stay as they are when the model is only asked.
    for (flag, name) in [(true, "training"), (false, "inference")] {
        let value = session.feed(&decided, flag).run(&either)?;
        check(&format!("{title} {name}"), value.as_slice::<f32>()?);
    }
    session.feed(&decided, false).run(&updates[2..].to_vec())?;
    check_run(&format!("{title} bn/moving_mean"), &session, &g.global_variables()[2].value());
    Ok(())
}

#[test]
fn batch_normalization_of_images() -> Result<()> {
    batch_norm("batch_norm 4d", &[2, 3, 2, 3])
}

#[test]
fn batch_normalization_of_rows() -> Result<()> {
    batch_norm("batch_norm 2d", &[5, 3])
}

#[test]
fn images_of_unknown_channels_are_refused_with_the_shape() {
    let g = Graph::new();
    let x = g.placeholder(DType::Float, [-1, 8, 8, -1]);
    let error = g.conv2d(4, 3).build(&x).unwrap_err();
    assert!(error.message().contains("[?,8,8,?]"), "{error}");
    let error = g.conv2d(4, 3).strides(2).dilation(2).build(&x).unwrap_err();
    assert!(error.message().contains("cannot both differ from 1"), "{error}");
}
