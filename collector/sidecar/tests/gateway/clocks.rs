//! Values of other times: ahead of the clock, older than the maximum age, of a sender whose clock is ahead.

use super::*;

/// Scenario: the second reading of a GPU has a time years ahead.
/// Guarantee: it is logged once by metric and counted in the report; the bill is that of the others.
#[test]
fn point_far_ahead_of_the_clock_is_dropped() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &[]);
    let client = client(&gateway.endpoint());
    for i in 0..12 {
        let ahead = if i == 1 { 20 * 365 * 86_400 } else { 0 };
        client.enqueue(page(GPU, START + i * 15 + ahead, 50.0));
    }
    assert!(client.flush(SOON).all_sent());
    let (_, report, log) = gateway.stop_with_log();
    assert_eq!(log.matches("ahead of this machine's clock; all that are more").count(), 1, "{log}");
    assert!(
        report["sampling"].to_string().contains("over 5 min ahead of this machine"),
        "{report:#}"
    );
    let cost = nonzero(sums(&metered(&backend), "phasemeter.gpu.cost"));
    assert_eq!(cost, of([("underutilized", 11 * 15 * NANO_USD)]));
}

/// Scenario: of two GPUs with readings of the last day, one also has one of a year ago; a stranger reports the cost of
/// the other up to two days ago. A gateway with `--max-age 172800` takes readings of up to two days.
/// Guarantee: what is older costs nothing, and is logged once and counted by its sender; backlogs are billed.
#[test]
fn values_older_than_the_maximum_age_are_dropped() {
    const OTHER: &str = "GPU-0b1c2d3e-7a6b-4e5b-9d3e-1f2a3b4c5d6e";
    let now = spans::base();
    let hour = 3_600;
    for (options, age, billed) in [
        (&["--max-age", "86400"][..], 23 * hour, 2),
        (&["--max-age", "86400"], 25 * hour, 0),
        (&["--max-age", "172800"], 47 * hour, 2),
    ] {
        let backend = MockBackend::start([]);
        let options = [options, &["--health-listen", "127.0.0.1:0"]].concat();
        let gateway = Gateway::start(&backend, &options);
        let client = client(&gateway.endpoint());
        client.enqueue(page_of_host(GPU, "node-1", now - 365 * 24 * hour, 50.0));
        client.enqueue(cost_of_agent(OTHER, now - 80 * hour, now - 49 * hour, "a stranger"));
        for i in 0..8 {
            client.enqueue(page_of_host(GPU, "node-1", now - age + i * 15, 50.0));
            client.enqueue(page_of_host(OTHER, "node-2", now - age + i * 15, 50.0));
        }
        assert!(client.flush(SOON).all_sent());
        let of_node_1 = if billed == 0 { 36 } else { 4 };
        health::until(gateway.probes(), "/metrics", |_, page| {
            let parts = ["gateway_values_dropped_total{", "\"node-1\"", "\"old\""];
            let mut lines =
                page.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
            lines.any(|line| line.ends_with(&format!(" {of_node_1}")))
        });
        let (_, report, log) = gateway.stop_with_log();
        let gpus = report["gpus"].as_array().unwrap();
        assert_eq!(gpus.len(), billed, "{report:#}");
        assert!(gpus.iter().all(|gpu| gpu["span_seconds"] == json!(105.0)), "{report:#}");
        let sampling = report["sampling"].to_string();
        assert!(sampling.contains(&format!("node-1 ({of_node_1} values)")), "{sampling}");
        assert!(sampling.contains("a stranger (1 value)"), "{sampling}");
        assert_eq!(log.matches("behind this machine's clock; all that are").count(), 1, "{log}");
    }
}

/// Scenario: the clock of one sender of a GPU is four minutes ahead, that of another one is right.
/// Guarantee: no reading is late, and the time of all is billed.
#[test]
fn sender_whose_clock_is_ahead_makes_no_reading_late() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--hold", "0.05", "--stale-after", "3600"]);
    let now = spans::base() + 60 + 40;
    spans::send(&gateway.endpoint(), [page_of_host(GPU, "node-1", now + 240, 50.0)]);
    for i in 0..8 {
        spans::send(&gateway.endpoint(), [page_of_host(GPU, "node-1", now - 7 + i, 50.0)]);
        std::thread::sleep(Duration::from_millis(200));
    }
    let (_, report) = gateway.stop();
    assert!(!report["sampling"].to_string().contains("dropped"), "{report:#}");
    assert_eq!(report["gpus"][0]["span_seconds"], json!(247.0), "{report:#}");
}
