//! Fuzzes `fuzzing::names::device_name`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::names::device_name(data));
