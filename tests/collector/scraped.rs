//! `/metrics` of Phasemeter beside what it sends: a Prometheus that scrapes it has the series of one that receives
//! OTLP.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::identity::check_joins;
use crate::labels::report_work;
use crate::prometheus::{Prometheus, Running, Sample};
use crate::run::{Run, Started};
use crate::script::{BOUND, FREE, HELD, Plan, Script};
use crate::server::free_ports;

const PLANS: [Plan; 2] = [
    Plan { edge: FREE, activities: &[(BOUND, 2)] },
    Plan { edge: HELD, activities: &[(BOUND, 3)] },
];

/// Deadline on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Longer than a scrape takes to be visible, so that between two exports both have the same values.
const EXPORT_MILLIS: &str = "8000";

/// Every series but those of Prometheus about itself and its scrapes.
const ALL: &str = r#"{__name__=~".+", __name__!~"up|scrape_.+|ALERTS.*"}"#;

type Labels = BTreeMap<String, String>;

/// All series, with the value of each.
fn series(prometheus: &Running) -> BTreeMap<Labels, String> {
    let one = |(mut labels, value): Sample| {
        // One has `1`, the other `1.0`.
        if let Some(bound) = labels.get_mut("le")
            && let Ok(number) = bound.parse::<f64>()
        {
            *bound = number.to_string();
        }
        (labels, value.to_string())
    };
    prometheus.query(ALL, None).into_iter().map(one).collect()
}

/// Whether a series is of Phasemeter itself. It counts exports and scrapes, so its values are never twice the same.
fn is_internal(labels: &Labels, of_process: &BTreeSet<String>) -> bool {
    labels["__name__"] != "target_info" && of_process.contains(&labels["instance"])
}

/// Waits until both have the same series, among them these, and the same values of all but those of Phasemeter itself.
fn wait_until_equal(
    received: &Running,
    scraped: &Running,
    expected: &[&str],
) -> BTreeMap<Labels, String> {
    let began = Instant::now();
    loop {
        let (received, scraped) = (series(received), series(scraped));
        // The resource of internal telemetry names the SDK.
        let of_process = received.keys().filter(|it| it.contains_key("telemetry_sdk_name"));
        let of_process: BTreeSet<_> = of_process.map(|it| it["instance"].clone()).collect();
        let differs = |(labels, value): &(&Labels, &String), other: &BTreeMap<Labels, String>| {
            let other = other.get(*labels);
            other.is_none() || (other != Some(*value) && !is_internal(labels, &of_process))
        };
        let only = |of: &BTreeMap<Labels, String>, other: &BTreeMap<Labels, String>| {
            let only = of.iter().filter(|it| differs(it, other));
            only.map(|(labels, value)| format!("{labels:?} {value}")).collect::<Vec<_>>()
        };
        let (sent, asked) = (only(&received, &scraped), only(&scraped, &received));
        let is_equal = sent.is_empty() && asked.is_empty();
        let names = names(&received);
        let missing: Vec<_> = expected.iter().filter(|it| !names.contains(**it)).collect();
        if is_equal && missing.is_empty() {
            return received;
        }
        let rest = [&sent[..sent.len().min(5)], &asked[..asked.len().min(5)]];
        assert!(
            began.elapsed() < TIMEOUT,
            "missing: {missing:?}; only sent, only scraped: {rest:#?}"
        );
        thread::sleep(Duration::from_millis(200));
    }
}

/// The page in the format that this header requests, without the status line.
fn page(address: SocketAddr, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.0\r\nhost: a\r\naccept: {accept}\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap();
    (kind.to_owned(), body.to_owned())
}

