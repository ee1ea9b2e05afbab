//! Fuzzes `fuzzing::files::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::files::record(data));
