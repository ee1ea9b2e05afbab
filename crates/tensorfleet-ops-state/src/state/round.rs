//! [`Round`]: who has given a gradient to the round that an accumulator collects for.
//!
//! A round has a number, the global step its gradients were computed at. A gradient of an earlier round is stale. With members, as
//! Tensorfleet's own `SyncReplicasOptimizer` asks for, each worker counts once in a round, so that a worker which sends its gradient
//! again after a failure does not stand in for another one. A chief that comes back begins the round of the model's step: what was
//! given to another round, or is in part gone with a chief that had taken it, does not mix with it.
//!
//! No lock, no clock of its own, no tensor: the accumulator asks what becomes of a gradient and does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tensorfleet_kernel::kernel::StepOrigin;
use tensorfleet_kernel::resource::RoundReport;

/// What becomes of a gradient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is added to the sum.
    Counts,
    /// It was computed for an earlier round, and is dropped.
    Stale,
    /// Its member has one in this round already, and it is dropped.
    Repeated,
}

/// How a gradient is given.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// By whom.
    pub(crate) origin: Arc<StepOrigin>,
    /// The step it was computed at.
    pub(crate) local_step: i64,
    /// Whether its owner counts once in a round.
    pub(crate) once_per_member: bool,
}

/// When a round may be taken without all the gradients it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Patience {
    /// So many members must have given one.
    pub(crate) min_members: usize,
    /// They wait this long for the others.
    pub(crate) wait: Duration,
}

/// The round that an accumulator collects for.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Its number: gradients of steps before this one are stale.
    step: i64,
    /// Gradients in the sum.
    count: usize,
    /// Whose they are; an owner may have several, an unknown one is not listed.
    gifts: Vec<Gift>,
    /// Who has given to this or an earlier round.
    members: Vec<Arc<str>>,
    /// Who has taken a round last.
    taker: Option<Arc<str>>,
    /// How many are waited for: fewer than asked for, after a round went on without somebody.
    expected: Option<usize>,
    /// When the last gradient came, or the round began.
    changed: Option<Instant>,
}

#[derive(Debug)]
struct Gift {
    owner: Arc<str>,
    local_step: i64,
}

/// More owners than this are not listed: they come from outside.
const MAX_MEMBERS: usize = 4096;

impl Round {
    /// How many gradients it has.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Sets its number and keeps what it has, as TensorFlow does.
    pub(crate) fn set_step(&mut self, step: i64) {
        self.step = step;
    }

    /// What becomes of a gradient.
    pub(crate) fn judge(&self, offer: &Offer) -> Verdict {
        if offer.local_step < self.step {
            return Verdict::Stale;
        }
        let owner = &offer.origin.owner;
        if offer.once_per_member && !owner.is_empty() && self.has(owner) {
            return Verdict::Repeated;
        }
        Verdict::Counts
    }

    fn has(&self, owner: &str) -> bool {
        self.gifts.iter().any(|gift| &*gift.owner == owner)
    }

    /// Notes a gradient that counts and has been added.
    pub(crate) fn note(&mut self, offer: &Offer, now: Instant) {
        self.count += 1;
        self.changed = Some(now);
        let owner = &offer.origin.owner;
        if owner.is_empty() || self.gifts.len() >= MAX_MEMBERS {
            return;
        }
        self.gifts.push(Gift { owner: owner.clone(), local_step: offer.local_step });
        if self.members.len() < MAX_MEMBERS && !self.members.contains(owner) {
            self.members.push(owner.clone());
        }
    }

