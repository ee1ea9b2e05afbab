//! [`Tokens`]: what a queue of tokens knows beyond its elements.
//!
//! The token queue of synchronous training is an ordinary queue: the chief puts one token per worker into it after each round, and
//! each worker waits for one. Tensorfleet's own `SyncReplicasOptimizer` says so in attributes, and then
//!
//! - a member gets one token of a round: what is left for a worker that is gone does not let another one run ahead;
//! - tokens of an earlier round go when the next round's come, so that they do not pile up;
//! - a chief that starts begins the queue anew: it is open and empty, and steps that had begun before, whose gradients may have
//!   gone with the round of a chief before it, are told to begin anew as well.
//!
//! No lock and no tensor: the queue asks, and acts.

use std::sync::Arc;

use tensorfleet_core::{Result, Status};
use tensorfleet_kernel::kernel::StepOrigin;

/// How a node of synchronous training uses its queue of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum TokenUse {
    /// It does not say: a queue like any other.
    #[default]
    Plain,
    /// The chief starts: whatever was before is over.
    Begin,
    /// The tokens of a round, one per member.
    Round,
    /// A member takes its token.
    Member,
}

impl TokenUse {
    /// Reads the attribute of a node.
    pub(super) fn parse(text: &str) -> Result<TokenUse> {
        Ok(match text {
            "" => TokenUse::Plain,
            "begin" => TokenUse::Begin,
            "round" => TokenUse::Round,
            "member" => TokenUse::Member,
            other => {
                return Err(Status::invalid_argument(format!(
                    "'{other}' is no way to use a queue of tokens"
                )));
            }
        })
    }
}

/// Who takes from a queue.
#[derive(Clone, Debug)]
pub(super) struct Taker {
    pub(super) origin: Arc<StepOrigin>,
    /// When its step began.
    pub(super) epoch: u64,
    pub(super) token_use: TokenUse,
}

/// Who has taken which token.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// Whether a chief has ever begun the queue.
    is_begun: bool,
    /// Steps of an earlier epoch are over.
    epoch: u64,
    /// The newest token of each member.
    taken: Vec<(Arc<StepOrigin>, i64)>,
}

/// Members come from outside; the first of more than this many are forgotten.
const MAX_MEMBERS: usize = 4096;

impl Tokens {
    /// A chief begins the queue in `epoch`; whether steps that began before are to be told. Those that wait when the first chief
    /// of all begins a queue that nobody has used have lost nothing.
    pub(super) fn begin(&mut self, epoch: u64, was_used: bool) -> bool {
        let is_first = !std::mem::replace(&mut self.is_begun, true) && !was_used;
        self.taken.clear();
        if is_first {
            return false;
        }
        self.epoch = epoch;
        true
    }

    /// Whether a step may wait for a token: not if the chief has begun anew since it began.
    pub(super) fn check(&self, taker: &Taker) -> Result<()> {
        if taker.epoch < self.epoch { Err(begun_anew()) } else { Ok(()) }
    }

    /// Whether a member may have a token of this round.
    pub(super) fn may_take(&self, taker: &Taker, token: i64) -> bool {
        taker.token_use != TokenUse::Member
            || taker.origin.owner.is_empty()
            || !self.taken.iter().any(|(origin, newest)| *origin == taker.origin && *newest >= token)
    }

    /// Notes that a member has taken a token.
    pub(super) fn note(&mut self, taker: &Taker, token: i64) {
        if taker.token_use != TokenUse::Member || taker.origin.owner.is_empty() {
            return;
        }
        // A member's earlier sessions take no more.
        self.taken.retain(|(origin, _)| origin.owner != taker.origin.owner);
        if self.taken.len() >= MAX_MEMBERS {
            self.taken.remove(0);
        }
        self.taken.push((taker.origin.clone(), token));
    }
}

#[cold]
pub(super) fn begun_anew() -> Status {
    Status::aborted(
        "the chief has come back and begun its round anew while this step was under way: its gradients may be gone with \
         the round before. Run it again in a new session",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensorfleet_core::Code;

    fn taker(owner: &str, session: &str, epoch: u64) -> Taker {
        let origin = StepOrigin { owner: owner.into(), incarnation: 1, session: session.into() };
        Taker { origin: Arc::new(origin), epoch, token_use: TokenUse::Member }
    }

    #[test]
    fn a_member_gets_one_token_of_a_round_in_each_of_its_sessions() {
        let mut tokens = Tokens::default();
        let first = taker("w0", "a", 0);
        assert!(tokens.may_take(&first, 7));
        tokens.note(&first, 7);
        assert!(!tokens.may_take(&first, 7) && tokens.may_take(&first, 8));
        assert!(tokens.may_take(&taker("w1", "b", 0), 7));
        assert!(tokens.may_take(&taker("w0", "c", 0), 7), "what its lost session took is lost");
        let plain = Taker { token_use: TokenUse::Plain, ..first };
        assert!(tokens.may_take(&plain, 7));
    }

    #[test]
    fn steps_from_before_a_chief_that_came_back_are_told() {
        let mut tokens = Tokens::default();
        assert!(!tokens.begin(1, false), "nobody has lost anything to the first chief");
        tokens.check(&taker("w1", "a", 0)).unwrap();
        assert!(tokens.begin(2, true));
        assert!(Tokens::default().begin(1, true), "another program has used it");
        assert_eq!(tokens.check(&taker("w1", "a", 1)).unwrap_err().code(), Code::Aborted);
        tokens.check(&taker("w1", "b", 2)).unwrap();
    }
}
