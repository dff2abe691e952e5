//! Fuzzes the invoice that a bill is compared with.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::invoice(bytes));
