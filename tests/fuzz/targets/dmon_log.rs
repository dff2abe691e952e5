//! Fuzzes the reader of the output of `dcgmi dmon`.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::dmon_log(bytes));
