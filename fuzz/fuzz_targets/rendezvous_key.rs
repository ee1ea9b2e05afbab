//! Fuzzes `fuzzing::names::rendezvous_key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::names::rendezvous_key(data));
