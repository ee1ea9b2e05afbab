//! Fuzzes `fuzzing::names::slice_spec`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::names::slice_spec(data));
