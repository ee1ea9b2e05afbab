//! Stories about single queues, a property test against a naive model, and a stress test.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use proptest::prelude::*;
use tensorfleet_core::{Code, DType, PartialShape, Result, Status, Tensor};

use super::spec::Kind;
use super::tokens::{Taker, TokenUse};
use super::{Amount, Queue, QueueSpec, Tuple};
use tensorfleet_kernel::cancellation::Cancellation;
use tensorfleet_kernel::continuation::Resume;
use tensorfleet_kernel::kernel::StepOrigin;
use tensorfleet_kernel::resource::Resource;

fn spec(kind: Kind, capacity: usize) -> QueueSpec {
    let (mut types, mut shapes) = (vec![DType::Int64], vec![PartialShape::scalar()]);
    if kind == Kind::Priority {
        types.push(DType::Int64);
        shapes.push(PartialShape::scalar());
    }
    QueueSpec { kind, types, shapes, capacity, min_after_dequeue: 0, seeds: (1, 2) }
}

fn fifo(capacity: usize) -> Arc<Queue> {
    Arc::new(Queue::new("q", spec(Kind::Fifo, capacity)).unwrap())
}

/// A request and what became of it.
struct Asked<T> {
    cancellation: Arc<Cancellation>,
    answer: Receiver<Result<T>>,
}

impl<T> Asked<T> {
    /// The answer, if there is one; a second answer would fail the test by its closed channel.
    fn now(&self) -> Option<Result<T>> {
        self.answer.try_recv().ok()
    }

    fn cancel(&self) {
        self.cancellation.cancel(Status::cancelled("given up"));
    }
}

fn put(queue: &Arc<Queue>, values: &[i64]) -> Asked<()> {
    let (sender, answer) = channel();
    let cancellation = Arc::new(Cancellation::new());
    let batch = [Tensor::vector(values).unwrap()];
    queue.enqueue_many(
        &batch,
        &cancellation,
        Box::new(move |result, _| sender.send(result).unwrap()),
        Resume::OnPool,
    );
    Asked { cancellation, answer }
}

fn take(queue: &Arc<Queue>, count: usize, or_fewer: bool) -> Asked<Vec<i64>> {
    let (sender, answer) = channel();
    let cancellation = Arc::new(Cancellation::new());
    let done = move |result: Result<Vec<Tuple>>, _: Resume<'_>| {
        let values = |elements: Vec<Tuple>| {
            elements.iter().map(|tuple| tuple[tuple.len() - 1].to_scalar().unwrap()).collect()
        };
        sender.send(result.map(values)).unwrap();
    };
    queue.dequeue(Amount { count, or_fewer }, &cancellation, Box::new(done), Resume::OnPool);
    Asked { cancellation, answer }
}

/// A member of a synchronous training takes its token.
fn take_token(queue: &Arc<Queue>, owner: &str, session: &str, epoch: u64) -> Asked<i64> {
    let (sender, answer) = channel();
    let cancellation = Arc::new(Cancellation::new());
    let origin = StepOrigin { owner: owner.into(), incarnation: 1, session: session.into() };
    let taker = Taker { origin: Arc::new(origin), epoch, token_use: TokenUse::Member };
    let done = move |result: Result<Vec<Tuple>>, _: Resume<'_>| {
        sender.send(result.map(|tokens| tokens[0][0].to_scalar().unwrap())).unwrap();
    };
    let one = Amount { count: 1, or_fewer: false };
    queue.dequeue_for(Some(taker), one, &cancellation, Box::new(done), Resume::OnPool);
    Asked { cancellation, answer }
}

