//! Stories about accumulators, a property test against a naive model, and a stress test.

use std::sync::mpsc::{Receiver, channel};

use proptest::prelude::*;
use tensorfleet_core::Code;

use super::*;

fn loops() -> Loops {
    tensorfleet_threads::Threads::of_process().loops().clone()
}

fn accumulator(reduction: Reduction) -> Arc<Accumulator> {
    Arc::new(Accumulator::new("a", Layout::Dense, DType::Float, PartialShape::unknown(), reduction, loops()))
}

struct Waiter {
    cancellation: Arc<Cancellation>,
    answer: Receiver<Result<f32>>,
}

fn take(accumulator: &Arc<Accumulator>, required: usize) -> Waiter {
    let (sender, answer) = channel();
    let cancellation = Arc::new(Cancellation::new());
    let done = move |result: Result<Taken>, _: Resume<'_>| {
        sender.send(result.and_then(|taken| taken[0].to_scalar())).unwrap();
    };
    let asked = Asked {
        required,
        patience: None,
        origin: StepOrigin::unknown(),
        threads: tensorfleet_threads::Threads::of_process().clone(),
    };
    accumulator.take(asked, &cancellation, Box::new(done), Resume::OnPool);
    Waiter { cancellation, answer }
}

fn at(local_step: i64) -> Offer {
    Offer { origin: StepOrigin::unknown(), local_step, once_per_member: false }
}

fn apply(accumulator: &Arc<Accumulator>, local_step: i64, gradient: f32) {
    accumulator.apply_dense(&at(local_step), Tensor::scalar(gradient), Resume::OnPool).unwrap();
}

#[test]
fn a_take_waits_for_enough_and_averages_all_that_came() {
    let mean = accumulator(Reduction::Mean);
    let waiting = take(&mean, 2);
    apply(&mean, 0, 2.0);
    assert!(waiting.answer.try_recv().is_err());
    apply(&mean, 0, 6.0);
    assert_eq!(waiting.answer.try_recv().unwrap().unwrap(), 4.0);
    assert_eq!(mean.count(), 0);
    for gradient in [1.0, 2.0, 6.0] {
        apply(&mean, 1, gradient);
    }
    assert_eq!(take(&mean, 2).answer.try_recv().unwrap().unwrap(), 3.0);

    let sum = accumulator(Reduction::Sum);
    apply(&sum, 0, 2.0);
    apply(&sum, 0, 6.0);
    assert_eq!(take(&sum, 1).answer.try_recv().unwrap().unwrap(), 8.0);
}

#[test]
fn stale_gradients_are_dropped_whatever_they_are() {
    let a = accumulator(Reduction::Mean);
    apply(&a, 0, 1.0);
    take(&a, 1);
    apply(&a, 0, 100.0);
    assert_eq!(a.count(), 0, "a take moves the step on");
    a.set_step(5);
    apply(&a, 4, 100.0);
    a.set_step(3);
    apply(&a, 4, 2.0);
    assert_eq!(a.count(), 1, "the step may go back");
}

#[test]
fn gradients_must_agree_in_shape_and_dtype() {
    let a = accumulator(Reduction::Mean);
    a.apply_dense(&at(0), Tensor::vector(&[1.0f32, 2.0]).unwrap(), Resume::OnPool).unwrap();
    let status = a.apply_dense(&at(0), Tensor::vector(&[1.0f32]).unwrap(), Resume::OnPool).unwrap_err();
    assert_eq!(
        (status.code(), status.text()),
        (Code::InvalidArgument, "Shape mismatch: expected [2], got [1]")
    );
    assert_eq!(
        a.apply_dense(&at(0), Tensor::scalar(1i32), Resume::OnPool).unwrap_err().code(),
        Code::InvalidArgument
    );
    assert_eq!(a.count(), 1);
}

#[test]
fn the_sum_does_not_touch_a_gradient_that_others_hold() {
    let a = accumulator(Reduction::Sum);
    let gradient = Tensor::vector(&[1.0f32; 100]).unwrap();
    a.apply_dense(&at(0), gradient.clone(), Resume::OnPool).unwrap();
    a.apply_dense(&at(0), gradient.clone(), Resume::OnPool).unwrap();
    assert_eq!(gradient.as_slice::<f32>().unwrap()[0], 1.0);
}

