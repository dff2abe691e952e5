//! Fuzzes the reader of files of OTLP in JSON.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::otlp_json_log(bytes));
