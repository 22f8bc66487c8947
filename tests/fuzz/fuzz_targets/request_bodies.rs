//! Runs `request_bodies` of `api/src/fuzz.rs` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| api::fuzz::request_bodies(bytes));
