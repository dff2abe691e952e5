//! Fuzzes pages of metrics: mutated points of one GPU change no account of another.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::metric_page(bytes));
