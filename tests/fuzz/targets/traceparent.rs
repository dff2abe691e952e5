//! Fuzzes the parser of trace contexts.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::traceparent(bytes));