#[test]
fn giving_up_a_take_lets_the_next_one_go() {
    let a = accumulator(Reduction::Mean);
    let (greedy, modest) = (take(&a, 3), take(&a, 1));
    apply(&a, 0, 7.0);
    assert!(modest.answer.try_recv().is_err(), "the first in line goes first");
    greedy.cancellation.cancel(Status::deadline_exceeded("too late"));
    assert_eq!(greedy.answer.try_recv().unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(modest.answer.try_recv().unwrap().unwrap(), 7.0);
}

#[test]
fn a_removed_accumulator_answers_everyone() {
    let a = accumulator(Reduction::Mean);
    let waiting = take(&a, 1);
    a.on_removed();
    assert_eq!(waiting.answer.try_recv().unwrap().unwrap_err().code(), Code::Aborted);
    assert_eq!(
        a.apply_dense(&at(0), Tensor::scalar(1.0f32), Resume::OnPool).unwrap_err().code(),
        Code::Aborted
    );
}

#[derive(Clone, Debug)]
enum Action {
    Apply(i64, i8),
    Take(usize),
    SetStep(i64),
    GiveUp(usize),
}

proptest! {
    /// The model keeps all gradients of a round in a list and sums them when they are taken.
    #[test]
    fn the_accumulator_agrees_with_the_naive_model(actions in proptest::collection::vec(prop_oneof![
        5 => (0i64..6, any::<i8>()).prop_map(|(step, gradient)| Action::Apply(step, gradient)),
        3 => (1usize..4).prop_map(Action::Take),
        1 => (0i64..6).prop_map(Action::SetStep),
        1 => (0usize..10).prop_map(Action::GiveUp),
    ], 1..50)) {
        let a = accumulator(Reduction::Sum);
        let (mut round, mut step, mut takes): (Vec<f32>, i64, Vec<Waiter>) = (Vec::new(), 0, Vec::new());
        let mut waiting: Vec<(usize, usize)> = Vec::new();
        let mut expected: Vec<Option<Result<f32, Code>>> = Vec::new();
        for action in actions {
            match action {
                Action::Apply(local_step, gradient) => {
                    apply(&a, local_step, gradient as f32);
                    if local_step >= step {
                        round.push(gradient as f32);
                    }
                }
                Action::Take(required) => {
                    waiting.push((takes.len(), required));
                    takes.push(take(&a, required));
                    expected.push(None);
                }
                Action::SetStep(new) => {
                    a.set_step(new);
                    step = new;
                }
                Action::GiveUp(number) => {
                    if let Some(asked) = takes.get(number) {
                        asked.cancellation.cancel(Status::cancelled("given up"));
                        if waiting.iter().any(|&(waiting, _)| waiting == number) {
                            waiting.retain(|&(waiting, _)| waiting != number);
                            expected[number] = Some(Err(Code::Cancelled));
                        }
                    }
                }
            }
            if let Some(&(number, required)) = waiting.first() && round.len() >= required {
                expected[number] = Some(Ok(round.drain(..).sum()));
                waiting.remove(0);
                step += 1;
            }
            prop_assert_eq!(a.count(), round.len());
        }
        for (asked, expected) in takes.iter().zip(expected) {
            let answer = asked.answer.try_recv().ok();
            prop_assert_eq!(answer.map(|answer| answer.map_err(|status| status.code())), expected);
        }
    }
}

#[test]
fn many_threads_lose_no_gradient() {
    const APPLIERS: usize = 4;
    const GRADIENTS: usize = 2000;
    let a = accumulator(Reduction::Sum);
    let taken: f32 = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..3usize)
            .map(|taker| {
                let a = &a;
                scope.spawn(move || {
                    let mut total = 0.0;
                    for round in 0..500usize {
                        let asked = take(a, round % 3 + 1);
                        // Takes that nobody will satisfy any more are given up by whoever asked.
                        asked.cancellation.cancel(Status::cancelled(format!("by taker {taker}")));
                        if let Ok(sum) = asked.answer.recv().unwrap() {
                            total += sum;
                        }
                    }
                    total
                })
            })
            .collect();
        for _ in 0..APPLIERS {
            scope.spawn(|| (0..GRADIENTS).for_each(|_| apply(&a, i64::MAX, 1.0)));
        }
        takers.into_iter().map(|taker| taker.join().unwrap()).sum()
    });
    let left = a.count() as f32;
    assert_eq!(taken + left, (APPLIERS * GRADIENTS) as f32);
}
