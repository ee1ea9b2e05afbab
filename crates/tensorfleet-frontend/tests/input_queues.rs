//! Queues of all kinds, the threads that fill them, producers of input and batches.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tensorfleet::train::{Coordinator, QueueRunner};
use tensorfleet::{Code, DType, Graph, Output, PartialShape, Result, Session, Status};

/// A session whose queues are being filled, and what ends that.
fn filled(g: &Graph) -> Result<(Arc<Session>, Coordinator)> {
    let session = Arc::new(Session::new(g));
    session.run(g.local_variables_initializer()?)?;
    let coordinator = Coordinator::new();
    g.start_queue_runners(&session, &coordinator)?;
    Ok((session, coordinator))
}

/// Runs until the input ends.
fn drain(session: &Session, output: &Output) -> Vec<i32> {
    let mut all = Vec::new();
    loop {
        match session.run(output) {
            Ok(tensor) => all.extend_from_slice(tensor.as_slice::<i32>().unwrap()),
            Err(end) => {
                assert_eq!(end.code(), Code::OutOfRange, "{end}");
                return all;
            }
        }
    }
}

fn end(coordinator: &Coordinator) -> Result<()> {
    coordinator.request_stop();
    coordinator.join()
}

#[test]
fn a_padding_queue_pads_to_the_longest_of_a_batch() -> Result<()> {
    let g = Graph::new();
    let queue = g.new_queue(&[DType::Int32]).shapes([[-1]]).capacity(10).padding_fifo()?;
    let element = g.placeholder(DType::Int32, PartialShape::unknown());
    let (put, take) = (queue.enqueue([element.clone()])?, queue.dequeue_many(3)?.remove(0));
    let session = Session::new(&g);
    for row in [vec![1], vec![2, 3, 4], vec![]] {
        session.feed(&element, row).run(&put)?;
    }
    let batch = session.run(&take)?;
    assert_eq!(batch.shape().to_string(), "[3,3]");
    assert_eq!(batch.as_slice::<i32>()?, [1, 0, 0, 2, 3, 4, 0, 0, 0]);
    assert!(g.new_queue(&[DType::Int32]).padding_fifo().is_err(), "it needs shapes");
    Ok(())
}

#[test]
fn a_priority_queue_gives_the_smallest_first() -> Result<()> {
    let g = Graph::new();
    let queue = g.new_queue(&[DType::String]).shapes([()]).priority()?;
    let put = queue.enqueue_many((g.constant([3i64, 1, 2]), g.constant(["c", "a", "b"])))?;
    let take = queue.dequeue()?;
    let session = Session::new(&g);
    session.run(&put)?;
    for expected in ["a", "b", "c"] {
        assert_eq!(session.run(&take)?[1].as_strings()?, [expected]);
    }
    Ok(())
}

#[test]
fn a_closed_queue_gives_what_is_left_and_says_so() -> Result<()> {
    let g = Graph::new();
    let queue = g.new_queue(&[DType::Int32]).shapes([()]).fifo()?;
    let (put, close, is_closed) = (queue.enqueue_many([[1, 2, 3]])?, queue.close(false)?, queue.is_closed()?);
    let take = queue.dequeue_up_to(2)?.remove(0);
    let session = Session::new(&g);
    session.run(&put)?;
    assert!(!session.run(&is_closed)?.to_scalar::<bool>()?);
    session.run(&close)?;
    assert!(session.run(&is_closed)?.to_scalar::<bool>()?);
    assert_eq!(drain(&session, &take), [1, 2, 3]);
    Ok(())
}

#[test]
fn sessions_of_a_task_share_a_queue_by_its_shared_name() -> Result<()> {
    let server = tensorfleet::Server::local()?;
    let graph = |name: &str| -> Result<_> {
        let g = Graph::new();
        let queue = g.new_queue(&[DType::Int32]).name(name).shared_name("ours").fifo()?;
        assert_eq!(queue.name(), name);
        let session = Session::connect(&server.target(), &g)?;
        Ok((queue.enqueue([g.constant(7)])?, queue.dequeue()?.remove(0), session))
    };
    let (put, _, one) = graph("one")?;
    let (_, take, other) = graph("other")?;
    one.run(&put)?;
    assert_eq!(other.run(&take)?.to_scalar::<i32>()?, 7);
    Ok(())
}

#[test]
fn an_error_of_an_enqueue_stops_the_coordinator() -> Result<()> {
    let g = Graph::new();
    let queue = g.fifo_queue(10, &[DType::Float])?;
    let failing = g.op("CheckNumerics").input(f32::NAN).attr("message", "no number").output()?;
    g.add_queue_runner(&QueueRunner::new(&queue, [queue.enqueue([failing])?])?);
    let (_session, coordinator) = filled(&g)?;
    let error = coordinator.join().unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.text().contains("no number"), "{error}");
    Ok(())
}