    /// How many members have given a gradient.
    fn num_members(&self) -> usize {
        let mut owners: Vec<&str> = self.gifts.iter().map(|gift| &*gift.owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners.len()
    }

    /// Whether a take that asks for `required` gradients gets what there is now.
    pub(crate) fn is_complete(&self, required: usize, patience: Option<Patience>, now: Instant) -> bool {
        if self.count == 0 {
            return false;
        }
        if self.count >= required {
            return true;
        }
        let Some(patience) = patience else { return false };
        let present = self.num_members();
        let enough = present >= patience.min_members.max(1);
        enough
            && (self.expected.is_some_and(|expected| present >= expected) || self.is_overdue(patience, now))
    }

    fn is_overdue(&self, patience: Patience, now: Instant) -> bool {
        self.changed.is_some_and(|changed| now.saturating_duration_since(changed) >= patience.wait)
    }

    /// Ends the round: its gradients leave, and the next one begins. `required` is what the take had asked for.
    pub(crate) fn take(&mut self, taker: &StepOrigin, required: usize, now: Instant) -> usize {
        let present = self.num_members();
        // Who was missing is not waited for again until it gives something; who has come back is.
        self.expected = (self.count < required).then_some(present);
        self.taker = Some(taker.owner.clone()).filter(|owner| !owner.is_empty()).or(self.taker.take());
        self.step = self.step.saturating_add(1);
        self.gifts.clear();
        self.changed = Some(now);
        std::mem::take(&mut self.count)
    }

    /// Begins the round of `step`, as a chief does that has come back; whether what was collected so far is to be dropped.
    ///
    /// Gradients of this very round stay: their workers have seen the model that the chief has found. If a round of this step or a
    /// later one was taken already, it has not led to a step of the model, and its workers must give again.
    pub(crate) fn begin(&mut self, step: i64, now: Instant) -> bool {
        let stays = self.step <= step
            && self.gifts.len() == self.count
            && self.gifts.iter().all(|gift| gift.local_step == step);
        self.step = step;
        self.changed = Some(now);
        if !stays {
            self.count = 0;
            self.gifts.clear();
        }
        !stays
    }

    /// What people want to know about it.
    pub(crate) fn report(&self, now: Instant) -> RoundReport {
        let given: Vec<Arc<str>> = self.members.iter().filter(|member| self.has(member)).cloned().collect();
        let missing = self.members.iter().filter(|member| !self.has(member)).cloned().collect();
        RoundReport {
            step: self.step,
            count: self.count,
            required: None,
            given,
            missing,
            taker: self.taker.clone(),
            quiet: self.changed.map_or(Duration::ZERO, |changed| now.saturating_duration_since(changed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(owner: &str) -> Arc<StepOrigin> {
        Arc::new(StepOrigin { owner: owner.into(), incarnation: 1, session: "s".into() })
    }

    fn offer(owner: &str, local_step: i64) -> Offer {
        Offer { origin: origin(owner), local_step, once_per_member: true }
    }

    /// Gives a gradient; what became of it.
    fn give(round: &mut Round, owner: &str, local_step: i64, now: Instant) -> Verdict {
        let offer = offer(owner, local_step);
        let verdict = round.judge(&offer);
        if verdict == Verdict::Counts {
            round.note(&offer, now);
        }
        verdict
    }

    fn now() -> Instant {
        tensorfleet_core::clock::Clock::manual().now()
    }

    #[test]
    fn a_member_counts_once_in_a_round_and_again_in_the_next() {
        let (mut round, now) = (Round::default(), now());
        assert_eq!(give(&mut round, "w0", 0, now), Verdict::Counts);
        assert_eq!(give(&mut round, "w0", 0, now), Verdict::Repeated);
        assert!(!round.is_complete(2, None, now));
        assert_eq!(give(&mut round, "w1", 0, now), Verdict::Counts);
        assert!(round.is_complete(2, None, now));
        assert_eq!(round.take(&origin("w0"), 2, now), 2);
        assert_eq!(give(&mut round, "w0", 0, now), Verdict::Stale);
        assert_eq!(give(&mut round, "w0", 1, now), Verdict::Counts);
        let report = round.report(now);
        assert_eq!((report.given, report.missing), (vec!["w0".into()], vec!["w1".into()]));
        assert_eq!(report.taker, Some("w0".into()));
    }

    #[test]
    fn without_members_everything_counts_as_in_tensorflow() {
        let (mut round, now) = (Round::default(), now());
        for owner in ["w0", "w0", "", ""] {
            let offer = Offer { once_per_member: false, ..offer(owner, 3) };
            assert_eq!(round.judge(&offer), Verdict::Counts);
            round.note(&offer, now);
        }
        assert_eq!(round.count(), 4);
        let anonymous = offer("", 3);
        assert_eq!(round.judge(&anonymous), Verdict::Counts, "who is not known is nobody twice");
    }

    #[test]
    fn a_chief_that_comes_back_keeps_the_gradients_of_its_round_and_no_others() {
        let (mut round, now) = (Round::default(), now());
        give(&mut round, "w1", 5, now);
        assert!(!round.begin(5, now), "a worker was there first");
        assert_eq!(give(&mut round, "w1", 5, now), Verdict::Repeated);
        assert!(round.begin(4, now), "the model has gone back");
        assert_eq!(round.count(), 0);
        give(&mut round, "w0", 4, now);
        round.take(&origin("w0"), 1, now);
        give(&mut round, "w1", 5, now);
        assert!(round.begin(4, now), "round 4 was taken and has not led to step 5");
        assert_eq!(give(&mut round, "w1", 4, now), Verdict::Counts);
    }

    #[test]
    fn a_round_goes_on_without_a_missing_member_and_waits_for_it_once() {
        let patience = Some(Patience { min_members: 2, wait: Duration::from_secs(5) });
        let (mut round, start) = (Round::default(), now());
        for owner in ["w0", "w1"] {
            give(&mut round, owner, 0, start);
        }
        assert!(!round.is_complete(3, patience, start + Duration::from_secs(4)));
        let late = start + Duration::from_secs(5);
        assert!(round.is_complete(3, patience, late));
        round.take(&origin("w0"), 3, late);
        give(&mut round, "w0", 1, late);
        assert!(!round.is_complete(3, patience, late + Duration::from_secs(60)), "one is not enough");
        give(&mut round, "w1", 1, late);
        assert!(round.is_complete(3, patience, late), "the missing one is not waited for again");
        round.take(&origin("w0"), 3, late);
        give(&mut round, "w2", 2, late);
        give(&mut round, "w0", 2, late);
        assert!(round.is_complete(3, patience, late));
        give(&mut round, "w1", 2, late);
        round.take(&origin("w0"), 3, late);
        give(&mut round, "w0", 3, late);
        give(&mut round, "w1", 3, late);
        assert!(!round.is_complete(3, patience, late), "it was back, and is waited for");
    }
}
