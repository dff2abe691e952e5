//! Fuzzes the parsers of policy fixtures.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::fixture(bytes));
