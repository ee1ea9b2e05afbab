//! Fuzzes `fuzzing::tensors::tensor_proto`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::tensors::tensor_proto(data));
