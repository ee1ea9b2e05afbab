//! The rounds of a synchronous training, as `status` shows them: a model has an accumulator per variable, and most stand alike.

use tensorfleet_kernel::resource::RoundReport;

use crate::status::RoundStatus;

/// More kinds of rounds than this are not told: they come from outside.
const MAX_ROUNDS: usize = 100;

/// The rounds, those that stand alike together.
pub(super) fn gathered(rounds: Vec<(String, RoundReport)>) -> Vec<RoundStatus> {
    let mut gathered: Vec<RoundStatus> = Vec::new();
    for (_, round) in rounds {
        let status = status_of(&round);
        let is_alike = |other: &&mut RoundStatus| {
            other.step == status.step
                && other.required == status.required
                && other.given == status.given
                && other.missing == status.missing
        };
        if let Some(other) = gathered.iter_mut().find(is_alike) {
            other.accumulators += 1;
            other.quiet_seconds = other.quiet_seconds.min(status.quiet_seconds);
        } else if gathered.len() < MAX_ROUNDS {
            gathered.push(status);
        }
    }
    gathered
}

fn status_of(round: &RoundReport) -> RoundStatus {
    let names = |members: &[std::sync::Arc<str>]| {
        let mut names: Vec<String> = members.iter().map(|member| member.to_string()).collect();
        names.sort();
        names
    };
    RoundStatus {
        step: round.step,
        count: round.count,
        required: round.required,
        given: names(&round.given),
        missing: names(&round.missing),
        taker: round.taker.as_ref().map(|taker| taker.to_string()),
        quiet_seconds: round.quiet.as_secs_f64(),
        accumulators: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accumulators_that_stand_alike_are_told_together() {
        let round = |count: usize| RoundReport {
            step: 3,
            count,
            given: vec!["w0".into(); count],
            ..Default::default()
        };
        let all = [1, 2, 1].map(|count| ("a".to_string(), round(count))).to_vec();
        let counts: Vec<(usize, usize)> =
            gathered(all).iter().map(|status| (status.count, status.accumulators)).collect();
        assert_eq!(counts, [(1, 2), (2, 1)]);
    }
}
