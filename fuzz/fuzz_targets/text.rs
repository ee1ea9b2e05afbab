//! Fuzzes `fuzzing::kernels::text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::kernels::text(data));