#[test]
fn threads_end_when_the_session_is_closed_under_them() -> Result<()> {
    let g = Graph::new();
    let queue = g.fifo_queue(1, &[DType::Float])?;
    let enqueue = queue.enqueue([g.constant(1.0f32)])?;
    let runner = QueueRunner::new(&queue, vec![enqueue; 3])?;
    g.add_queue_runner(&runner);
    assert_eq!(g.queue_runner(runner.name())?.enqueue_ops().len(), 3);
    let (session, coordinator) = filled(&g)?;
    let size = queue.size()?;
    while session.run(&size)?.to_scalar::<i32>()? == 0 {
        std::thread::yield_now();
    }
    session.close()?;
    // Nobody asked for a stop, and yet all threads end, without an error.
    coordinator.join()
}

#[test]
fn a_runner_starts_once_in_a_session() -> Result<()> {
    let g = Graph::new();
    let queue = g.fifo_queue(-1, &[DType::Int64])?;
    let count = g.new_variable("count").local().init(0i64);
    let next = g.op("CountUpTo").input(&count).attr("limit", 5i64).output()?;
    g.add_queue_runner(&QueueRunner::new(&queue, [queue.enqueue([next])?])?);
    let (session, coordinator) = filled(&g)?;
    g.start_queue_runners(&session, &coordinator)?;
    coordinator.join()?;
    assert_eq!(session.run(queue.size()?)?.to_scalar::<i32>()?, 5);
    assert!(session.run(queue.is_closed()?)?.to_scalar::<bool>()?, "the last one closes the queue");
    Ok(())
}

#[test]
fn slices_of_all_tensors_come_together_in_every_epoch() -> Result<()> {
    let g = Graph::new();
    let (x, y) = (g.constant([1, 2, 3]), g.constant([10, 20, 30]));
    let slices = g.input_producer().num_epochs(4).seed(3).slices(&[x, y])?;
    let both = g.stack(&slices)?;
    let (session, coordinator) = filled(&g)?;
    let pairs = drain(&session, &both);
    assert_eq!(pairs.len(), 24);
    assert!(pairs.chunks(2).all(|pair| pair[1] == 10 * pair[0]), "{pairs:?}");
    for epoch in pairs.chunks(6) {
        let mut seen: Vec<i32> = epoch.chunks(2).map(|pair| pair[0]).collect();
        seen.sort();
        assert_eq!(seen, [1, 2, 3]);
    }
    end(&coordinator)
}

#[test]
fn strings_are_produced_and_an_empty_list_is_a_mistake() -> Result<()> {
    let g = Graph::new();
    let next = g.input_producer().num_epochs(1).in_order().strings(["a", "b"])?.dequeue()?.remove(0);
    let (session, coordinator) = filled(&g)?;
    assert_eq!(session.run(&next)?.as_strings()?, ["a"]);
    assert_eq!(session.run(&next)?.as_strings()?, ["b"]);
    assert_eq!(session.run(&next).unwrap_err().code(), Code::OutOfRange);
    end(&coordinator)?;
    let none: [&str; 0] = [];
    let error = Graph::new().input_producer().strings(none).err().unwrap();
    assert!(error.text().contains("non-null input"), "{error}");
    Ok(())
}

#[test]
fn a_shuffled_batch_has_all_elements_in_another_order() -> Result<()> {
    let g = Graph::new();
    let number = g.input_producer().num_epochs(1).in_order().range(40)?.dequeue()?.remove(0);
    let batch = g.shuffle_batch(&[number], 8, 20, 10).seed(5).num_threads(2).build()?.remove(0);
    assert_eq!(batch.shape()?.to_string(), "[8]");
    let (session, coordinator) = filled(&g)?;
    let mut seen = drain(&session, &batch);
    assert_ne!(seen, (0..40).collect::<Vec<i32>>());
    seen.sort();
    assert_eq!(seen, (0..40).collect::<Vec<i32>>());
    end(&coordinator)
}

#[test]
fn batches_join_several_sources_and_rows() -> Result<()> {
    let g = Graph::new();
    let source = |from: i32| -> Result<Vec<Output>> {
        let rows = g.input_producer().num_epochs(1).in_order().rows(g.constant([from, from + 1]))?;
        rows.dequeue()
    };
    let batch = g.batch_join(&[source(0)?, source(10)?], 2).build()?.remove(0);
    let rows = g.limit_epochs(&g.constant([[1, 2], [3, 4], [5, 6]]), 1)?;
    let many = g.batch(&[rows], 2).enqueue_many().allow_smaller_final_batch().build()?.remove(0);
    let (session, coordinator) = filled(&g)?;
    let mut joined = drain(&session, &batch);
    joined.sort();
    assert_eq!(joined, [0, 1, 10, 11]);
    assert_eq!(drain(&session, &many), [1, 2, 3, 4, 5, 6]);
    end(&coordinator)
}

