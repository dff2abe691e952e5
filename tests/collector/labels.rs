//! Both ways into Prometheus, as `otel-config` has them: a Collector that is scraped, and OTLP. They write the same
//! series, and `target_info` joins each.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::identity::check_joins;
use crate::otelcol::Otelcol;
use crate::prometheus::{Prometheus, ROOT, Running, Sample};
use crate::run::Run;
use crate::script::{BOUND, FREE, HELD, Plan, Script};

const PLANS: [Plan; 2] = [
    Plan { edge: FREE, activities: &[(BOUND, 1)] },
    Plan { edge: HELD, activities: &[(BOUND, 2)] },
];

const TIMEOUT: Duration = Duration::from_secs(60);

/// Every series of Phasemeter and its resources.
const ALL: &str = r#"{__name__=~"(phasemeter|hw)_.+|target_info"}"#;

/// All series, with the value of each.
fn series(prometheus: &Running) -> BTreeMap<BTreeMap<String, String>, String> {
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

/// Reports tokens to the run, once it listens.
pub(crate) fn report_work(socket: &Path) {
    let began = Instant::now();
    let mut stream = loop {
        if let Ok(stream) = UnixStream::connect(socket) {
            break stream;
        }
        assert!(began.elapsed() < TIMEOUT, "no work socket");
        thread::sleep(Duration::from_millis(20));
    };
    stream.write_all(b"work tokens 1000\n").unwrap();
}

#[test]
fn scraped_series_are_those_of_otlp() {
    let (Some(prometheus), Some(otelcol)) = (Prometheus::find(), Otelcol::find()) else { return };
    let receives = prometheus.start_shipped("otlp.yaml", None);
    let otlp = receives.otlp();
    let variables = [("OTELCOL_PROMETHEUS_OTLP", otlp.as_str())];
    let collector = otelcol.start_with(&["collector.yaml", "prometheus.yaml"], &variables);
    let scrapes = prometheus.start_shipped("scrape.yaml", Some(collector.prometheus));

    let shipped = fs::read_to_string(format!("{ROOT}/otel-config/prometheus/otlp.yaml")).unwrap();
    let promoted = shipped.lines().filter_map(|line| line.strip_prefix("    - "));
    let promoted: Vec<_> = promoted.filter(|it| *it != "service.name").collect();
    assert!(promoted.len() > 10, "{promoted:?}");
    let given: Vec<_> = promoted.iter().map(|it| format!("{it}=its-{it}")).collect();
    let script = Script::begin(&PLANS);
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("work.sock");
    let option = format!("--work-socket={}", socket.display());
    let seconds = script.seconds().to_string();
    let run = Run::of(&script, &[&option], &["sleep", &seconds]);
    let run = run.export_to(&format!("http://{}", collector.http), "http/protobuf");
    let run = run
        .env("OTEL_RESOURCE_ATTRIBUTES", &given.join(","))
        .env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
    let work = thread::spawn(move || report_work(&socket));
    run.report();
    work.join().unwrap();

    let began = Instant::now();
    let (received, scraped) = loop {
        let both = (series(&receives), series(&scrapes));
        if (both.0 == both.1 && both.0.len() > 100) || began.elapsed() > TIMEOUT {
            break both;
        }
        thread::sleep(Duration::from_millis(200));
    };
    let only = |of: &BTreeMap<_, _>, other: &BTreeMap<_, _>| {
        let only = of.iter().filter(|(labels, value)| other.get(*labels) != Some(*value));
        only.map(|(labels, value)| format!("{labels:?} {value}")).take(5).collect::<Vec<_>>()
    };
    assert_eq!((only(&received, &scraped), only(&scraped, &received)), (vec![], vec![]));
    let cost = received.keys().find(|it| it["__name__"] == "phasemeter_gpu_cost_total").unwrap();
    for attribute in promoted.into_iter().chain(["service.name"]) {
        let label = attribute.replace('.', "_");
        assert!(cost.contains_key(&label), "{label} is not in {cost:?}");
    }
    for prometheus in [receives, scrapes] {
        prometheus.assert_has_series_of_unit_tests(false, None);
        check_joins(&prometheus, None);
    }
}
