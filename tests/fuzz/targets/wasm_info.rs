//! Fuzzes the survey of a WebAssembly file.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::wasm_info(bytes));
