//! Runs `filters` of `api/src/fuzz.rs` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| api::fuzz::filters(bytes));
