//! Fuzzes the readers of clouds' price files.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::price_file(bytes));
