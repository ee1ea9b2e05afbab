//! Tests that need something of the machine, and what becomes of them where it is missing.
//!
//! A person without Python 3.7 should still be able to run the tests; a machine that accepts changes must not: a test that
//! nobody runs proves nothing. So `CI`, which such machines set, turns what is missing into a failure, unless
//! `TENSORFLEET_ALLOW_SKIPS` says that it is known.

/// Says that the calling test is left out, what it lacks and how to get it; or fails, where nothing may be left out.
pub fn skip(missing: &str, remedy: &str) {
    match allowed() {
        true => println!("skipped: {missing}; {remedy}"),
        false => panic!("{}", refusal(missing, remedy)),
    }
}

/// Whether tests may be left out here.
pub fn allowed() -> bool {
    let is_set = |name| {
        std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0" && value != "false")
    };
    may_skip(is_set("CI"), is_set("TENSORFLEET_ALLOW_SKIPS"))
}

/// What is said where they may not.
pub fn refusal(missing: &str, remedy: &str) -> String {
    format!("{missing}, and with CI set no test may be left out: {remedy}, or set TENSORFLEET_ALLOW_SKIPS=1")
}

fn may_skip(is_ci: bool, is_allowed: bool) -> bool {
    !is_ci || is_allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_machines_that_accept_changes_insist_and_only_until_told_otherwise() {
        assert!(may_skip(false, false) && may_skip(false, true) && may_skip(true, true));
        assert!(!may_skip(true, false));
    }

    #[test]
    fn a_refusal_says_what_is_missing_and_what_to_do() {
        let text = refusal("this machine has no wget", "install it");
        assert!(
            text.starts_with("this machine has no wget, and") && text.contains("install it, or set"),
            "{text}"
        );
    }
}
