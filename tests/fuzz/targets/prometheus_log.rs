//! Fuzzes the reader of pages and dumps of Prometheus.

#![no_main]

#[path = "../properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::prometheus_log(bytes));
