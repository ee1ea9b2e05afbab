//! Fuzzes `fuzzing::files::meta_graph`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::files::meta_graph(data));