/// The chief hands out the tokens of a round.
fn put_round(queue: &Arc<Queue>, tokens: &[i64]) {
    let batch = [Tensor::vector(tokens).unwrap()];
    let done = Box::new(|result: Result<()>, _: Resume<'_>| result.unwrap());
    queue.enqueue_round(&batch, &Arc::new(Cancellation::new()), done, Resume::OnPool);
}

/// A chief begins the queue, without tokens.
fn begin(queue: &Arc<Queue>, epoch: u64) {
    queue.begin(&[Tensor::vector::<i64>(&[]).unwrap()], epoch, Resume::OnPool).unwrap();
}

#[test]
fn a_member_takes_one_token_of_a_round_and_old_ones_do_not_pile_up() {
    let queue = fifo(100);
    begin(&queue, 1);
    put_round(&queue, &[1, 1, 1]);
    assert_eq!(take_token(&queue, "w0", "a", 1).now().unwrap(), Ok(1));
    let ahead = take_token(&queue, "w0", "a", 1);
    assert!(ahead.now().is_none(), "two tokens are left, for the others");
    assert_eq!(take_token(&queue, "w1", "b", 1).now().unwrap(), Ok(1), "it does not stand in their way");
    // The third member is gone. What was left for it goes.
    put_round(&queue, &[2, 2, 2]);
    assert_eq!(ahead.now().unwrap(), Ok(2));
    assert_eq!(queue.size(), 2);
    close(&queue, false);
    assert_eq!(take_token(&queue, "w0", "a", 1).now().unwrap().unwrap_err().code(), Code::OutOfRange);
}

#[test]
fn a_chief_that_comes_back_opens_the_queue_and_tells_steps_from_before() {
    let queue = fifo(100);
    let early = take_token(&queue, "w1", "a", 0);
    begin(&queue, 1);
    assert!(early.now().is_none(), "nobody has lost anything to the first chief");
    put_round(&queue, &[1, 1]);
    assert_eq!(early.now().unwrap(), Ok(1));
    let waiting = take_token(&queue, "w1", "a", 1);
    begin(&queue, 2);
    assert_eq!(waiting.now().unwrap().unwrap_err().code(), Code::Aborted);
    let late = take_token(&queue, "w2", "c", 1);
    assert_eq!(late.now().unwrap().unwrap_err().code(), Code::Aborted, "its step began before the chief did");
    close(&queue, false);
    begin(&queue, 3);
    assert!(!queue.is_closed() && queue.size() == 0);
    put_round(&queue, &[2, 2]);
    assert_eq!(take_token(&queue, "w1", "b", 3).now().unwrap(), Ok(2));
}

fn close(queue: &Arc<Queue>, cancel_pending: bool) -> Asked<()> {
    let (sender, answer) = channel();
    let cancellation = Arc::new(Cancellation::new());
    queue.close(
        cancel_pending,
        &cancellation,
        Box::new(move |result, _| sender.send(result).unwrap()),
        Resume::OnPool,
    );
    Asked { cancellation, answer }
}

fn code<T>(answer: Option<Result<T>>) -> Option<Code> {
    answer.and_then(|result| result.err()).map(|status| status.code())
}

#[test]
fn elements_come_out_in_order_and_a_full_queue_makes_enqueues_wait() {
    let queue = fifo(2);
    assert!(put(&queue, &[1, 2]).now().unwrap().is_ok());
    let waiting = put(&queue, &[3]);
    assert!(waiting.now().is_none());
    assert_eq!(take(&queue, 1, false).now().unwrap().unwrap(), [1]);
    assert!(waiting.now().unwrap().is_ok());
    assert_eq!(take(&queue, 2, false).now().unwrap().unwrap(), [2, 3]);
    assert_eq!(queue.size(), 0);
}

#[test]
fn batches_larger_than_the_capacity_pass_through_piece_by_piece() {
    let queue = fifo(2);
    let offered = put(&queue, &[1, 2, 3, 4, 5]);
    assert!(offered.now().is_none());
    assert_eq!(take(&queue, 5, false).now().unwrap().unwrap(), [1, 2, 3, 4, 5]);
    assert!(offered.now().unwrap().is_ok());
}

#[test]
fn a_given_up_dequeue_loses_nothing_and_keeps_the_order() {
    let queue = fifo(10);
    let large = take(&queue, 5, false);
    let small = take(&queue, 1, false);
    put(&queue, &[1, 2, 3]);
    assert!(large.now().is_none() && small.now().is_none(), "the first in line goes first");
    large.cancel();
    assert_eq!(code(large.now()), Some(Code::Cancelled));
    assert_eq!(small.now().unwrap().unwrap(), [1]);
    assert_eq!(take(&queue, 2, false).now().unwrap().unwrap(), [2, 3]);
}

#[test]
fn a_step_given_up_before_it_waits_is_told_at_once() {
    let queue = fifo(1);
    let cancellation = Arc::new(Cancellation::new());
    cancellation.cancel(Status::deadline_exceeded("too late"));
    let (sender, answer) = channel();
    let one = Amount { count: 1, or_fewer: false };
    let done =
        Box::new(move |result: Result<Vec<Tuple>>, _: Resume<'_>| sender.send(result.map(drop)).unwrap());
    queue.dequeue(one, &cancellation, done, Resume::OnPool);
    assert_eq!(code(answer.try_recv().ok()), Some(Code::DeadlineExceeded));
    assert!(put(&queue, &[1]).now().unwrap().is_ok());
    assert_eq!(queue.size(), 1);
}

#[test]
fn a_closed_queue_gives_what_is_left_and_takes_no_more() {
    let queue = fifo(10);
    put(&queue, &[7, 8]);
    let many = take(&queue, 5, false);
    assert!(close(&queue, false).now().unwrap().is_ok());
    let status = many.now().unwrap().unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange);
    assert_eq!(
        status.text(),
        "FIFOQueue 'q' is closed and has insufficient elements (requested 5, current size 2)"
    );
    assert_eq!(queue.size(), 2, "they stay");
    let status = put(&queue, &[9]).now().unwrap().unwrap_err();
    assert_eq!((status.code(), status.text()), (Code::Cancelled, "FIFOQueue 'q' is closed."));
    assert!(put(&queue, &[]).now().unwrap().is_ok(), "nothing can always be put in");
    assert_eq!(take(&queue, 5, true).now().unwrap().unwrap(), [7, 8]);
    assert_eq!(code(take(&queue, 5, true).now()), Some(Code::OutOfRange));
    assert_eq!(take(&queue, 0, false).now().unwrap().unwrap(), []);
    let status = close(&queue, false).now().unwrap().unwrap_err();
    assert_eq!((status.code(), status.text()), (Code::Cancelled, "Queue 'q' is already closed."));
    assert!(close(&queue, true).now().unwrap().is_ok());
}

#[test]
fn a_close_lets_earlier_enqueues_go_first_unless_it_cancels_them() {
    let queue = fifo(1);
    put(&queue, &[1]);
    let before = put(&queue, &[2]);
    let closing = close(&queue, false);
    let after = put(&queue, &[3]);
    assert!(closing.now().is_none() && !queue.is_closed());
    assert_eq!(take(&queue, 1, false).now().unwrap().unwrap(), [1]);
    assert!(before.now().unwrap().is_ok() && closing.now().unwrap().is_ok() && queue.is_closed());
    assert_eq!(code(after.now()), Some(Code::Cancelled));

    let queue = fifo(1);
    put(&queue, &[1]);
    let pending = put(&queue, &[2]);
    assert!(close(&queue, true).now().unwrap().is_ok());
    assert_eq!(code(pending.now()), Some(Code::Cancelled));
    assert_eq!(take(&queue, 1, false).now().unwrap().unwrap(), [1]);
}

#[test]
fn a_removed_queue_answers_everyone() {
    let queue = fifo(1);
    let waiting = take(&queue, 2, false);
    queue.on_removed();
    assert_eq!(code(waiting.now()), Some(Code::Aborted));
    assert_eq!(code(put(&queue, &[1]).now()), Some(Code::Aborted));
}

#[test]
fn a_shuffled_queue_holds_back_until_it_closes_and_keeps_to_tensorflows_order() {
    let spec = QueueSpec { min_after_dequeue: 3, ..spec(Kind::RandomShuffle, 100) };
    let queue = Arc::new(Queue::new("q", spec).unwrap());
    put(&queue, &(0..20).collect::<Vec<i64>>());
    let order = take(&queue, 17, false).now().unwrap().unwrap();
    assert_eq!(order, [19, 7, 6, 1, 3, 16, 14, 11, 5, 13, 4, 2, 8, 18, 9, 15, 0]);
    let held = take(&queue, 3, false);
    assert!(held.now().is_none());
    close(&queue, false);
    assert_eq!(held.now().unwrap().unwrap(), [17, 10, 12]);
}

#[test]
fn priorities_come_smallest_first_and_equal_ones_in_tensorflows_order() {
    let queue = Arc::new(Queue::new("q", spec(Kind::Priority, 100)).unwrap());
    let cancellation = Arc::new(Cancellation::new());
    let put = |priorities: &[i64], values: &[i64]| {
        let batch = [Tensor::vector(priorities).unwrap(), Tensor::vector(values).unwrap()];
        queue.enqueue_many(&batch, &cancellation, Box::new(|result, _| result.unwrap()), Resume::OnPool);
    };
    put(&[3, 1, 3, 2], &[10, 20, 30, 40]);
    let given_up = take(&queue, 9, false);
    given_up.cancel();
    assert_eq!(take(&queue, 4, false).now().unwrap().unwrap(), [20, 40, 10, 30]);
    // What TensorFlow 2.21 gives.
    put(&[0; 8], &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(take(&queue, 8, false).now().unwrap().unwrap(), [0, 2, 6, 5, 7, 4, 1, 3]);
}

#[test]
fn a_batch_by_priority_waits_for_the_elements_that_come_before_others() {
    let queue = Arc::new(Queue::new("q", spec(Kind::Priority, 100)).unwrap());
    let cancellation = Arc::new(Cancellation::new());
    let put = |priority: i64| {
        let batch = [Tensor::vector(&[priority]).unwrap(), Tensor::vector(&[priority * 10]).unwrap()];
        queue.enqueue_many(&batch, &cancellation, Box::new(|result, _| result.unwrap()), Resume::OnPool);
    };
    put(5);
    put(6);
    let asked = take(&queue, 3, false);
    assert_eq!((asked.now().is_none(), queue.size()), (true, 2));
    put(1);
    assert_eq!(asked.now().unwrap().unwrap(), [10, 50, 60]);
}

#[test]
fn elements_of_the_wrong_type_or_shape_stay_out() {
    let queue = fifo(10);
    let refused = |batch: &[Tensor]| {
        let (sender, answer) = channel();
        let cancellation = Arc::new(Cancellation::new());
        queue.enqueue_many(
            batch,
            &cancellation,
            Box::new(move |result, _| sender.send(result).unwrap()),
            Resume::OnPool,
        );
        answer.try_recv().unwrap().unwrap_err().text().to_string()
    };
    assert!(refused(&[Tensor::vector(&[1.0f32]).unwrap()]).starts_with("Signature mismatch"));
    assert!(refused(&[]).starts_with("Signature mismatch"));
    assert_eq!(
        refused(&[Tensor::from_slice(&[1i64, 2], &[1, 2]).unwrap()]),
        "Shape mismatch in tuple component 0. Expected [1], got [1,2]"
    );
    assert!(refused(&[Tensor::scalar(1i64)]).starts_with("Shape mismatch in tuple component 0"));
    assert_eq!(queue.size(), 0);
}

/// What a test does to a queue.
#[derive(Clone, Debug)]
enum Action {
    Put(usize),
    Take(usize, bool),
    Close(bool),
    GiveUpPut(usize),
    GiveUpTake(usize),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let action = prop_oneof![
        4 => (0usize..5).prop_map(Action::Put),
        4 => (0usize..5, any::<bool>()).prop_map(|(count, or_fewer)| Action::Take(count, or_fewer)),
        1 => any::<bool>().prop_map(Action::Close),
        1 => (0usize..20).prop_map(Action::GiveUpPut),
        1 => (0usize..20).prop_map(Action::GiveUpTake),
    ];
    proptest::collection::vec(action, 1..40)
}

/// The queue as one would explain it: elements move one at a time, and every answer is written down.
#[derive(Default)]
struct Model {
    capacity: usize,
    held: Vec<i64>,
    is_closed: bool,
    /// Number of the request, and what it still has to put in; `None` is a close.
    puts: Vec<(usize, Option<Vec<i64>>)>,
    takes: Vec<(usize, Amount, Vec<i64>)>,
    put_answers: Vec<Option<Result<(), Code>>>,
    take_answers: Vec<Option<Result<Vec<i64>, Code>>>,
}

impl Model {
    fn settle(&mut self) {
        while self.settle_one() {}
    }

    fn settle_one(&mut self) -> bool {
        if let Some((number, offer)) = self.puts.first_mut() {
            let answer = match offer {
                _ if self.is_closed && offer.as_ref().is_none_or(|values| !values.is_empty()) => {
                    Some(Err(Code::Cancelled))
                }
                None => {
                    self.is_closed = true;
                    Some(Ok(()))
                }
                Some(values) if values.is_empty() => Some(Ok(())),
                Some(values) if self.held.len() < self.capacity => {
                    self.held.push(values.remove(0));
                    return true;
                }
                Some(_) => None,
            };
            if answer.is_some() {
                self.put_answers[*number] = answer;
                self.puts.remove(0);
                return true;
            }
        }
        if let Some((number, amount, got)) = self.takes.first_mut() {
            if got.len() < amount.count && !self.held.is_empty() {
                got.push(self.held.remove(0));
                return true;
            }
            let full = got.len() == amount.count;
            if full || self.is_closed {
                let (number, enough) = (*number, full || (amount.or_fewer && !got.is_empty()));
                let (_, _, got) = self.takes.remove(0);
                self.take_answers[number] = Some(if enough {
                    Ok(got)
                } else {
                    self.held.splice(0..0, got);
                    Err(Code::OutOfRange)
                });
                return true;
            }
        }
        false
    }
}

proptest! {
    #[test]
    fn the_queue_agrees_with_the_naive_model(capacity in 1usize..4, actions in actions()) {
        let queue = fifo(capacity);
        let mut model = Model { capacity, ..Model::default() };
        let (mut puts, mut takes, mut next) = (Vec::new(), Vec::new(), 0i64);
        for action in actions {
            match action {
                Action::Put(count) => {
                    let values: Vec<i64> = (next..next + count as i64).collect();
                    next += count as i64;
                    puts.push(put(&queue, &values));
                    // An empty batch passes by everyone who waits.
                    model.put_answers.push(values.is_empty().then_some(Ok(())));
                    if !values.is_empty() {
                        model.puts.push((puts.len() - 1, Some(values)));
                    }
                }
                Action::Close(cancel_pending) => {
                    puts.push(close(&queue, cancel_pending));
                    model.put_answers.push(cancel_pending.then_some(Ok(())));
                    if cancel_pending {
                        model.is_closed = true;
                        for (number, _) in model.puts.drain(..) {
                            model.put_answers[number] = Some(Err(Code::Cancelled));
                        }
                    } else {
                        model.puts.push((puts.len() - 1, None));
                    }
                }
                Action::Take(count, or_fewer) => {
                    takes.push(take(&queue, count, or_fewer));
                    model.take_answers.push((count == 0).then_some(Ok(Vec::new())));
                    if count > 0 {
                        model.takes.push((takes.len() - 1, Amount { count, or_fewer }, Vec::new()));
                    }
                }
                Action::GiveUpPut(number) => {
                    puts.get(number).map(Asked::cancel);
                    if let Some(at) = model.puts.iter().position(|(waiting, _)| *waiting == number) {
                        model.puts.remove(at);
                        model.put_answers[number] = Some(Err(Code::Cancelled));
                    }
                }
                Action::GiveUpTake(number) => {
                    takes.get(number).map(Asked::cancel);
                    if let Some(at) = model.takes.iter().position(|(waiting, _, _)| *waiting == number) {
                        let (_, _, got) = model.takes.remove(at);
                        model.held.splice(0..0, got);
                        model.take_answers[number] = Some(Err(Code::Cancelled));
                    }
                }
            }
            model.settle();
            prop_assert_eq!(queue.size(), model.held.len());
            prop_assert_eq!(queue.is_closed(), model.is_closed);
        }
        let codes = |answer: Result<_>| answer.map_err(|status| status.code());
        for (asked, expected) in puts.iter().zip(model.put_answers) {
            prop_assert_eq!(asked.now().map(codes), expected);
        }
        for (asked, expected) in takes.iter().zip(model.take_answers) {
            prop_assert_eq!(asked.now().map(|answer| answer.map_err(|status| status.code())), expected);
        }
    }
}

#[test]
fn many_threads_lose_and_repeat_nothing() {
    const PRODUCERS: i64 = 4;
    const CONSUMERS: usize = 4;
    const BATCHES: i64 = 300;
    let queue = fifo(3);
    let received: Vec<i64> = std::thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                let queue = queue.clone();
                scope.spawn(move || {
                    for batch in 0..BATCHES {
                        let first = (producer * BATCHES + batch) * 3;
                        put(&queue, &[first, first + 1, first + 2]).answer.recv().unwrap().unwrap();
                    }
                })
            })
            .collect();
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|consumer| {
                let queue = queue.clone();
                scope.spawn(move || {
                    let (mut received, mut round) = (Vec::new(), consumer);
                    loop {
                        round += 1;
                        let asked = take(&queue, round % 5 + 1, true);
                        if round.is_multiple_of(3) {
                            asked.cancel();
                        }
                        match asked.answer.recv().unwrap() {
                            Ok(values) => received.extend(values),
                            Err(status) if status.code() == Code::Cancelled => {}
                            Err(status) => {
                                assert_eq!(status.code(), Code::OutOfRange);
                                return received;
                            }
                        }
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        close(&queue, false).answer.recv().unwrap().unwrap();
        consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect()
    });
    let mut received = received;
    received.sort_unstable();
    assert_eq!(received, (0..PRODUCERS * BATCHES * 3).collect::<Vec<i64>>());
    assert_eq!(queue.size(), 0);
}
