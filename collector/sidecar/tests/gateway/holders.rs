//! Pages of exporters that name holders of GPUs: `tests/fixtures/pages/NAME.prom`, and what each holder has by
//! `NAME.json`, worked out by hand from the rules of holders.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use phasemeter_otlp::EncodedRequest;
use serde_json::Value;

use crate::SOON;
use crate::dcgm::{Sample, gauges};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, audit, client};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/pages");

/// Scenario: pages in the real form of dcgm-exporter (time-slicing with and without virtual GPUs, MIG, claims, jobs)
/// and of HAMi, recorded, and received by a gateway.
/// Guarantee: each holder has what is worked out, in both alike; all sums are the bill of the GPU.
#[test]
fn pages_give_each_holder_its_accounts_in_audit_and_gateway() {
    let entries = fs::read_dir(DIR).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|it| it == "prom")).collect();
    assert!(pages.len() >= 6, "{pages:?}");
    for path in pages {
        let name = path.file_name().unwrap().to_str().unwrap();
        let page = fs::read_to_string(&path).unwrap();
        let expected = fs::read_to_string(path.with_extension("json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let audited = audit(name, &page);
        check(&audited, &expected, name);
        let received = received(&page);
        check(&received, &expected, name);
        for key in ["holders", "nobody", "phases", "cost_usd", "utilization"] {
            let [of_audit, of_gateway] = [&audited, &received].map(|report| {
                let gpus = report["gpus"].as_array().unwrap().iter();
                gpus.map(|gpu| gpu[key].clone()).collect::<Vec<_>>()
            });
            assert_eq!(of_audit, of_gateway, "{name}: {key}");
        }
    }
}

/// The report of a gateway that receives this page.
fn received(page: &str) -> Value {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    requests(page).into_iter().for_each(|request| client.enqueue(request));
    assert!(client.flush(SOON).all_sent());
    gateway.stop().1
}

/// A request per scrape, as the Prometheus receiver of a Collector makes it.
fn requests(page: &str) -> Vec<EncodedRequest> {
    let mut scrapes: BTreeMap<u64, Vec<Sample<'_>>> = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (metric, rest) = line.split_once('{').unwrap();
        let (labels, rest) = rest.rsplit_once("} ").unwrap();
        let (number, millis) = rest.split_once(' ').unwrap();
        let labels = labels.split(',').map(|pair| {
            let (key, value) = pair.split_once('=').unwrap();
            (key, value.trim_matches('"'))
        });
        let at = millis.parse::<u64>().unwrap() / 1_000;
        let sample = (metric, labels.collect(), number.parse().unwrap());
        scrapes.entry(at).or_default().push(sample);
    }
    scrapes.into_iter().map(|(at, samples)| gauges(&samples, at)).collect()
}

/// Checks the holders of a report, and that they and what is nobody's are the bill.
fn check(report: &Value, expected: &Value, name: &str) {
    let (gpus, expected) = (report["gpus"].as_array().unwrap(), expected.as_array().unwrap());
    assert_eq!(gpus.len(), expected.len(), "{name}");
    for (gpu, expected) in gpus.iter().zip(expected) {
        let (holders, wanted) = (&gpu["holders"], expected["holders"].as_array().unwrap());
        let holders = holders.as_array().unwrap();
        assert_eq!(holders.len(), wanted.len(), "{name}: {holders:#?}");
        let (mut cost, mut seconds) = (nanos(&gpu["nobody"]["cost_usd"]), 0.0);
        for (holder, wanted) in holders.iter().zip(wanted) {
            assert_eq!((&holder["name"], &holder["uid"]), (&wanted["name"], &wanted["uid"]));
            for key in ["used_seconds", "granted_unused_seconds", "never_touched_seconds"] {
                let [found, wanted] = [holder, wanted].map(|it| it[key].as_f64().unwrap());
                let about = (found - wanted).abs() < 0.000_1;
                assert!(about, "{name}: {key} {found} for {wanted}: {holder:#}");
                seconds += found;
            }
            let [found, wanted] = [holder, wanted].map(|it| nanos(&it["cost_usd"]));
            assert!((found - wanted).abs() <= 100, "{name}: {found} for {wanted}: {holder:#}");
            cost += found;
        }
        let nobody = gpu["nobody"]["seconds"].as_f64().unwrap();
        let wanted = expected["nobody_seconds"].as_f64().unwrap();
        assert!((nobody - wanted).abs() < 0.000_1, "{name}: {nobody} for {wanted} of nobody");
        assert_eq!(cost, nanos(&gpu["cost_usd"]), "{name}");
        assert!((seconds + nobody - 150.0).abs() < 0.000_1, "{name}: {seconds} and {nobody}");
    }
}

/// Nano-dollars.
fn nanos(usd: &Value) -> i64 {
    let text = usd.as_str().unwrap_or_else(|| panic!("{usd}"));
    let (dollars, fraction) = text.split_once('.').unwrap();
    dollars.parse::<i64>().unwrap() * 1_000_000_000 + fraction.parse::<i64>().unwrap()
}
