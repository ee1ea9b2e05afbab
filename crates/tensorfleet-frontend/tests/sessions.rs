//! What sessions do: feeds, fetches, growth, threads, errors, closing.

// A helper that fails is a failed test.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tensorfleet::{Code, DType, Graph, Output, Result, Session, SessionOptions, Status, Task, Tensor};

fn scalar(tensor: Tensor) -> f32 {
    tensor.to_scalar().unwrap()
}

#[test]
fn the_first_program_of_seed_003_gives_four() -> Result<()> {
    let g = Graph::new();
    let a = g.variable("a", 1.0f32);
    let b = &a + 2;
    let c = &a + &b;
    let session = Session::connect("", &g)?;
    session.run(a.initializer())?;
    assert_eq!(scalar(session.run(&c)?), 4.0);
    Ok(())
}

#[test]
fn both_kinds_of_variables_keep_their_state() -> Result<()> {
    let g = Graph::new();
    let variables = [g.variable("reference", 1.0f32), g.new_variable("resource").resource().init(1.0f32)];
    let session = Session::new(&g);
    for v in &variables {
        assert_eq!(session.run(v).unwrap_err().code(), Code::FailedPrecondition);
        assert!(!session.run(v.is_initialized()?)?.to_scalar::<bool>()?);
        session.run(v.initializer())?;
        assert!(session.run(v.is_initialized()?)?.to_scalar::<bool>()?);
        assert_eq!(scalar(session.run(v.assign_add(2.0)?)?), 3.0);
        assert_eq!(scalar(session.run(v.assign_sub(0.5)?)?), 2.5);
        assert_eq!(scalar(session.run(v.assign(10)?)?), 10.0);
        assert_eq!(scalar(session.run(v)?), 10.0);
        assert_eq!(scalar(session.run(v.value().square()?)?), 100.0);
    }
    Ok(())
}

#[test]
fn any_tensor_can_be_fed_and_fetched_in_any_form() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder(DType::Float, [-1]);
    let y = &x * 2.0;
    let z = &y + 1.0;
    let session = Session::new(&g);
    assert_eq!(session.feed(&x, [1.0, 2.0]).run(&z)?.as_slice::<f32>()?, [3.0, 5.0]);
    assert_eq!(session.feed(&y, [10.0]).run(&z)?.as_slice::<f32>()?, [11.0]);
    let (nothing, pair, list) = session.feed(&x, [1.0f32]).run((g.no_op()?, [&y, &z], vec![&x, &y, &x]))?;
    assert_eq!(nothing, ());
    assert_eq!(pair.map(|t| t.as_slice::<f32>().unwrap()[0]), [2.0, 3.0]);
    let values: Vec<f32> = list.iter().map(|t| t.as_slice::<f32>().unwrap()[0]).collect();
    assert_eq!(values, [1.0, 2.0, 1.0]);
    session.run(())
}

#[test]
fn wrong_feeds_are_refused_and_the_session_stays_usable() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder_named("x", DType::Float, [-1, 2]);
    let y = &x + 1.0;
    let session = Session::new(&g);
    for (status, expected) in [
        (session.run(&y).unwrap_err(), "You must feed a value for placeholder tensor 'x'"),
        (
            session.feed(&x, [1.0, 2.0]).run(&y).unwrap_err(),
            "Cannot feed value of shape [2] for Tensor 'x:0'",
        ),
        (session.feed(&x, Tensor::scalar(1i32)).run(&y).unwrap_err(), "Cannot feed value of type int32"),
        (session.feed(&x, [["a", "b"]]).run(&y).unwrap_err(), "Cannot feed value of type string"),
    ] {
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(expected), "{status}");
    }
    assert_eq!(session.feed(&x, [[1, 2]]).run(&y)?.as_slice::<f32>()?, [2.0, 3.0]);
    Ok(())
}

#[test]
fn a_run_that_fails_names_its_node_and_the_next_one_works() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder(DType::Int32, ());
    let y = g.name_scope("layer", || g.constant(10).floor_div(&x))?;
    let session = Session::new(&g);
    let status = session.feed(&x, 0).run(&y).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("layer/FloorDiv"), "{status}");
    assert_eq!(session.feed(&x, 3).run(&y)?.to_scalar::<i32>()?, 3);
    Ok(())
}

#[test]
fn the_graph_may_grow_between_runs() -> Result<()> {
    let g = Graph::new();
    let mut sum = g.constant(0.0f32);
    let session = Session::new(&g);
    for step in 0..20 {
        sum = &sum + step;
        assert_eq!(scalar(session.run(&sum)?), (0..=step).sum::<i32>() as f32);
    }
    Ok(())
}

#[test]
fn prepared_runs_take_feeds_in_order() -> Result<()> {
    let g = Graph::new();
    let (x, y) = (g.placeholder(DType::Float, ()), g.placeholder(DType::Float, ()));
    let session = Session::new(&g);
    let difference = session.prepare(&[&x, &y], &x - &y)?;
    assert_eq!(scalar(difference.run([5.0, 3.0])?), 2.0);
    assert_eq!(difference.run([5.0]).unwrap_err().code(), Code::InvalidArgument);
    Ok(())
}

