//! [`AppliedUpdates`]: which updates of variables a request has made on a task, so that repeating the request makes only the others.
//!
//! A step whose answer is lost is run again, and must not count twice. A client that repeats requests numbers them; a task keeps, for
//! each client, what its latest request has done, and every node that writes a variable looks there first. A node that has written
//! passes its variable on as it is.

use parking_lot::Mutex;

/// The updates that one request has made on one task.
#[derive(Debug, Default)]
pub struct AppliedUpdates {
    made: Mutex<Vec<u64>>,
}

impl AppliedUpdates {
    /// Notes an update that is about to be made; `false` if it was made before.
    pub fn claim(&self, update: u64) -> bool {
        let mut made = self.made.lock();
        if made.contains(&update) {
            return false;
        }
        made.push(update);
        true
    }

    /// Notes that a claimed update has failed.
    pub fn withdraw(&self, update: u64) {
        self.made.lock().retain(|made| *made != update);
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.made.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_is_made_once_and_again_after_a_failure() {
        let applied = AppliedUpdates::default();
        assert!(applied.is_empty());
        assert!(applied.claim(1) && !applied.claim(1) && applied.claim(2));
        applied.withdraw(1);
        assert!(applied.claim(1));
    }
}
