//! Every packed conformance case, run on real servers with its nodes spread over their tasks.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tensorfleet_tests::fleet::Fleet;
use tensorfleet_tests::packed;
use tensorfleet_tests::suite::run_all;

#[test]
fn every_case_passes_over_the_network_and_none_is_skipped() {
    let cases = packed::cases().unwrap().into_iter().map(Arc::new).collect();
    let report = run_all(Arc::new(Fleet), cases, |_| {});
    let counts = report.counts();
    println!("{}{}", report.table(), report.skips());
    assert!(counts.passed > 400, "{counts}");
    assert_eq!((counts.failed, counts.skipped), (0, 0), "{counts}\n{}", report.failures());
}