#[test]
fn many_threads_run_and_build_at_once() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder(DType::Int32, ());
    let total = g.variable("total", 0i32);
    let add = total.assign_add(&x)?;
    let session = Session::new(&g);
    session.run(total.initializer())?;
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (g, session, x, add) = (&g, &session, &x, &add);
            scope.spawn(move || {
                for _ in 0..50 {
                    session.feed(x, 1).run(add).unwrap();
                }
                let name = format!("thread{thread}");
                let own = g.name_scope(&name, || g.device("/cpu:0", || x * thread));
                assert!(own.name().starts_with(&name), "{}", own.name());
                assert_eq!(session.feed(x, 3).run(&own).unwrap().to_scalar::<i32>().unwrap(), 3 * thread);
            });
        }
    });
    assert_eq!(session.run(&total)?.to_scalar::<i32>()?, 400);
    Ok(())
}

#[test]
fn a_blocked_run_ends_with_its_deadline_or_its_session() -> Result<()> {
    let g = Graph::new();
    let queue = g.fifo_queue(2, &[DType::Float])?;
    let (put, take, size) = (queue.enqueue([1.5])?, queue.dequeue()?.remove(0), queue.size()?);
    let session = Session::new(&g);
    let status = session.step().timeout(Duration::from_millis(20)).run(&take).unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    session.run(&put)?;
    assert_eq!(session.run(&size)?.to_scalar::<i32>()?, 1);
    assert_eq!(scalar(session.run(&take)?), 1.5);
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| session.run(&take));
        while !blocked.is_finished() && session.run(&size).is_ok() {
            session.close().unwrap();
        }
        assert_eq!(blocked.join().unwrap().unwrap_err().code(), Code::Cancelled);
    });
    assert!(session.run(&size).is_err());
    Ok(())
}

#[test]
fn a_closed_queue_gives_what_it_holds_and_then_ends() -> Result<()> {
    let g = Graph::new();
    let queue = g.fifo_queue(5, &[DType::Int32, DType::String])?;
    let (put, take) = (queue.enqueue((7, "seven"))?, queue.dequeue()?);
    let session = Session::new(&g);
    session.run((&put, ()))?;
    session.run(queue.close(false)?)?;
    let values = session.run(&take)?;
    assert_eq!(values[1].as_strings()?[0], "seven");
    assert_eq!(session.run(&take).unwrap_err().code(), Code::OutOfRange);
    Ok(())
}

#[test]
fn a_session_of_any_number_of_threads_gets_past_a_wait() -> Result<()> {
    for inter_op_parallelism_threads in [-1, 1, 2] {
        let g = Graph::new();
        let queue = g.fifo_queue(5, &[DType::Float])?;
        let (put, take) = (queue.enqueue((g.constant(3.0f32),))?, queue.dequeue()?);
        let sum = &take[0] + 1.0;
        let options = SessionOptions {
            intra_op_parallelism_threads: 2,
            inter_op_parallelism_threads,
            ..SessionOptions::default()
        };
        let session = Session::connect_with("", &g, options)?;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| session.run(&sum));
            session.run(&put)?;
            assert_eq!(scalar(waiting.join().unwrap()?), 4.0);
            Ok::<(), Status>(())
        })?;
    }
    let options = SessionOptions { intra_op_parallelism_threads: -1, ..SessionOptions::default() };
    let status = Session::connect_with("", &Graph::new(), options).map(drop).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    Ok(())
}

#[test]
fn sessions_on_one_task_share_variables_by_name() -> Result<()> {
    let task = Task::local();
    let build = || {
        let g = Graph::new();
        let v = g.variable("shared", 1.0f32);
        (Session::on_task(task.clone(), &g, SessionOptions::default()), v)
    };
    let ((first, v), (second, w)) = (build(), build());
    first.run(v.initializer())?;
    first.run(v.assign(5.0)?)?;
    assert_eq!(scalar(second.run(&w)?), 5.0);
    assert_eq!(first.list_devices().unwrap().len(), 1);
    Ok(())
}

#[test]
fn an_imported_graph_runs_like_the_one_it_came_from() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder_named("x", DType::Float, [-1, 2]);
    let [_, y] =
        g.while_loop([g.constant(0), x.clone()], |[i, _]| i.less(3), |[i, y]| Ok([i + 1, y * 2.0]))?;
    let y = g.op("Identity").input(y).name("y").output()?;
    let mut def = g.to_graph_def();
    def.node.reverse();
    let copy = Graph::new();
    copy.constant_named("imported/x", 0);
    assert!(copy.import(def.clone(), "imported").is_err());
    assert_eq!(copy.len(), 1);
    copy.import(def, "model")?;
    let (x2, y2) = (copy.output("model/x:0")?, copy.output("model/y")?);
    assert_eq!(x2.shape()?.to_string(), "[?,2]");
    let run = |g: &Graph, x: &Output, y: &Output| Session::new(g).feed(x, [[1.0, 2.0]]).run(y);
    assert_eq!(run(&g, &x, &y)?, run(&copy, &x2, &y2)?);
    Ok(())
}
