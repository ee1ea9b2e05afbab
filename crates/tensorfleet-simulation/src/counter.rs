//! [`Counter`]: whether a number on a parameter server can be what somebody read, given what was asked for.
//!
//! A client adds one to it with every step. A step that was answered has been applied once; one that failed, at most
//! once, perhaps later. So a value that is read lies between what was answered and what was sent, and grows with every
//! answer. When a parameter server has lost its memory the chief sets the number back to what it last saved; whether that
//! has happened may be in doubt as well, so there can be several accounts of what the number is. A value must fit one of
//! them, and those that it does not fit are closed.

/// A number on a parameter server.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    accounts: Vec<Account>,
}

#[derive(Clone, Debug)]
struct Account {
    /// What it began with.
    base: i64,
    /// Steps that were sent since.
    sent: i64,
    /// Steps that were answered since.
    answered: i64,
    /// The last value that was seen.
    last: i64,
    /// Whether it begins with a setting, which others may overtake.
    is_set_later: bool,
}

impl Default for Counter {
    fn default() -> Counter {
        Counter { accounts: vec![Account { base: 0, sent: 0, answered: 0, last: 0, is_set_later: false }] }
    }
}

impl Counter {
    /// A step that adds one is about to be sent.
    pub(crate) fn sent(&mut self) {
        self.accounts.iter_mut().for_each(|account| account.sent += 1);
    }

    /// A step was answered with this value.
    pub(crate) fn answered(&mut self, value: i64) -> Result<(), String> {
        let before = self.accounts.clone();
        self.see(value, |account| {
            let after = Account { answered: account.answered + 1, last: value, ..account.clone() };
            (value > account.last && after.admits(value)).then_some(after)
        });
        self.check(value, &before)
    }

    /// The value was read at a moment when no step is under way.
    pub(crate) fn read(&mut self, value: i64) -> Result<(), String> {
        let before = self.accounts.clone();
        self.see(value, |account| (value >= account.last && account.admits(value)).then(|| account.clone()));
        self.check(value, &before)
    }

    /// Goes on with the accounts that a value fits. If there are any, one that begins with a setting that may still be on its way
    /// stays as well: then the step that was seen came before it.
    fn see(&mut self, value: i64, fitting: impl Fn(&Account) -> Option<Account>) {
        let mut is_explained = false;
        self.accounts.retain_mut(|account| match fitting(account) {
            Some(after) => {
                *account = after;
                is_explained = true;
                true
            }
            None if account.is_set_later && value >= account.base => {
                account.sent = account.answered.max(account.sent - 1);
                true
            }
            None => false,
        });
        if !is_explained {
            self.accounts.clear();
        }
    }

    /// It is about to be set to `value`. Steps that were sent before and not answered may still come if `may_come`.
    pub(crate) fn set(&mut self, value: i64, may_come: bool) {
        let open = self.accounts.iter().map(|account| account.sent - account.answered).max().unwrap_or(0);
        let sent = if may_come { open } else { 0 };
        self.accounts.push(Account { base: value, sent, answered: 0, last: value, is_set_later: true });
    }

    fn check(&self, value: i64, before: &[Account]) -> Result<(), String> {
        match self.accounts.is_empty() {
            false => Ok(()),
            true => {
                Err(format!("a counter is {value}, which fits no account of what was done to it: {before:?}"))
            }
        }
    }
}

impl Account {
    fn admits(&self, value: i64) -> bool {
        (self.base + self.answered..=self.base + self.sent).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answered_step_counts_once_and_a_failed_one_at_most_once() {
        let mut counter = Counter::default();
        counter.sent();
        assert!(counter.clone().answered(0).is_err(), "lost");
        assert!(counter.clone().answered(2).is_err(), "applied twice");
        counter.answered(1).unwrap();
        counter.sent();
        counter.sent();
        assert!(counter.clone().answered(1).is_err(), "lost");
        for value in [2, 3] {
            assert!(counter.clone().answered(value).is_ok(), "the failed one may have been applied or not");
        }
        assert!(counter.answered(4).is_err());
    }

    #[test]
    fn a_number_that_was_set_back_may_be_either_until_it_is_seen() {
        let mut counter = Counter::default();
        for value in 1..=5 {
            counter.sent();
            counter.answered(value).unwrap();
        }
        counter.set(3, false);
        let mut kept = counter.clone();
        counter.sent();
        counter.answered(4).unwrap();
        assert!(counter.read(6).is_err(), "it has been set back");
        kept.sent();
        kept.answered(6).unwrap();
        assert!(kept.read(4).is_err(), "it has not been set back");
    }

    #[test]
    fn a_step_may_overtake_the_setting() {
        let mut counter = Counter::default();
        counter.sent();
        counter.answered(1).unwrap();
        counter.set(0, false);
        counter.sent();
        counter.answered(2).unwrap();
        counter.sent();
        counter.answered(1).unwrap();
        assert!(counter.read(3).is_err(), "it has been set back by now");
    }

    #[test]
    fn setting_it_back_twice_loses_answered_steps_and_is_noticed() {
        let mut counter = Counter::default();
        counter.set(3, false);
        counter.sent();
        counter.answered(4).unwrap();
        counter.sent();
        counter.answered(5).unwrap();
        counter.sent();
        assert!(counter.answered(4).is_err());
    }
}
