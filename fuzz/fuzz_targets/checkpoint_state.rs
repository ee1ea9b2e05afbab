//! Fuzzes `fuzzing::files::checkpoint_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::files::checkpoint_state(data));
