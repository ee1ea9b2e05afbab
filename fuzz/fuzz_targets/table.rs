//! Fuzzes `fuzzing::files::table`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::files::table(data));
