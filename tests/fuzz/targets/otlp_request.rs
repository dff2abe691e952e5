//! Fuzzes the receiver: bodies of requests, compressed or not, and the metering of what is accepted.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::otlp_request(bytes));
