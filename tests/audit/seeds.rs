//! What the fuzz targets hold true, on their seeds, on the logs that are kept, and on a few made
//! ones: without a fuzzer.

use std::fs;
use std::path::Path;

use crate::logs::{Ids, Plan, gzipped};

#[path = "../fuzz/properties.rs"]
mod properties;

/// Runs a property on every file in a folder under `tests`.
fn on_each(folder: &str, least: usize, property: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(folder);
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= least, "only {} files", files.len());
    files.iter().for_each(|file| property(&fs::read(file).unwrap()));
}

#[test]
fn the_log_target_holds() {
    on_each("fuzz/seeds/log", 8, properties::log);
    on_each("fixtures/logs", 50, properties::log);
    for ids in [Ids::Index, Ids::BusId, Ids::Uuid, Ids::Nothing] {
        let plan = Plan { gpus: 3, ids, ticks: 200, missing: 30, late: 300, ..Plan::default() };
        properties::log(plan.text().as_bytes());
        properties::log(&gzipped(plan.text()));
    }
}

#[test]
fn the_traceparent_target_holds() {
    on_each("fuzz/seeds/traceparent", 4, properties::traceparent);
}

#[test]
fn the_environment_target_holds() {
    on_each("fuzz/seeds/otlp_environment", 4, properties::otlp_environment);
}

#[test]
fn the_recorded_target_holds() {
    on_each("fuzz/seeds/recorded", 8, properties::recorded);
}
