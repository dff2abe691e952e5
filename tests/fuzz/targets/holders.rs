//! Fuzzes the formats of evidence about the holders of GPUs.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::holders(bytes));
