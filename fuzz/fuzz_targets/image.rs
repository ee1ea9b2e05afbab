//! Fuzzes `fuzzing::kernels::image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::kernels::image(data));
