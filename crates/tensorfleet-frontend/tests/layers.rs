//! Layers, embeddings, losses and metrics compute what TensorFlow 1.15 computes for the same programs, with variables of the
//! same names, as listed in `tensorflow/layers.txt` by `tensorflow/layers.py`.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use tensorfleet::{
    BasicRnnCell, Candidates, Combiner, Curve, DType, DataFormat, Gradient, Graph, GruCell, Loss, LstmCell,
    Metric, MultiRnnCell, Output, Padding, PartitionStrategy, PartitionedVariable, Partitioner, Result,
    Reuse, RnnCell, SampledLoss, Session, SparseTensor, Tensor, Variable,
};

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
    let is_near = |(found, expected): (&f32, &f32)| {
        (found.is_nan() && expected.is_nan()) || (found - expected).abs() <= 3e-6 * expected.abs().max(1.0)
    };
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

/// Gradients of the parts, one after the other.
fn part_gradients(g: &Graph, loss: &Output, parts: &[Variable]) -> Result<Output> {
    let mut dense = Vec::new();
    for gradient in g.gradients([loss], parts.to_vec())? {
        let gradient = gradient.unwrap();
        assert!(matches!(gradient, Gradient::Slices(_)), "rows stay rows");
        dense.push(gradient.dense()?);
    }
    g.concat(dense, 0)
}

fn table(g: &Graph, scope: &str) -> Result<PartitionedVariable> {
    let table = || g.get_variable("table").shape([7, 2]).partitioner(Partitioner::fixed_size(3)).build();
    g.variable_scope(scope, table)
}

#[test]
fn embeddings_of_divided_tables() -> Result<()> {
    let g = Graph::new();
    let ids = [[3i64, 0, 6], [5, 6, 1]];
    let mut built = Vec::new();
    for (name, strategy) in [("mod", PartitionStrategy::Mod), ("div", PartitionStrategy::Div)] {
        let table = table(&g, name)?;
        let rows = g.embedding_lookup(&table, g.constant(ids), strategy)?;
        assert_eq!(rows.shape()?.to_string(), "[2,3,2]");
        // Ids of which nothing is known in advance are looked up all the same.
        let fed = g.placeholder(DType::Int64, [-1, 3]);
        let fed_rows = g.embedding_lookup(&table, &fed, strategy)?;
        assert_eq!(fed_rows.shape()?.to_string(), "[?,3,2]");
        let loss = rows.mul(pattern(&[2, 3, 2], 7))?.reduce_sum(..)?;
        let gradients = part_gradients(&g, &loss, table.parts())?;
        built.push((name, rows, fed, fed_rows, gradients));
    }
    check_variables("embedding", &g);
    let session = filled(&g)?;
    for (name, rows, fed, fed_rows, gradients) in built {
        check_run(&format!("embedding {name}"), &session, &rows);
        check(&format!("embedding {name}"), session.feed(&fed, ids).run(&fed_rows)?.as_slice::<f32>()?);
        check_run(&format!("embedding {name} gradients"), &session, &gradients);
    }
    Ok(())
}

#[test]
fn sparse_embeddings() -> Result<()> {
    let g = Graph::new();
    let table = table(&g, "div")?;
    let indices = [[0i64, 0], [0, 1], [2, 0], [2, 1], [2, 3]];
    let ids = SparseTensor::new(&g, indices, [3i64, 0, 6, 3, 5], [3i64, 4])?;
    let weights = SparseTensor::new(&g, indices, [1.0f32, 2.0, 0.5, 3.0, 0.0], [3i64, 4])?;
    let mut built = Vec::new();
    for (name, combiner) in [("sum", Combiner::Sum), ("mean", Combiner::Mean), ("sqrtn", Combiner::SqrtN)] {
        for (suffix, weights) in [("", None), (" weighted", Some(&weights))] {
            let rows = g.embedding_lookup_sparse(&table, &ids, weights, combiner, PartitionStrategy::Div)?;
            let loss = rows.mul(pattern(&[3, 2], 7))?.reduce_sum(..)?;
            let gradients = part_gradients(&g, &loss, table.parts())?;
            built.push((format!("embedding_sparse {name}{suffix}"), rows, gradients));
        }
    }
    let ids = SparseTensor::new(&g, [[0i64, 0], [0, 1], [3, 0], [3, 1]], [3i64, -1, 6, 2], [4i64, 2])?;
    let safe = g.safe_embedding_lookup_sparse(&table, &ids, None, Combiner::Mean, PartitionStrategy::Div)?;
    let session = filled(&g)?;
    for (title, rows, gradients) in built {
        check_run(&title, &session, &rows);
        check_run(&format!("{title} gradients"), &session, &gradients);
    }
    check_run("embedding_safe", &session, &safe);
    Ok(())
}

