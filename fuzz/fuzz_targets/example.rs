//! Fuzzes `fuzzing::kernels::example`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::kernels::example(data));
