//! Fuzzes `fuzzing::files::old_checkpoint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tensorfleet_tests::fuzzing::files::old_checkpoint(data));
