//! Runs `segments` of `raft/src/fuzz.rs` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| raft::fuzz::segments(bytes));
