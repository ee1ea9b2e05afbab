//! The completion: whoever waits for a result gets it, whenever it comes.

use loom::sync::Arc;
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
