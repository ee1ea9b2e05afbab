//! Fuzzes `fuzzing::tensors::recv_tensor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::tensors::recv_tensor(data));
