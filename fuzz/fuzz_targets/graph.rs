//! Fuzzes `fuzzing::graphs::graph`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::graphs::graph(data));
