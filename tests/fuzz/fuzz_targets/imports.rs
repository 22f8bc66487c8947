//! Runs `imports` of `node/src/fuzz.rs` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| node::fuzz::imports(bytes));
