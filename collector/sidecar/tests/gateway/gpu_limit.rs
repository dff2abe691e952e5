//! More GPUs than are metered at most, and as many as are by default.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::dcgm::{START, page_of_host};
use crate::health::{until, value};
use crate::mock_backend::MockBackend;
use crate::process::{Gateway, audit, client};
use crate::{SOON, body};

fn uuid(gpu: u64) -> String {
    format!("GPU-{gpu:08}-7a6b-4e5b-9d3e-1f2a3b4c5d6e")
}

/// Scenario: five GPUs, of which three are metered at most; one that is over the limit sends more often.
/// Guarantee: the first three are billed. The others are named in the log and counted, neither billed nor late, and
/// what they send passes.
#[test]
fn gpus_over_the_limit_pass_and_are_counted_and_named() {
    let backend = MockBackend::start([]);
    let options = ["--max-gpus", "3", "--health-listen", "127.0.0.1:0", "--stale-after", "45"];
    let gateway = Gateway::start(&backend, &options);
    let client = client(&gateway.endpoint());
    for i in 0..5 {
        for gpu in [4, 1, 0, 3, 2, 3] {
            client.enqueue(page_of_host(&uuid(gpu), &format!("node-{gpu}"), START + i * 15, 50.0));
        }
    }
    assert!(client.flush(SOON).all_sent());
    // Each page has four values.
    let is_counted = |_, page: &str| {
        let of = |name, label| value(page, name, label);
        of("phasemeter_gateway_values_dropped_total", "over_limit") == Some(60.0)
    };
    let page = until(gateway.probes(), "/metrics", is_counted);
    assert_eq!(value(&page, "phasemeter_gateway_gpus", "over_limit"), Some(2.0), "{page}");
    assert_eq!(value(&page, "phasemeter_gateway_values_dropped_total", "\"late\""), Some(0.0));
    let (status, report, log) = gateway.stop_with_log();
    assert!(status.success(), "{log}");

    let gpus = report["gpus"].as_array().unwrap();
    let billed: BTreeSet<_> = gpus.iter().map(|gpu| gpu["uuid"].as_str().unwrap()).collect();
    let first: Vec<_> = [0, 1, 4].map(uuid).into();
    assert_eq!(billed, first.iter().map(String::as_str).collect());
    let notes = report["sampling"].as_array().unwrap();
    let note = "2 GPUs are not metered, over the limit of 3, and their 60 values dropped; raise --max-gpus";
    assert!(notes.iter().any(|it| it == note), "{notes:#?}");
    assert!(!notes.iter().any(|it| it.as_str().unwrap().contains("too late")), "{notes:#?}");
    for gpu in [2, 3] {
        let line =
            format!("GPU {} is not metered: 3 others are, the limit; raise --max-gpus", uuid(gpu));
        assert_eq!(log.matches(&line).count(), 1, "{log}");
    }
    let passed: Vec<u8> = backend.received().iter().flat_map(body).copied().collect();
    let of_third = passed.windows(uuid(3).len()).filter(|bytes| *bytes == uuid(3).as_bytes());
    assert_eq!(of_third.count(), 10 * 4);
}

/// Scenario: a stranger names 400 GPUs of one host, then a host with two GPUs sends; 200 are metered at most.
/// Guarantee: the two are metered, and the stranger is named with what it has too many.
#[test]
fn stranger_with_many_gpus_keeps_no_others_out() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--max-gpus", "200"]);
    let client = client(&gateway.endpoint());
    (0..400).for_each(|gpu| client.enqueue(page_of_host(&uuid(gpu), "stranger", START, 50.0)));
    for i in 0..2 {
        for gpu in [1_000, 1_001] {
            client.enqueue(page_of_host(&uuid(gpu), "node-1", START + i * 15, 50.0));
        }
    }
    assert!(client.flush(SOON).all_sent());
    let (_, report, log) = gateway.stop_with_log();
    let gpus = report["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 152);
    for gpu in [1_000, 1_001] {
        assert!(gpus.iter().any(|it| it["uuid"] == uuid(gpu)), "{log}");
    }
    let notes = report["sampling"].to_string();
    let note = "250 GPUs are not metered, since 152 are and the last places are for senders with fewer than 128";
    assert!(notes.contains(note), "{notes}");
    assert!(notes.contains("GPUs that are not metered are of stranger (250 GPUs)"), "{notes}");
    assert!(log.contains("the last places are for senders with fewer than 128"), "{log}");
}

/// Scenario: a file with one GPU more than an audit reads.
/// Guarantee: its rows are rejected for that reason, and not as late.
#[test]
fn audit_names_the_limit_of_gpus() {
    let mut page = "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n".to_owned();
    for second in [0, 15, 30] {
        for gpu in 0..=10_000 {
            let millis = (START + second) * 1_000;
            writeln!(page, "DCGM_FI_DEV_GPU_UTIL{{UUID=\"{}\"}} 50 {millis}", uuid(gpu)).unwrap();
        }
    }
    let report = audit("metrics.prom", &page);
    assert_eq!(report["gpus"].as_array().unwrap().len(), 10_000);
    let rejected = report["rejected_rows"].as_array().unwrap();
    let reason = "a GPU over the limit of 10000; audit the files of fewer GPUs at a time";
    assert!(
        rejected.len() == 3 && rejected.iter().all(|row| row["reason"] == reason),
        "{rejected:#?}"
    );
}
