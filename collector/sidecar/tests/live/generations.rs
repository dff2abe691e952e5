//! Policy generations in internal telemetry, in a process that reloads continuously.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use phasemeter_engine::policies::{PolicyConfig, PolicyManager};
use phasemeter_engine::telemetry::Telemetry;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::delivery::{Config, Destination};
use phasemeter_otlp::experiment::Attributes;
use phasemeter_rules::compile::CompilerProcess;
use phasemeter_rules::limits::Limits;

use crate::mock_backend::{MockBackend, Reply};
use crate::policies::{recommender, window};
use crate::telemetry::{LastExport, count, generation, received};

/// Loads the policies of a directory with the compiler of the binary.
fn policies(dir: &Path) -> Arc<PolicyManager> {
    let compiler = CompilerProcess::current_program(phasemeter_cli::COMPILE).unwrap();
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
        cache: Some(dir.join("cache")),
        start_limit: None,
    };
    PolicyManager::open(&config).unwrap().unwrap()
}

fn telemetry(backend: &MockBackend, every: Nanos) -> Telemetry {
    let endpoint = format!("http://{}", backend.address);
    let config = Config::read(Destination::Endpoint(&endpoint), |_| None).unwrap().unwrap();
    let own = Attributes::from([("service.name".to_owned(), "phasemeter".to_owned())]);
    Telemetry::start(Some(&config), every, &own, None).unwrap().unwrap()
}

/// Sums of an integer metric over its points, by generation.
fn sums(export: &ResourceMetrics, name: &str) -> BTreeMap<i64, i64> {
    let mut sums = BTreeMap::new();
    let export = LastExport(export);
    for point in export.metric(name).map(|_| export.sum(name)).unwrap_or_default() {
        *sums.entry(generation(point)).or_default() += count(point);
    }
    sums
}

/// Scenario: two policies are replaced hundreds of times while two threads evaluate windows
/// continuously.
/// Guarantee: the series of each generation are complete at its end: no evaluation is lost or attributed
/// to another generation. Ended generations are freed, and exported once more.
#[test]
fn telemetry_of_many_generations_is_complete() {
    // Even if all are exported together, the SDK's limit of 2,000 series is not reached.
    const RELOADS: i64 = 500;
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
    let telemetry = telemetry(&backend, Nanos::SECOND);
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
    let exports = received(&backend.received()).own;
    let mut evaluations = BTreeMap::new();
    let mut status = BTreeMap::<i64, Vec<i64>>::new();
    for export in &exports {
        evaluations.extend(sums(export, "phasemeter.policy.evaluations"));
        for (generation, sum) in sums(export, "phasemeter.policy.status") {
            status.entry(generation).or_default().push(sum);
        }
    }
    assert_eq!(evaluations.values().sum::<i64>(), i64::try_from(judged.into_inner()).unwrap());
    assert_eq!(status.keys().copied().collect::<Vec<_>>(), (1..=RELOADS + 1).collect::<Vec<_>>());
    for (generation, exported) in status {
        let (last, earlier) = exported.split_last().unwrap();
        assert_eq!(*last, if generation > RELOADS { 2 } else { 0 }, "{generation}: {exported:?}");
        assert!(earlier.iter().all(|sum| *sum == 2), "{generation}: {exported:?}");
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
    let telemetry = telemetry(&backend, Nanos::from_secs(1));
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
