//! Runs the properties of the fuzz targets on their seeds, on the log fixtures and on generated logs.

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::logs::{Ids, Plan, gzipped};

#[path = "../fuzz/properties.rs"]
mod properties;

/// Runs a property on every file in a directory under `tests`.
fn on_each(dir: &str, min_files: usize, property: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(dir);
    let files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= min_files, "only {} files", files.len());
    files.iter().for_each(|file| property(&fs::read(file).unwrap()));
}

#[test]
fn log_target_holds() {
    on_each("fuzz/seeds/log", 8, properties::log);
    on_each("fixtures/logs", 50, properties::log);
    for ids in [Ids::Index, Ids::BusId, Ids::Uuid, Ids::Nothing] {
        let plan = Plan { gpus: 3, ids, ticks: 200, missing: 30, late: 300, ..Plan::default() };
        properties::log(plan.text().as_bytes());
        properties::log(&gzipped(plan.text()));
    }
}

#[test]
fn alerts_target_holds() {
    on_each("fuzz/seeds/alerts", 4, properties::alerts);
    on_each("../otel-config/alerts", 2, properties::alerts);
}

#[test]
fn traceparent_target_holds() {
    on_each("fuzz/seeds/traceparent", 4, properties::traceparent);
}

#[test]
fn otlp_environment_target_holds() {
    on_each("fuzz/seeds/otlp_environment", 4, properties::otlp_environment);
}

#[test]
fn configuration_target_holds() {
    on_each("fuzz/seeds/configuration", 6, properties::configuration);
    on_each("../collector/config/tests/cases", 7, properties::configuration);
    on_each("../otel-config/configuration", 3, properties::configuration);
}

#[test]
fn fixture_target_holds() {
    on_each("fuzz/seeds/fixture", 8, properties::fixture);
}

#[test]
fn schema_target_holds() {
    on_each("fuzz/seeds/schema", 4, properties::schema);
}

#[test]
fn wasm_info_target_holds() {
    on_each("fuzz/seeds/wasm_info", 4, properties::wasm_info);
}

#[test]
fn lock_target_holds() {
    on_each("fuzz/seeds/lock", 4, properties::lock);
}

#[test]
fn signature_target_holds() {
    on_each("fuzz/seeds/signature", 4, properties::signature);
}

#[test]
fn outbox_target_holds() {
    on_each("fuzz/seeds/outbox", 5, properties::outbox);
}

#[test]
fn metric_log_targets_hold() {
    on_each("fuzz/seeds/prometheus_log", 4, properties::prometheus_log);
    on_each("fuzz/seeds/dmon_log", 3, properties::dmon_log);
    on_each("fuzz/seeds/otlp_json_log", 4, properties::otlp_json_log);
    on_each("fuzz/seeds/series_log", 4, properties::series_log);
}

#[test]
fn metric_page_target_holds() {
    on_each("fuzz/seeds/metric_page", 6, properties::metric_page);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Guarantee: mutated points of one GPU (values, labels, times, order, duplicates) change no account of another.
    #[test]
    fn mutation_of_one_gpu_changes_no_other(bytes in vec(any::<u8>(), 130..600)) {
        properties::metric_page(&bytes);
    }
}

#[test]
fn interruptions_target_holds() {
    on_each("fuzz/seeds/interruptions", 4, properties::interruptions);
}

#[test]
fn holders_target_holds() {
    on_each("fuzz/seeds/holders", 7, properties::holders);
}

#[test]
fn visible_devices_target_holds() {
    on_each("fuzz/seeds/visible_devices", 12, properties::visible_devices);
}

#[test]
fn otlp_request_target_holds() {
    on_each("fuzz/seeds/otlp_request", 10, properties::otlp_request);
}

#[test]
fn targets_of_files_hold() {
    on_each("fuzz/seeds/report", 3, properties::report);
    on_each("fuzz/seeds/profile", 3, properties::profile);
    on_each("fuzz/seeds/price_file", 4, properties::price_file);
    on_each("fuzz/seeds/work_message", 2, properties::work_message);
    on_each("fuzz/seeds/invoice", 3, properties::invoice);
    on_each("fuzz/seeds/mapping", 3, properties::mapping);
    on_each("../otel-config/mappings/work", 5, properties::mapping);
    on_each("fuzz/seeds/price_book", 2, properties::price_book);
    on_each("fuzz/seeds/trial", 2, properties::trial);
    on_each("fuzz/seeds/journal", 3, properties::journal);
    on_each("fuzz/seeds/claims", 2, properties::claims);
}

#[test]
fn backend_response_target_holds() {
    on_each("fuzz/seeds/backend_response", 6, properties::backend_response);
}

/// The seed of a target, and what is written over it where.
fn mutated(seed: &[u8], mutations: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (place, byte) in mutations {
        let place = place % bytes.len();
        bytes[place] = *byte;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Guarantee: a file with some bytes changed is rejected or read.
    #[test]
    fn damaged_files_are_rejected_or_read(mutations in vec((any::<usize>(), any::<u8>()), 1..6)) {
        let of = |seed: &[u8]| mutated(seed, &mutations);
        properties::report(&of(include_bytes!("../fuzz/seeds/report/half-day")));
        properties::price_file(&of(include_bytes!("../fuzz/seeds/price_file/azure")));
        properties::work_message(&of(include_bytes!("../fuzz/seeds/work_message/all")));
        properties::profile(&of(include_bytes!("../fuzz/seeds/profile/torn")));
        properties::invoice(&of(include_bytes!("../fuzz/seeds/invoice/teams")));
        properties::mapping(&of(include_bytes!("../fuzz/seeds/mapping/gpus")));
        properties::price_book(&of(include_bytes!("../fuzz/seeds/price_book/plans")));
        properties::trial(&of(include_bytes!("../fuzz/seeds/trial/saves")));
        properties::claims(&of(include_bytes!("../fuzz/seeds/claims/two-gpus")));
    }
}
