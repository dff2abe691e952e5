//! Policy generations as resources of internal telemetry, in a process that reloads continuously.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, number_data_point};
use phasemeter::policies::{Cache, PolicyConfig, PolicyManager};
use phasemeter::telemetry::Telemetry;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::delivery::{Config, Destination};
use phasemeter_otlp::experiment::Attributes;
use phasemeter_rules::compile::CompilerProcess;
use phasemeter_rules::limits::Limits;

use crate::mock_backend::{MockBackend, Reply};
use crate::policies::{recommender, window};
use crate::telemetry::{LastExport, generation, received};

/// Loads the policies of a directory with the compiler of the binary.
fn policies(dir: &Path) -> Arc<PolicyManager> {
    let compiler = CompilerProcess::current_program(phasemeter::cli::COMPILE).unwrap();
    let config = PolicyConfig {
        default_policies: false,
        files: Vec::new(),
        directory: Some(dir.join("policies")),
        settings: Vec::new(),
        keys: Vec::new(),
        limits: Limits::default(),
        compiler: CompilerProcess { program: env!("CARGO_BIN_EXE_phasemeter").into(), ..compiler },
        interpreter: false,
        stub_imports: false,
        cache: Cache::Given(dir.join("cache")),
    };
    PolicyManager::open(&config).unwrap().unwrap()
}

fn telemetry(backend: &MockBackend, every: Nanos) -> Telemetry {
    let endpoint = format!("http://{}", backend.address);
    let config = Config::read(Destination::Endpoint(&endpoint), |_| None).unwrap().unwrap();
    Telemetry::start(&config, every, &Attributes::new()).unwrap().unwrap()
}

/// The sum of a metric over its points, and their start.
fn sum(of: &ResourceMetrics, name: &str) -> (i64, Option<u64>) {
    let last = LastExport(of);
    let Some(metric) = last.metric(name) else { return (0, None) };
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    let value = |value| match value {
        Some(number_data_point::Value::AsInt(value)) => value,
        other => panic!("{other:?}"),
    };
    let points = sum.data_points.iter();
    let start = points.clone().map(|point| point.start_time_unix_nano).min();
    (points.map(|point| value(point.value)).sum(), start)
}

/// Scenario: two policies are replaced a thousand times while two threads evaluate windows
/// continuously.
/// Guarantee: each generation is a resource whose sums begin at its start and are complete at its end:
/// no evaluation is lost or attributed to another generation. Ended generations are freed.
#[test]
fn telemetry_of_a_thousand_generations_is_complete() {
    const RELOADS: i64 = 1_000;
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("policies");
    fs::create_dir(&source).unwrap();
    let versions =
        ['1', '2'].map(|version| ["alfa", "bravo"].map(|name| (name, recommender(name, version))));
    let put = |reload: i64| {
        for (name, bytes) in &versions[usize::try_from(reload % 2).unwrap()] {
            fs::write(source.join(format!("{name}.wasm")), bytes).unwrap();
        }
    };
    put(0);
    let policies = policies(dir.path());
    let backend = MockBackend::start([]);
    let mut telemetry = telemetry(&backend, Nanos::from_secs(3_600));
    telemetry.watch_policies(&policies);
    let (over, judged, shown) = (AtomicBool::new(false), AtomicU64::new(0), window(1, 60));
    let mut kept: Vec<Weak<_>> = Vec::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let results = policies.evaluate(Some(&shown));
                    judged.fetch_add(results.each.len() as u64, Ordering::Relaxed);
                }
            });
        }
        for reload in 1..=RELOADS {
            put(reload);
            kept.push(Arc::downgrade(&policies.current().generation));
            assert_eq!(i64::try_from(policies.reload().number).unwrap(), reload + 1);
        }
        over.store(true, Ordering::Relaxed);
    });
    telemetry.finish(Duration::from_secs(600));

    assert_eq!(kept.iter().filter(|generation| generation.strong_count() > 0).count(), 0);
    let generations = received(&backend.received()).generations;
    let last: BTreeMap<i64, &ResourceMetrics> =
        generations.iter().map(|it| (generation(it).unwrap(), it)).collect();
    assert_eq!(last.keys().copied().collect::<Vec<_>>(), (1..=RELOADS + 1).collect::<Vec<_>>());
    let runs: i64 = last.values().map(|it| sum(it, "phasemeter.policy.evaluations").0).sum();
    assert_eq!(runs, i64::try_from(judged.into_inner()).unwrap());
    let starts = last.values().filter_map(|it| sum(it, "phasemeter.policy.status").1);
    let starts: Vec<_> = starts.collect();
    assert!(starts.is_sorted_by(|a, b| a < b), "each generation has its own start");
    for (number, resource) in last {
        let wanted = if number > RELOADS { 2 } else { 0 };
        assert_eq!(sum(resource, "phasemeter.policy.status").0, wanted, "{number}");
    }
}

/// Scenario: the backend never responds while policies are replaced.
/// Guarantee: neither reloads nor evaluations wait for it, and the end waits for the grace period only.
#[test]
fn unresponsive_backend_delays_neither_reload_nor_evaluation() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("policies");
    fs::create_dir(&source).unwrap();
    let put = |version| fs::write(source.join("alfa.wasm"), recommender("alfa", version)).unwrap();
    put('1');
    let policies = policies(dir.path());
    put('2');
    policies.reload();
    let backend = MockBackend::start(std::iter::repeat_n(Reply::NoResponse, 1_000));
    let mut telemetry = telemetry(&backend, Nanos::from_secs(1));
    telemetry.watch_policies(&policies);
    let began = Instant::now();
    for reload in 0..50 {
        put(if reload % 2 == 0 { '1' } else { '2' });
        policies.reload();
        assert_eq!(policies.evaluate(Some(&window(1, 60))).each.len(), 1);
    }
    telemetry.finish(Duration::from_secs(1));
    // Waiting for fifty responses would take ten seconds each.
    assert!(began.elapsed() < Duration::from_secs(250), "{:?}", began.elapsed());
}
