//! Fuzzes the parser of OpenTelemetry environment variables.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::otlp_environment(bytes));
