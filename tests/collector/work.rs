//! vLLM's page, scraped by a real Collector, through the gateway and back: tokens and dollars per token.
//!
//! ```text
//! page ─→ otelcol ─→ phasemeter gateway ─→ otelcol ─→ file: points and work ─→ equal
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::gateway::{TERM, exporter, serve, start_gateway};
use crate::otelcol::Otelcol;

/// Tokens per scrape.
const TOKENS: u64 = 137;

/// The page of vLLM 0.11 with this many tokens, as its Prometheus client writes it; without its
/// histograms.
fn page(tokens: u64) -> String {
    let labels = "engine=\"0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"";
    let mut page = String::new();
    for (name, help, kind, samples) in [
        (
            "python_info",
            "Python platform information",
            "gauge",
            vec![("", "implementation=\"CPython\",major=\"3\"".to_owned(), "1.0".to_owned())],
        ),
        (
            "vllm:num_requests_running",
            "Number of requests in model execution batches.",
            "gauge",
            vec![("", labels.to_owned(), "3.0".to_owned())],
        ),
        (
            "vllm:prompt_tokens_total",
            "Number of prefill tokens processed.",
            "counter",
            vec![("", labels.to_owned(), format!("{:?}", 1e5))],
        ),
        (
            "vllm:prompt_tokens_created",
            "Number of prefill tokens processed.",
            "gauge",
            vec![("", labels.to_owned(), "1.785110400123456e+09".to_owned())],
        ),
        (
            "vllm:generation_tokens_total",
            "Number of generation tokens processed.",
            "counter",
            vec![("", labels.to_owned(), format!("{tokens}.0"))],
        ),
        (
            "vllm:generation_tokens_created",
            "Number of generation tokens processed.",
            "gauge",
            vec![("", labels.to_owned(), "1.785110400123456e+09".to_owned())],
        ),
        (
            "vllm:request_success_total",
            "Count of successfully processed requests.",
            "counter",
            vec![
                ("", format!("{labels},finished_reason=\"stop\""), "12.0".to_owned()),
                ("", format!("{labels},finished_reason=\"length\""), "0.0".to_owned()),
            ],
        ),
    ] {
        page += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (suffix, labels, value) in samples {
            page += &format!("{name}{suffix}{{{labels}}} {value}\n");
        }
    }
    page
}

#[test]
fn tokens_of_scraped_page_divide_the_bill() {
    let Some(otelcol) = Otelcol::find() else { return };
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix://{}", directory.path().join("gateway.sock").display());
    let gpus = exporter().to_string();
    let scrapes = Arc::new(AtomicU64::new(0));
    let scraped = Arc::clone(&scrapes);
    let vllm = serve(move || {
        let before = scraped.fetch_add(1, Ordering::Relaxed);
        page(1_000_000 + before * TOKENS)
    });
    let vllm = vllm.to_string();
    let variables = [
        ("OTELCOL_DCGM_EXPORTER", gpus.as_str()),
        ("OTELCOL_VLLM", &vllm),
        ("OTELCOL_GATEWAY", &socket),
        ("OTELCOL_SCRAPE_INTERVAL", "1s"),
    ];
    let files = ["collector.yaml", "gateway.yaml", "inference.yaml"];
    let collector = otelcol.start_with(&files, &variables);
    let report = directory.path().join("report.json");
    let mut gateway = start_gateway(&collector, &socket, &["--report", report.to_str().unwrap()]);
    thread::sleep(Duration::from_secs(12));
    phasemeter_process::send(gateway.id(), TERM).unwrap();
    assert!(gateway.wait().unwrap().success());
    let captured = collector.captured();

    let streams = captured.streams("vllm:generation_tokens_total");
    let [(_, stream)] = &streams.into_iter().collect::<Vec<_>>()[..] else { panic!() };
    let values: Vec<f64> = stream.points.iter().map(|point| point.value).collect();
    let tokens = values.last().unwrap() - values.first().unwrap();
    assert!(tokens >= 3.0 * TOKENS as f64, "{values:?}");
    let report: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
    let work = &report["work"];
    assert_eq!(work["tokens"]["count"], tokens as u64, "{values:?}");
    assert!(work.get("requests").is_none(), "no request was finished meanwhile: {work}");
    let bill: f64 = report["cost"]["total_usd"].as_str().unwrap().parse().unwrap();
    let each: f64 = work["tokens"]["cost_each_usd"].as_str().unwrap().parse().unwrap();
    assert!((each * tokens - bill).abs() < 1e-12 && bill > 0.0, "{work}");
}