#[test]
fn partitioners_divide_as_tensorflow_does() -> Result<()> {
    let cases: [(&str, Partitioner, &[[usize; 2]]); 4] = [
        ("fixed", Partitioner::fixed_size(3), &[[7, 2], [2, 5]]),
        ("fixed axis 1", Partitioner::fixed_size(2).axis(1), &[[7, 5]]),
        ("variable_axis_size", Partitioner::variable_axis_size(64).max_parts(5), &[[7, 4], [100, 4], [2, 1]]),
        ("min_max", Partitioner::min_max(4).min_part_bytes(64), &[[7, 4], [100, 4], [5, 5]]),
    ];
    for (name, partitioner, shapes) in cases {
        for shape in shapes {
            let g = Graph::new();
            let whole = g.get_variable("v").shape(*shape).partitioner(partitioner.clone()).build()?;
            let mut offset = [0; 2];
            let mut found = Vec::new();
            for part in whole.parts() {
                let size = dims(part);
                let [a, b] = [0, 1].map(|axis| format!("{},{}", offset[axis], size[axis]));
                found.push(format!("{}:{}_{}_{a}:{b}", part.name(), shape[0], shape[1]));
                offset[whole.axis()] += size[whole.axis()];
            }
            assert_eq!(found.join(" "), listed(&format!("partition {name} [{},{}]", shape[0], shape[1])));
        }
    }
    let g = Graph::new();
    let none = g.get_variable("v").shape([3]).partitioner(Partitioner::fixed_size(0)).build();
    assert!(none.unwrap_err().message().contains("no parts"));
    let error = g.get_variable("v").shape([3]).partitioner(Partitioner::fixed_size(2).axis(1)).build();
    assert!(error.unwrap_err().message().contains("axis 1"));
    Ok(())
}

#[test]
fn metrics_add_up() -> Result<()> {
    let g = Graph::new();
    let [labels, predictions, weights] = [(); 3].map(|()| g.placeholder(DType::Float, [-1]));
    let decided = predictions.greater(0.5)?.cast(DType::Float)?;
    let plain = Metric::new;
    let weighted = || Metric::new().weights(&weights);
    let metrics = [
        ("mean", plain().mean(&predictions)?),
        ("weighted mean", weighted().mean(&predictions)?),
        ("accuracy", plain().accuracy(&labels, &decided)?),
        ("weighted accuracy", weighted().accuracy(&labels, &decided)?),
        ("precision", plain().precision(&labels, &decided)?),
        ("recall", weighted().recall(&labels, &decided)?),
        ("auc", plain().auc(&labels, &predictions)?),
        ("weighted auc", weighted().auc(&labels, &predictions)?),
        ("auc pr", plain().auc_of(&labels, &predictions, Curve::PrecisionRecall, 20)?),
        ("mean_squared_error", plain().mean_squared_error(&labels, &predictions)?),
        ("root_mean_squared_error", plain().root_mean_squared_error(&labels, &predictions)?),
    ];
    let describe = |variable: &Variable| format!("{}{:?}", variable.name(), dims(variable));
    let found: Vec<String> = g.local_variables().iter().map(describe).collect();
    assert_eq!(found.join(" "), listed("metrics variables"));
    assert!(g.global_variables().is_empty());

    let session = Session::new(&g);
    session.run(g.local_variables_initializer()?)?;
    for (batch, count) in [(0, 8), (1, 5)] {
        let column =
            |number: &dyn Fn(usize) -> f64| -> Vec<f32> { (0..count).map(|i| number(i) as f32).collect() };
        let p = column(&|i| (i * 7 % 11) as f64 / 11.0 + 0.01 * f64::from(batch));
        let l = column(&|i| (i * 3 % 5 % 2) as f64);
        let w = column(&|i| (i % 3) as f64 / 2.0);
        for (name, metric) in &metrics {
            let feed = session.feed(&labels, &l[..]).feed(&predictions, &p[..]).feed(&weights, &w[..]);
            let update = feed.run(&metric.update)?.to_scalar::<f32>()?;
            let value = session.run(&metric.value)?.to_scalar::<f32>()?;
            check(&format!("metric {name} {batch}"), &[update, value]);
        }
    }
    let other = g.placeholder(DType::Float, [3]);
    let error = plain().auc(&g.placeholder(DType::Float, [2]), &other).unwrap_err();
    assert!(error.message().contains("[2]") && error.message().contains("[3]"), "{error}");
    Ok(())
}

/// Applies a cell with a loop and, where no sequence ends early, step by step, and compares both with TensorFlow.
fn recurrent(title: &str, cell: &dyn RnnCell) -> Result<()> {
    for lengths in [None, Some([4, 2, 0])] {
        let g = Graph::new();
        let x = g.constant(pattern(&[3, 4, 2], 11));
        let rnn = g.dynamic_rnn(cell);
        let rnn = match lengths {
            Some(lengths) => rnn.sequence_length(lengths),
            None => rnn,
        };
        let (outputs, state) = rnn.build(&x)?;
        let ragged = if lengths.is_some() { " ragged" } else { "" };
        check_variables(title, &g);
        check_recurrent(&format!("{title}{ragged}"), &g, &x, &outputs, &state)?;
    }
    let g = Graph::new();
    let x = g.constant(pattern(&[3, 4, 2], 11));
    let steps = x.transpose([1, 0, 2])?.unstack()?;
    let (outputs, state) = g.static_rnn(cell, &steps, None)?;
    let outputs = g.stack(&outputs)?.transpose([1, 0, 2])?;
    check_variables(title, &g);
    check_recurrent(title, &g, &x, &outputs, &state)
}

