//! A page of dcgm-exporter, scraped by a real Collector, which sends it to two gateways: they divide its GPUs.
//!
//! ```text
//! page ─→ otelcol ─┬→ phasemeter gateway a ─┬→ otelcol ─→ file: each GPU once, each point once
//!                  └→ phasemeter gateway b ─┘
//! ```

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use crate::gateway::{TERM, serve, start_gateway};
use crate::otelcol::Otelcol;
use crate::server::free_ports;

const GPUS: u64 = 16;

/// The page of a host of sixteen GPUs.
fn page() -> String {
    let line = |gpu: u64| {
        format!(
            "DCGM_FI_DEV_GPU_UTIL{{gpu=\"{gpu}\",UUID=\"GPU-{gpu:08x}-0000\",modelName=\"NVIDIA L4\",\
             hostname=\"node-1\"}} 50\n"
        )
    };
    let head =
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n";
    head.to_owned() + &(0..GPUS).map(line).collect::<String>()
}

/// Guarantee: each GPU is billed by one of both gateways from its first scrape to its last, each of them has some, and
/// each point that was scraped passes once.
#[test]
fn two_gateways_bill_each_scraped_gpu_once() {
    let Some(otelcol) = Otelcol::find() else { return };
    let exporter = serve(page).to_string();
    let [a, b] = free_ports().map(|address| address.to_string());
    let variables = [
        ("OTELCOL_DCGM_EXPORTER", exporter.as_str()),
        ("OTELCOL_GATEWAY", &a),
        ("OTELCOL_GATEWAY_B", &b),
        ("OTELCOL_SCRAPE_INTERVAL", "1s"),
    ];
    let files = ["collector.yaml", "gateway.yaml", "replicas.yaml"];
    let collector = otelcol.start_with(&files, &variables);
    let options = |own| ["--replicas", "a,b", "--replica", own];
    let gateways = [(&a, "a"), (&b, "b")]
        .map(|(listen, own)| start_gateway(&collector, listen, &options(own)));
    thread::sleep(Duration::from_secs(16));
    for mut gateway in gateways {
        phasemeter_process::send(gateway.id(), TERM).unwrap();
        assert!(gateway.wait().unwrap().success());
    }
    let captured = collector.captured();

    let scraped: BTreeMap<String, Vec<u64>> = captured
        .streams("DCGM_FI_DEV_GPU_UTIL")
        .into_iter()
        .map(|(attributes, stream)| {
            let mut times: Vec<_> = stream.points.iter().map(|point| point.time).collect();
            times.sort_unstable();
            (attributes["UUID"].clone(), times)
        })
        .collect();
    assert_eq!(scraped.len() as u64, GPUS);
    for times in scraped.values() {
        assert!(times.len() > 3 && times.is_sorted_by(|a, b| a < b), "once: {times:?}");
    }
    let mut billed: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (attributes, stream) in captured.streams("phasemeter.gpu.cost") {
        let last = stream.points.last().unwrap().value;
        billed.entry(attributes["hw.id"].clone()).or_default().push(last);
    }
    for (gpu, times) in &scraped {
        let seconds = (times[times.len() - 1] - times[0]) as f64 / 1e9;
        let cost: f64 = billed[gpu].iter().sum();
        // At $3.60 per hour. Both gateways may end between two scrapes.
        assert!((cost - seconds / 1e3).abs() <= 2.1e-3, "{gpu}: {cost} {seconds}");
    }
    let bills = |names: &[String]| names.iter().any(|name| name == "phasemeter.gpu.cost");
    let resources = captured.resources.iter().filter(|(_, names)| bills(names));
    let mut instances: Vec<_> =
        resources.map(|(attributes, _)| attributes["service.instance.id"].clone()).collect();
    instances.sort_unstable();
    instances.dedup();
    assert_eq!(instances, ["a", "b"]);
}
