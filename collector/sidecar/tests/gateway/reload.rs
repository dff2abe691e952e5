//! A configuration file that changes while a gateway goes on.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use phasemeter_meter::instant::Instant as At;
use serde_json::Value;

use crate::dcgm::page;
use crate::health::until;
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, client};
use crate::{GPU, SOON};

const HUP: i32 = 1;

fn at(text: &Value) -> i128 {
    text.as_str().unwrap().parse::<At>().unwrap().0.as_nanos().into()
}

fn nanos(usd: &Value) -> i128 {
    usd.as_str().unwrap().replace('.', "").parse().unwrap()
}

/// Scenario: a gateway holds readings of the minute before and of the minute after its file gets another price.
/// Guarantee: the price changes at one instant, that of the reload: readings that it held are charged by their times.
#[test]
fn price_changes_at_the_instant_of_the_reload() {
    let backend = MockBackend::start([]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("phasemeter.yaml");
    let write = |price: &str| {
        let own =
            format!("distribution: {{phasemeter: {{prices: {{usd_per_gpu_hour: {price}}}}}}}\n");
        // Exports as the variables say that other tests set.
        let references = "file_format: \"1.1\"\nmeter_provider: {readers: [{periodic: {exporter: {otlp_grpc: {endpoint: \
                          \"${OTEL_EXPORTER_OTLP_ENDPOINT}\"}}}}]}\n";
        let unfinished = file.with_extension("unfinished");
        fs::write(&unfinished, references.to_owned() + &own).unwrap();
        fs::rename(&unfinished, &file).unwrap();
    };
    write("3.6");
    let file_name = file.to_str().unwrap();
    let options =
        format!("--config {file_name} --hold 10 --stale-after 45 --health-listen 127.0.0.1:0");
    let options: Vec<_> = options.split(' ').collect();
    let gateway = Gateway::start(&backend, &options);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let client = client(&gateway.endpoint());
    (now - 60..now + 60).step_by(10).for_each(|at| client.enqueue(page(GPU, at, 50.0)));
    assert!(client.flush(SOON).all_sent());

    // Before they are released.
    write("7.2");
    phasemeter_process::send(gateway.id(), HUP).unwrap();
    let has_price = |status, body: &str| status == 200 && body.contains("\"7.200000000\"");
    until(gateway.probes(), "/status", has_price);
    let (status, report, log) = gateway.stop_with_log();
    assert!(status.success() && log.contains("applied: prices"), "{log}");
    let gpu = &report["gpus"][0];
    assert_eq!(gpu["rate_usd_per_gpu_hour"], "7.200000000", "{gpu:#}");
    assert_eq!(gpu["earlier_prices_total"], 1, "{gpu:#}");
    let (start, end) = (at(&gpu["start"]), at(&gpu["end"]));
    let step = at(&gpu["earlier_prices"][0]["until"]);
    let now = i128::from(now) * 1_000_000_000;
    assert!(now <= step && step < end && start < now, "{gpu:#}");
    let cost = ((step - start) + 2 * (end - step)) / 1_000;
    let billed = nanos(&gpu["cost_usd"]);
    assert!((billed - cost).abs() <= 2, "{billed} and {cost}: {gpu:#}");
}
