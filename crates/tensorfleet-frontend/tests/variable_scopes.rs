//! Who may make which variable, who finds it, and what is said otherwise; towers that share variables; train ops that
//! cannot be built.

#![allow(clippy::unwrap_used)]

use tensorfleet::train::{Adam, GradientDescent, MinimizeOptions, Optimizer, average_gradients, towers};
use tensorfleet::{
    Code, DType, Gradient, Graph, IndexedSlices, Initializer, Result, Reuse, Session, Variable,
};

fn zeros(g: &Graph, name: &str) -> Result<Variable> {
    g.get_variable(name).shape([2]).initializer(Initializer::zeros()).build()
}

#[track_caller]
fn refused(result: Result<Variable>, fragment: &str) {
    let status = result.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains(fragment), "{status} should contain {fragment}");
}

#[test]
fn a_variable_is_made_once_and_shared_on_request() -> Result<()> {
    let g = Graph::new();
    g.variable_scope("s", || -> Result<()> {
        zeros(&g, "w")?;
        refused(zeros(&g, "w"), "Variable s/w already exists");
        Ok(())
    })?;
    let again = |reuse| g.new_variable_scope("s").reuse(reuse);
    again(Reuse::Yes).enter(|| -> Result<()> {
        assert_eq!(zeros(&g, "w")?.name(), "s/w");
        assert_eq!(g.get_variable("w").build()?.name(), "s/w");
        refused(zeros(&g, "z"), "Variable s/z does not exist");
        refused(
            g.get_variable("w").shape([3]).build(),
            "Trying to share variable s/w, but specified shape [3] and found shape [2]",
        );
        refused(
            g.get_variable("w").shape([2]).dtype(DType::Int32).build(),
            "Trying to share variable s/w, but specified dtype int32 and found dtype float",
        );
        // Reuse is inherited, and may be loosened.
        g.variable_scope("t", || refused(zeros(&g, "w"), "Variable s/t/w does not exist"));
        g.new_variable_scope("t").reuse(Reuse::Auto).enter(|| zeros(&g, "w")).map(|_| ())
    })?;
    again(Reuse::Auto).enter(|| -> Result<()> {
        assert_eq!((zeros(&g, "w")?.name(), zeros(&g, "n")?.name()), ("s/w".into(), "s/n".into()));
        // Ops of a scope entered again have a name scope of their own.
        assert!(g.constant(1).name().starts_with("s_"));
        Ok(())
    })?;
    let names: Vec<String> = g.global_variables().iter().map(Variable::name).collect();
    assert_eq!(names, ["s/w", "s/t/w", "s/n"]);
    assert_eq!(g.current_variable_scope().name(), "");
    Ok(())
}

#[test]
fn a_scope_says_what_its_variables_are() -> Result<()> {
    let g = Graph::new();
    let outer = g.new_variable_scope("p").initializer(Initializer::constant(3.0)).resource();
    let (inner, scope) = outer.enter(|| {
        let inner = g.variable_scope("q", || g.get_variable("w").shape([2]).build());
        (inner, g.current_variable_scope())
    });
    let inner = inner?;
    assert_eq!((inner.name(), inner.is_resource()), ("p/q/w".to_string(), true));
    let later = g.again_in(&scope).enter(|| g.get_variable("later").shape(()).build())?;
    assert_eq!(later.name(), "p/later");
    let session = Session::new(&g);
    session.run(inner.initializer())?;
    assert_eq!(session.run(&inner)?.as_slice::<f32>()?, [3.0, 3.0]);
    refused(g.get_variable("unshaped").build(), "Shape of a new variable (unshaped) must be fully defined");
    refused(g.get_variable("open").shape([-1, 2]).build(), "must be fully defined, but is [?,2]");
    refused(g.get_variable("both").shape([2]).value([1.0f32, 2.0]).build(), "do not give both");
    Ok(())
}

#[test]
fn names_of_variables_do_not_follow_name_scopes_but_those_of_plain_ones_do() -> Result<()> {
    let g = Graph::new();
    g.name_scope("ops", || -> Result<()> {
        g.variable_scope("layer", || {
            assert_eq!(zeros(&g, "w")?.name(), "layer/w");
            assert_eq!(g.variable("plain", 1.0f32).name(), "ops/layer/plain");
            assert_eq!(g.constant(1).name(), "ops/layer/Const:0");
            Ok(())
        })
    })
}

