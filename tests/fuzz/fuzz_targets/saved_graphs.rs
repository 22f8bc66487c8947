//! Runs `saved_graphs` of `storage/src/fuzz.rs` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| storage::fuzz::saved_graphs(bytes));
