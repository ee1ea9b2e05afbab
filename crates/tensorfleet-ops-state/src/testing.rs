//! Ops of this crate in unit tests.

pub(crate) use tensorfleet_kernel::testing::{TestOp, test_step};

use tensorfleet_kernel::Catalogue;

/// What the tests of this crate may run.
static OPS: Catalogue = Catalogue::new(&[crate::GROUPS]);

/// An op about to be run.
pub(crate) fn test_op(name: &str) -> TestOp {
    TestOp::new(&OPS, name)
}