/// What promtool has to say about a page.
fn check(prometheus: &Prometheus, page: &str) {
    let Some(promtool) = prometheus.promtool() else { return };
    let mut promtool = Command::new(promtool)
        .args(["check", "metrics", "--lint=none", "--extended"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs until both Prometheus have the same.
fn run_until_equal(
    prometheus: &Prometheus,
    run: Run,
    address: SocketAddr,
    expected: &[&str],
    meanwhile: impl FnOnce(),
) -> (BTreeMap<Labels, String>, Running, Started) {
    let receives = prometheus.start_shipped("otlp.yaml", None);
    let scrapes = prometheus.start_shipped("scrape.yaml", Some(address));
    let run = run.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &receives.otlp());
    let run = run.env("OTEL_METRIC_EXPORT_INTERVAL", EXPORT_MILLIS).start();
    meanwhile();
    let series = wait_until_equal(&receives, &scrapes, expected);
    check_joins(&scrapes, None);
    let (kind, text) = page(address, "text/plain");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    check(prometheus, &text);
    let (kind, text) = page(address, "application/openmetrics-text; version=1.0.0");
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(text.ends_with("# EOF\n"), "{text}");
    (series, scrapes, run)
}

fn names(series: &BTreeMap<Labels, String>) -> BTreeSet<&str> {
    series.keys().map(|labels| labels["__name__"].as_str()).collect()
}

/// Every metric of a run, with attributes of its resource that become labels.
#[test]
fn run_exposes_the_series_that_it_sends() {
    let Some(prometheus) = Prometheus::find() else { return };
    let [address] = free_ports();
    let dir = tempfile::tempdir().unwrap();
    let (socket, end) = (dir.path().join("work.sock"), dir.path().join("end"));
    let options =
        [format!("--health-listen={address}"), format!("--work-socket={}", socket.display())];
    let wait = format!("while [ ! -e '{}' ]; do sleep 0.1; done", end.display());
    let script = Script::begin(&PLANS);
    let run = Run::of(&script, &options.each_ref().map(String::as_str), &["sh", "-c", &wait]);
    let given = [
        "team=vision,host.name=\u{6771}\u{4eac}%22,deployment.environment.name=test,cloud.region=r",
        "k8s.cluster.name=c,k8s.namespace.name=ml,k8s.pod.name=p,k8s.node.name=n,k8s.job.name=j,phasemeter.experiment.id=e",
    ];
    let given = given.join(",");
    let run = run.env("OTEL_RESOURCE_ATTRIBUTES", &given).env("PHASEMETER_METRICS", "all");
    let expected = [
        "hw_gpu_utilization_ratio",
        "hw_energy_joules_total",
        "phasemeter_gpu_cost_total",
        "phasemeter_gpu_time_seconds_total",
        "phasemeter_gpu_price_per_hour",
        "phasemeter_gpu_utilization_bucket",
        "phasemeter_sampler_lateness_seconds_bucket",
        "phasemeter_work_done_total",
        "process_cpu_time_seconds_total",
        "target_info",
    ];
    let work = || report_work(&socket);
    let (_, scrapes, run) = run_until_equal(&prometheus, run, address, &expected, work);
    scrapes.assert_has_series_of_unit_tests(false, None);
    fs::write(end, "").unwrap();
    run.end();
}

/// Every metric of an agent, by holder.
#[test]
fn agent_exposes_the_series_that_it_sends() {
    let Some(prometheus) = Prometheus::find() else { return };
    let [address] = free_ports();
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("jobs");
    fs::create_dir(&jobs).unwrap();
    fs::write(jobs.join("0"), "100\n").unwrap();
    fs::write(jobs.join("1"), "200\n201\n").unwrap();
    let options = [
        format!("--health-listen={address}"),
        format!("--job-mapping={}", jobs.display()),
        format!("--socket={}", dir.path().join("agent.sock").display()),
    ];
    let script = Script::begin(&PLANS);
    let run = Run::agent(&script.text(), &options.each_ref().map(String::as_str));
    let expected = ["hw_gpu_utilization_ratio", "phasemeter_gpu_cost_total", "target_info"];
    let (series, _scrapes, run) = run_until_equal(&prometheus, run, address, &expected, || {});
    let jobs = series.keys().filter_map(|labels| labels.get("phasemeter_allocation_job"));
    let jobs: BTreeSet<_> = jobs.map(String::as_str).collect();
    assert_eq!(jobs, BTreeSet::from(["100", "200", "201"]));
    run.stop();
}

/// Scenario: no endpoint is set.
/// Guarantee: the page has what GPUs cost.
#[test]
fn run_without_an_endpoint_exposes_its_metrics() {
    let [address] = free_ports();
    let script = Script::begin(&PLANS);
    let option = format!("--health-listen={address}");
    let run = Run::agent(&script.text(), &[&option, "--socket=agent.sock"]);
    let run = run.env("OTEL_METRIC_EXPORT_INTERVAL", "1000").start();
    let began = Instant::now();
    let has_cost = || {
        TcpStream::connect(address).is_ok() && {
            let (_, page) = page(address, "");
            page.contains("\nphasemeter_gpu_cost_total{") && page.contains("\nprocess_cpu_time")
        }
    };
    while !has_cost() {
        assert!(began.elapsed() < TIMEOUT, "no cost on the page");
        thread::sleep(Duration::from_millis(100));
    }
    run.stop();
}
