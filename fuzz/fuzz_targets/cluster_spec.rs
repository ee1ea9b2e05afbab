//! Fuzzes `fuzzing::cluster::cluster_spec`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::cluster::cluster_spec(data));