#[test]
fn mistakes_of_batches_are_told() -> Result<()> {
    let g = Graph::new();
    let x = g.placeholder(DType::Float, [-1]);
    let text = |result: Result<Vec<Output>>| result.unwrap_err().text().to_string();
    assert!(text(g.batch(&[], 2).build()).contains("at least one tensor"));
    assert!(text(g.batch(std::slice::from_ref(&x), 2).build()).contains("fully defined"));
    assert!(
        text(g.shuffle_batch(&[g.constant(1)], 2, 5, 5).build()).contains("bigger than min_after_dequeue")
    );
    assert!(text(g.batch_join(&[vec![x], vec![g.constant(1)]], 2).build()).contains("to be consistent"));
    assert!(g.limit_epochs(&g.constant(1), 0).is_err());
    Ok(())
}

/// The names were printed by TensorFlow 2.21 for the same program.
#[test]
fn nodes_are_named_as_in_tensorflow() -> Result<()> {
    let g = Graph::new();
    let (x, y) = (g.constant([1, 2, 3]), g.constant([[1.0f32], [2.0], [3.0]]));
    let a = g.input_producer().num_epochs(2).seed(3).slices(&[x, y])?;
    g.batch(&a, 2).allow_smaller_final_batch().build()?;
    g.shuffle_batch(&a, 2, 10, 3).seed(5).num_threads(2).build()?;
    g.batch_join(&[a.clone(), a], 2).dynamic_pad().build()?;
    g.input_producer().range(5)?;
    let expected = [
        ("input_producer/input_producer", "FIFOQueueV2"),
        ("input_producer/input_producer/RandomShuffle", "RandomShuffle"),
        ("input_producer/input_producer/limit_epochs/epochs", "VariableV2"),
        ("input_producer/input_producer/limit_epochs/CountUpTo", "CountUpTo"),
        ("input_producer/input_producer/limit_epochs", "Identity"),
        ("input_producer/input_producer/input_producer_EnqueueMany", "QueueEnqueueManyV2"),
        ("input_producer/input_producer/input_producer_Close_1", "QueueCloseV2"),
        ("input_producer/input_producer/input_producer_Size", "QueueSizeV2"),
        ("input_producer/input_producer/fraction_of_32_full", "ScalarSummary"),
        ("input_producer/input_producer_Dequeue", "QueueDequeueV2"),
        ("input_producer/GatherV2_1", "GatherV2"),
        ("batch/fifo_queue", "FIFOQueueV2"),
        ("batch/fifo_queue_enqueue", "QueueEnqueueV2"),
        ("batch/fraction_of_32_full", "ScalarSummary"),
        ("batch", "QueueDequeueUpToV2"),
        ("shuffle_batch/random_shuffle_queue", "RandomShuffleQueueV2"),
        ("shuffle_batch/Maximum", "Maximum"),
        ("shuffle_batch/fraction_over_3_of_7_full", "ScalarSummary"),
        ("shuffle_batch", "QueueDequeueManyV2"),
        ("batch_join/padding_fifo_queue", "PaddingFIFOQueueV2"),
        ("batch_join/padding_fifo_queue_enqueue_1", "QueueEnqueueV2"),
        ("batch_join", "QueueDequeueManyV2"),
        ("input_producer_1", "FIFOQueueV2"),
        ("input_producer_1/input_producer_1_EnqueueMany", "QueueEnqueueManyV2"),
    ];
    for (name, op) in expected {
        assert_eq!(g.operation(name)?.op_type(), op, "{name}");
    }
    assert_eq!(g.operation("batch/fifo_queue")?.device(), "/device:CPU:*");
    Ok(())
}

#[test]
fn clean_codes_of_a_runner_can_be_chosen() -> Result<()> {
    let g = Graph::new();
    let queue = g.fifo_queue(10, &[DType::Float])?;
    let failing = g.op("CheckNumerics").input(f32::NAN).attr("message", "no number").output()?;
    let enqueue = queue.enqueue([failing])?;
    let runner = QueueRunner::builder(&queue, [&enqueue]).closed_codes(&[Code::InvalidArgument]).build()?;
    g.add_queue_runner(&runner);
    let (session, coordinator) = filled(&g)?;
    coordinator.join()?;
    let closed: Status = session.run(queue.dequeue()?).unwrap_err();
    assert_eq!(closed.code(), Code::OutOfRange);
    Ok(())
}
