//! Fuzzes `fuzzing::services::master_service`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::services::master_service(data));
