//! Runs `log_records` of `raft/src/fuzz.rs` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft::fuzz::log_records(bytes));
