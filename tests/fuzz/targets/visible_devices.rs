//! Fuzzes the names of GPUs in variables of containers.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::visible_devices(bytes));
