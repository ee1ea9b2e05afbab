//! How many sessions one client may have: never so many that there are none left for the next one.

use std::fmt::Display;

use tensorfleet_core::{Result, bail};
use tensorfleet_rpc::Origin;

/// A bound on things that clients make, and how people name them.
pub(crate) struct Bound {
    pub(crate) most: usize,
    /// E.g. `sessions`.
    pub(crate) what: &'static str,
}

impl Bound {
    /// Refuses one more for `client`, if there are as many as there may be, or if it has more than would be left for others.
    /// `owners` are those of what there is. A client of this process has no origin, and no share: it is the server's own.
    pub(crate) fn check(
        &self,
        task: impl Display,
        client: Option<Origin>,
        owners: impl Iterator<Item = Option<Origin>>,
    ) -> Result<()> {
        let (mut all, mut own) = (0, 0);
        for owner in owners {
            all += 1;
            own += usize::from(client.is_some() && owner == client);
        }
        let (most, what) = (self.most, self.what);
        if all >= most {
            bail!(
                ResourceExhausted,
                "{task} has {all} {what}, as many as it may: close {what} that are not used, or end the programs that \
                 made them"
            );
        }
        let left = most - all;
        if own >= left {
            bail!(
                ResourceExhausted,
                "{task} has {all} {what} of the {most} it may have, {own} of them from this client: the {left} that are left \
                 are kept for others; close {what} that are not used"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound { most: 1000, what: "sessions" };

    fn fill(owners: &mut Vec<Option<Origin>>, client: Option<Origin>) -> (usize, String) {
        let before = owners.len();
        loop {
            match BOUND.check("/job:a/task:0", client, owners.iter().copied()) {
                Ok(()) => owners.push(client),
                Err(status) => return (owners.len() - before, status.text().to_string()),
            }
        }
    }

    #[test]
    fn each_client_gets_half_of_what_is_left_and_the_last_one_something() {
        let mut owners = Vec::new();
        let (first, refusal) = fill(&mut owners, Some(Origin::Process(1)));
        assert_eq!(first, 500);
        assert!(refusal.contains("500 of them") && refusal.contains("close"), "{refusal}");
        assert_eq!(fill(&mut owners, Some(Origin::Process(2))).0, 250);
        let last = (3..9).map(|id| fill(&mut owners, Some(Origin::Process(id))).0).last();
        assert!(last.is_some_and(|last| last > 0));
    }

    #[test]
    fn the_process_itself_has_no_share_but_the_bound() {
        let mut owners = Vec::new();
        let (all, refusal) = fill(&mut owners, None);
        assert_eq!(all, 1000);
        assert!(refusal.contains("as many as it may"), "{refusal}");
    }
}
