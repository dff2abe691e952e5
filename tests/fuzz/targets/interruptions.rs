//! Fuzzes the conversations with the metadata services of clouds.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::interruptions(bytes));
