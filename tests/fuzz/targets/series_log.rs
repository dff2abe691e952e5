//! Fuzzes the reader of series in JSON.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::series_log(bytes));
