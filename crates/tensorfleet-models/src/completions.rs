//! The completion: whoever waits for a result gets it, whenever it comes.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::check;
use crate::completion::Completion;

/// A result comes before, while or after its waiter begins to wait.
///
/// Finds: `wait` that lets the lock go between its look and its wait, and `set` that wakes before it stores (the wake-up
/// is lost, and the model ends in a deadlock).
pub fn a_result_reaches_its_waiter_whenever_it_comes() {
    check(|| {
        let completion = Arc::new(Completion::default());
        let other = completion.clone();
        let thread = thread::spawn(move || other.set(7));
        assert_eq!(completion.wait(), 7);
        thread.join().expect("the thread that sets ends well");
    });
}

/// The same for a waiter that asks something now and then.
///
/// Finds: `wait_asking` that does not look for the result again after it has asked without the lock (a result that came
/// meanwhile has woken nobody, and the model ends in a deadlock).
pub fn a_result_reaches_a_waiter_that_asks() {
    check(|| {
        let completion = Arc::new(Completion::default());
        let other = completion.clone();
        let thread = thread::spawn(move || other.set(7));
        assert_eq!(completion.wait_asking(std::time::Duration::ZERO, || {}), 7);
        thread.join().expect("the thread that sets ends well");
    });
}

/// A waiter that may give up hears of the reason, whenever it comes.
///
/// Finds: `wake` that does not take the lock (it can fall between the waiter's look at the reason and its wait, and the
/// model ends in a deadlock).
pub fn a_reason_to_give_up_reaches_a_waiter_whenever_it_comes() {
    check(|| {
        let completion = Arc::new(Completion::<u32>::default());
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (other, cancels) = (completion.clone(), is_cancelled.clone());
        let thread = thread::spawn(move || {
            cancels.store(true, Ordering::Release);
            other.wake();
        });
        let reason = || is_cancelled.load(Ordering::Acquire).then_some("cancelled");
        assert_eq!(completion.wait_unless(reason), Err("cancelled"));
        thread.join().expect("the thread that cancels ends well");
    });
}