fn check_recurrent(title: &str, g: &Graph, x: &Output, outputs: &Output, state: &[Output]) -> Result<()> {
    let shape = outputs.shape()?.to_shape().unwrap();
    let loss = outputs.mul(pattern(&shape, 7))?.reduce_sum(..)?;
    let mut of = vec![x.clone()];
    of.extend(g.trainable_variables().iter().map(Variable::value));
    let mut gradients = Vec::new();
    for gradient in g.gradients([&loss], of)? {
        gradients.push(gradient.unwrap().dense()?.reshape([-1])?);
    }
    let flat: Vec<Output> = state.iter().map(|part| part.reshape([-1])).collect::<Result<_>>()?;
    let (gradients, state) = (g.concat(gradients, 0)?, g.concat(flat, 0)?);
    let session = filled(g)?;
    check_run(&format!("{title} outputs"), &session, outputs);
    check_run(&format!("{title} state"), &session, &state);
    check_run(&format!("{title} gradients"), &session, &gradients);
    Ok(())
}

#[test]
fn recurrent_cells() -> Result<()> {
    recurrent("lstm", &LstmCell::basic(3))?;
    recurrent("lstm_cell", &LstmCell::new(3))?;
    recurrent("gru", &GruCell::new(3))?;
    recurrent("rnn", &BasicRnnCell::new(3))?;
    recurrent("stack", &MultiRnnCell::new(vec![Box::new(LstmCell::basic(3)), Box::new(GruCell::new(2))]))
}

#[test]
fn losses_of_drawn_classes() -> Result<()> {
    let g = Graph::new();
    let weights = g.get_variable("weights").shape([9, 3]).partitioner(Partitioner::fixed_size(2)).build()?;
    let biases = g.get_variable("biases").shape([9]).build()?;
    let inputs = g.constant(pattern(&[2, 3], 11));
    let mut built = Vec::new();
    for (num_true, labels) in [(1, vec![3i64, 5]), (2, vec![3, 1, 5, 5])] {
        let labels = g.constant(Tensor::from_slice(&labels, &[2, num_true])?);
        let expected: Vec<f32> = (0..2 * num_true).map(|i| 0.1 + i as f32 / 10.0).collect();
        let candidates = Candidates {
            ids: g.constant([3i64, 0, 7, 1]),
            true_expected: g.constant(Tensor::from_slice(&expected, &[2, num_true])?),
            expected: g.constant([0.4f32, 0.9, 0.2, 0.7]),
        };
        for (name, is_nce) in [("nce", true), ("sampled_softmax", false)] {
            for (suffix, removes) in [("with hits", false), ("without hits", true)] {
                let loss = SampledLoss::new(&weights, &biases, 9)
                    .num_sampled(4)
                    .candidates(candidates.clone())
                    .remove_accidental_hits(removes)
                    .partition_strategy(PartitionStrategy::Div);
                let loss = match is_nce {
                    true => loss.nce(&labels, &inputs)?,
                    false => loss.softmax(&labels, &inputs)?,
                };
                let sum = loss.reduce_sum(..)?;
                let mut gradients = Vec::new();
                let mut of = vec![inputs.clone()];
                of.extend([&biases].into_iter().chain(weights.parts()).map(Variable::value));
                for gradient in g.gradients([&sum], of)? {
                    gradients.push(gradient.unwrap().dense()?.reshape([-1])?);
                }
                built.push((format!("{name} {num_true} {suffix}"), loss, g.concat(gradients, 0)?));
            }
        }
    }
    let session = filled(&g)?;
    for (title, loss, gradients) in built {
        check_run(&title, &session, &loss);
        check_run(&format!("{title} gradients"), &session, &gradients);
    }
    Ok(())
}

#[test]
fn more_losses() -> Result<()> {
    let g = Graph::new();
    let (labels, logits) = (g.constant([1.0f32, 0.0, 1.0]), g.constant([0.3f32, -0.7, 2.0]));
    let session = Session::new(&g);
    check_run("weighted_cross_entropy", &session, &logits.weighted_cross_entropy(&labels, 3.0)?);
    let (a, b) = (g.constant(pattern(&[2, 3], 11)), g.constant(pattern(&[2, 3], 7)));
    check_run("cosine_distance", &session, &Loss::new().cosine_distance(&a, &b, 1)?);
    Ok(())
}
