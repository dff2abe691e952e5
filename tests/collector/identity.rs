//! Resources through a real Prometheus: it identifies them by service and instance, and keeps their
//! other attributes in `target_info`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::fleet::{self, log};
use crate::otelcol::Otelcol;
use crate::prometheus::{Prometheus, Running};
use crate::run::Run;
use crate::script::{BOUND, FREE, HELD, Plan, Script};

const PLANS: [Plan; 2] = [
    Plan { edge: FREE, activities: &[(BOUND, 1)] },
    Plan { edge: HELD, activities: &[(BOUND, 1)] },
];

/// Two of the default policies.
const POLICIES: [&str; 2] = ["memory.wasm", "sizing.wasm"];

/// Deadline of an export on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Every series of GPUs, workload and sidecar.
const ALL: &str = r#"{__name__=~"(phasemeter|hw)_.+"}"#;

/// Every series has exactly one `target_info`. Returns the names of all series.
pub(crate) fn check_joins(prometheus: &Running, time: Option<u64>) -> BTreeSet<String> {
    let names = prometheus.query(&format!("count by (__name__) ({ALL})"), time);
    let names: BTreeSet<_> =
        names.into_iter().map(|(labels, _)| labels["__name__"].clone()).collect();
    for name in &names {
        let series = prometheus.number(&format!("count({name})"), time);
        let join = format!("count({name} * on (job, instance) group_left () target_info)");
        assert_eq!(prometheus.number(&join, time), series, "{name}");
    }
    names
}

fn install(policy: &str, dir: &Path) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wasm-rules/dist");
    // Complete in the directory at once.
    let partial = dir.join("partial");
    fs::copy(Path::new(source).join(policy), &partial).unwrap();
    fs::rename(partial, dir.join(policy)).unwrap();
}

/// Waits until a query returns at least one sample.
fn wait_for(prometheus: &Running, query: &str) {
    let began = Instant::now();
    while prometheus.query(query, None).is_empty() {
        assert!(began.elapsed() < TIMEOUT, "no result: {query}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Scenario: a run, during which a policy is added, is restarted.
/// Guarantee: `target_info` joins every series; the generations of policies are series of their own; the
/// series of the second run continue those of the first.
#[test]
fn live_series_join_their_resource_and_survive_restart() {
    let Some(prometheus) = Prometheus::find() else { return };
    let prometheus = prometheus.start();
    let dir = tempfile::tempdir().unwrap();
    let (policies, end) = (dir.path().join("policies"), dir.path().join("end"));
    fs::create_dir(&policies).unwrap();
    install(POLICIES[0], &policies);
    let options = ["--window-interval=0.5", "--no-default-policies", "--policies"];
    let options = [&options[..], &[policies.to_str().unwrap()]].concat();
    let wait = format!("while [ ! -e '{}' ]; do sleep 0.1; done", end.display());
    let script = Script::begin(&PLANS);
    let run = |command: &[&str]| {
        let run = Run::of(&script, &options, command);
        let run = run.env("RUNTIME_DIRECTORY", dir.path().to_str().unwrap());
        let run = run.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &prometheus.otlp());
        let report = run.env("OTEL_METRIC_EXPORT_INTERVAL", "1000").report();
        let delivered = report.note("points sent");
        assert!(delivered.ends_with("points sent"), "{delivered}");
    };

    thread::scope(|scope| {
        let first = scope.spawn(|| run(&["sh", "-c", &wait]));
        let evaluated = |number: u32| {
            let labels = format!(r#"phasemeter_policy_set_generation="{number}""#);
            wait_for(&prometheus, &format!("phasemeter_policy_evaluations_total{{{labels}}} > 0"));
        };
        evaluated(1);
        install(POLICIES[1], &policies);
        evaluated(2);
        fs::write(&end, "").unwrap();
        first.join().unwrap();
    });
    let names = check_joins(&prometheus, None);
    for name in [
        "hw_gpu_utilization_ratio",
        "hw_energy_joules_total",
        "phasemeter_gpu_cost_total",
        "phasemeter_gpu_utilization_bucket",
        "phasemeter_policy_status",
        "phasemeter_sampler_lateness_seconds_bucket",
    ] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
    // The first generation has ended, and the second is in use.
    let status = |number: u32| {
        let status =
            format!(r#"phasemeter_policy_status{{phasemeter_policy_set_generation="{number}"}}"#);
        prometheus.number(&format!("sum({status})"), None)
    };
    assert_eq!((status(1), status(2)), (0.0, 2.0));

    run(&["sleep", "2"]);
    check_joins(&prometheus, None);
    // Phasemeter has two: that of `hw.*` and that of internal telemetry.
    for (job, expected) in [("phasemeter", 2.0), ("trainer", 1.0)] {
        let instances = format!(r#"count(count by (instance) ({{job="{job}"}}))"#);
        assert_eq!(prometheus.number(&instances, None), expected, "{job}");
    }
}

/// Scenario: three jobs of different names run on a machine, one after the other.
/// Guarantee: they make no new series of hardware.
#[test]
fn jobs_continue_the_series_of_hardware() {
    let Some(prometheus) = Prometheus::find() else { return };
    let prometheus = prometheus.start();
    let dir = tempfile::tempdir().unwrap();
    let script = Script::begin(&PLANS);
    let counts = ["a", "b", "c"].map(|job| {
        let run =
            Run::of(&script, &["--no-default-policies", "--experiment", job], &["sleep", "3"]);
        let run = run.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &prometheus.otlp());
        let run = run.env("RUNTIME_DIRECTORY", dir.path().to_str().unwrap());
        let run = run.env("PHASEMETER_METRICS", "default").env("OTEL_SERVICE_NAME", job);
        run.env("OTEL_METRIC_EXPORT_INTERVAL", "1000").report();
        let series = |selector: &str| {
            prometheus.number(&format!("count(last_over_time({{{selector}}}[1h]))"), None)
        };
        let cost = series(r#"__name__="phasemeter_gpu_cost_total""#);
        (series(r#"__name__=~"hw_.+|phasemeter_gpu_throttle.+""#), cost)
    });
    let [(first, cost), (_, second), (last, _)] = counts;
    assert_eq!(first, last, "{counts:?}");
    assert!(second > cost, "the cost of each job is its own: {counts:?}");
}

#[test]
fn audited_series_join_their_resource() {
    let (Some(prometheus), Some(otelcol)) = (Prometheus::find(), Otelcol::find()) else { return };
    let (prometheus, otelcol) = (prometheus.start(), otelcol.start());
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("log.csv"), log(0..2, 10)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().current_dir(dir.path()).stdin(Stdio::null());
    command.args(["audit", "log.csv", "--price=2", "--otlp"]);
    // Prometheus receives metrics only.
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", otelcol.http));
    command.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", prometheus.otlp());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = check_joins(&prometheus, Some(fleet::end(10)));
    for name in ["hw_gpu_utilization_ratio", "phasemeter_gpu_cost_total"] {
        assert!(names.contains(name), "{name} is not in {names:?}");
    }
}
