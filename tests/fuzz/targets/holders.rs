//! Fuzzes the formats of what tells who holds a GPU.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::holders(bytes));
