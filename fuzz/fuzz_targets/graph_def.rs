//! Fuzzes `fuzzing::graphs::graph_def`. Half of the changes are made to the graph, the others to its bytes.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use tensorfleet_tests::fuzzing::graphs::{graph_def, mutate_graph_def};

fuzz_target!(|data: &[u8]| graph_def(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match if seed.is_multiple_of(2) { mutate_graph_def(data, size, seed) } else { 0 } {
        0 => fuzzer_mutate(data, size, max_size),
        size => size,
    }
});
