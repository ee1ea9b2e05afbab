//! Fuzzes `fuzzing::http::http`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::http::http(data));