#[test]
fn there_is_one_global_step() -> Result<()> {
    let g = Graph::new();
    let step = g.create_global_step()?;
    assert_eq!((step.name(), step.dtype()?), ("global_step".to_string(), DType::Int64));
    assert!(g.trainable_variables().is_empty());
    assert_eq!(g.create_global_step().unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(g.get_global_step()?.unwrap().name(), "global_step");

    let g = Graph::new();
    g.variable("global_step", 1.5f32);
    let status = g.get_global_step().unwrap_err();
    assert!(status.message().contains("must be an integer scalar"), "{status}");
    Ok(())
}

/// One big batch, and the same in two towers, whole gradients and rows.
#[test]
fn towers_equal_one_big_batch() -> Result<()> {
    let inputs = [[1.0f32, 2.0], [3.0, -1.0], [0.5, 0.25], [-2.0, 1.0]];
    let rows = [0i32, 2, 2, 1];
    let build = |g: &Graph,
                 range: std::ops::Range<usize>|
     -> Result<tensorfleet::train::GradientsAndVariables> {
        let start = Initializer::constant([[0.5f32, -0.5], [1.0, 2.0], [0.25, 0.75]]);
        let e = g.get_variable("e").shape([3, 2]).initializer(start).build()?;
        let w = g.get_variable("w").shape([2]).initializer(Initializer::constant([0.1f32, 0.2])).build()?;
        let count = range.len() as f32;
        let x = g.constant(inputs[range.clone()].to_vec());
        let indices = g.constant(rows[range].to_vec());
        let gathered = e.value().gather(&indices)?;
        // The gradients of mean(sum(x * (gathered + w), 1)), written out.
        let by_row = (&x / count).check()?;
        let whole = by_row.reduce_sum(0)?;
        let slices = IndexedSlices { values: by_row, indices, dense_shape: g.constant([3, 2]) };
        gathered.check()?;
        Ok(vec![(Some(Gradient::Slices(slices)), e), (Some(Gradient::Dense(whole)), w)])
    };
    let result = |in_towers: bool| -> Result<Vec<Vec<f32>>> {
        let g = Graph::new();
        let gradients = match in_towers {
            true => {
                let parts = towers(&g, &["/cpu:0", "/cpu:0"], |tower| build(&g, tower * 2..tower * 2 + 2))?;
                average_gradients(&parts)?
            }
            false => build(&g, 0..4)?,
        };
        let update = Adam::new(0.1).apply_gradients(&gradients, None)?;
        let init = g.global_variables_initializer()?;
        let session = Session::new(&g);
        session.run(&init)?;
        for _ in 0..3 {
            session.run(&update)?;
        }
        assert_eq!(g.trainable_variables().len(), 2);
        let variables = g.trainable_variables();
        let values = variables.iter().map(|variable| Ok(session.run(variable)?.as_slice::<f32>()?.to_vec()));
        values.collect::<Result<_>>()
    };
    let (towers, whole) = (result(true)?, result(false)?);
    for (a, b) in towers.iter().flatten().zip(whole.iter().flatten()) {
        assert!((a - b).abs() < 1e-6, "{towers:?} {whole:?}");
    }
    Ok(())
}

#[test]
fn towers_with_different_variables_are_refused() -> Result<()> {
    let g = Graph::new();
    let one = g.constant(1.0f32);
    let tower = |name: &str| vec![(Some(Gradient::Dense(one.clone())), g.variable(name, 1.0f32))];
    let status = average_gradients(&[tower("a"), tower("b")]).unwrap_err();
    assert!(status.message().contains("Tower 1 has no gradient number 0 of variable 'a'"), "{status}");
    Ok(())
}

#[test]
fn a_loss_that_depends_on_no_variable_is_refused_with_their_names() -> Result<()> {
    let g = Graph::new();
    let v = g.variable("v", 1.0f32);
    let sgd = GradientDescent::new(0.1);
    let status = sgd.minimize(&g.constant(3.0f32)).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("No gradients provided for any variable"), "{status}");
    assert!(status.message().contains("'v'"), "{status}");
    let status = sgd.apply_gradients(&[(None, v)], None).unwrap_err();
    assert!(status.message().contains("No gradients provided for any variable: ['v']"), "{status}");
    let status = sgd.minimize(&g.constant(3)).unwrap_err();
    assert!(status.message().contains("Invalid type int32"), "{status}");
    let empty = Graph::new();
    let status = sgd.minimize(&empty.constant(3.0f32)).unwrap_err();
    assert!(status.message().contains("No variables to optimize"), "{status}");
    Ok(())
}

#[test]
fn options_choose_variables_the_first_gradient_and_the_name() -> Result<()> {
    let g = Graph::new();
    let (a, b) = (g.variable("a", 1.0f32), g.variable("b", 1.0f32));
    let loss = (a.value() * 2.0 + b.value() * 3.0).check()?;
    let options = MinimizeOptions {
        var_list: Some(vec![b.clone()]),
        grad_loss: Some(g.constant(10.0f32)),
        name: Some("train".to_string()),
        ..Default::default()
    };
    let train = GradientDescent::new(0.1).minimize_with(&loss, &options)?;
    assert_eq!(train.name(), "train");
    let init = g.global_variables_initializer()?;
    let session = Session::new(&g);
    session.run(&init)?;
    session.run(&train)?;
    assert_eq!(session.run(&a)?.to_scalar::<f32>()?, 1.0);
    assert_eq!(session.run(&b)?.to_scalar::<f32>()?, -2.0);
    Ok(())
}
