//! Cases of math.

use tensorfleet_tests::gradient_check::GradientCase;

pub(crate) fn cases() -> Vec<GradientCase> {
    Vec::new()
}
