//! Fuzzes the schema of settings, and settings.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::schema(bytes));
