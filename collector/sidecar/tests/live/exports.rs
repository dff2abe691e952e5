//! Exports of a run to a file and to a backend.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread::{self, JoinHandle};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use prost::Message;
use serde_json::Value;

use crate::run::{
    PARENT, assert_one_session_per_hour, assumptions, elements, phasemeter, run_with_report, stderr,
};
use crate::{Rig, otlp, unless_stalled};

/// The streams of a metric: attribute values as one string, and the highest value. A test may cross a
/// minute, so that there are two exports.
pub(crate) fn points(file: &Path, name: &str) -> BTreeMap<String, f64> {
    let metrics = elements(file, ["resourceMetrics", "scopeMetrics", "metrics"]);
    let own = metrics.iter().filter(|metric| metric["name"] == name);
    let data = own.map(|metric| metric.get("sum").unwrap_or(&metric["gauge"]));
    let points = data.flat_map(|data| data["dataPoints"].as_array().unwrap());
    let value = |point: &Value| {
        let whole = point["asInt"].as_str().map(|whole| whole.parse().unwrap());
        whole.or(point["asDouble"].as_f64()).unwrap()
    };
    let is_specific = |attribute: &&Value| {
        let key = attribute["key"].as_str().unwrap();
        let gpu = ["id", "name", "type", "model", "vendor", "serial_number"];
        let gpu = [&gpu[..], &["driver_version", "firmware_version"]].concat();
        !key.strip_prefix("hw.").is_some_and(|key| gpu.contains(&key))
    };
    let text = |attribute: &Value| {
        let value = &attribute["value"];
        value["stringValue"].as_str().or(value["intValue"].as_str()).unwrap().to_owned()
    };
    let labels = |point: &Value| {
        let attributes = point["attributes"].as_array().unwrap();
        attributes.iter().filter(is_specific).map(text).collect::<Vec<_>>().join(" ")
    };
    points.fold(BTreeMap::new(), |mut streams, point| {
        let highest = streams.entry(labels(point)).or_insert(f64::MIN);
        *highest = highest.max(value(point));
        streams
    })
}

#[test]
fn device_metrics_and_events_are_exported() {
    unless_stalled(|| {
        let rig = Rig::new(
            "length_ms = 60000
        [[device]]
        [[device.phase]]
        for_ms = 2000
        sm = 80
        tensor = 40
        dram = 20
        encoder = 30
        sm_clock_mhz = 1755
        throttle = [\"hw_thermal\"]
        pcie_rx_mib_s = 100
        [[device.phase]]
        sm_clock_mhz = 345
        ecc_uncorrected = 2
        row_remap_pending = true
        [[fault]]
        at_ms = 1600
        xid = 79
        [[fault]]
        at_ms = 2400
        for_ms = 3200
        functions = [\"nvmlDeviceGetPowerUsage\"]
        hang = true",
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("otlp.json");
        // A call hangs if it takes over a second. On a busy machine, the call is made later in the fault.
        run_with_report(&rig, &format!("--duration 7 --otlp-file {}", file.display()), |_| {});

        // At most two of seven seconds, or of the rest of a minute.
        for (name, busy) in [("sm", 0.8), ("tensor", 0.4), ("dram", 0.2)] {
            let points = points(&file, &format!("phasemeter.gpu.{name}.activity"));
            let mean = points[""];
            assert!((0.05 * busy..=busy).contains(&mean), "{name}: {mean}");
        }
        let throttled = points(&file, "phasemeter.gpu.throttle.time");
        assert!((0.1..=2.0).contains(&throttled["hw_thermal"]), "{throttled:?}");
        assert_eq!((throttled.len(), throttled["sw_power_cap"]), (5, 0.0));
        assert_eq!(
            points(&file, "phasemeter.gpu.xid.errors"),
            BTreeMap::from([("79".to_owned(), 1.0)])
        );
        let io = points(&file, "hw.gpu.io");
        assert!((10e6..=210e6).contains(&io["receive"]) && io["transmit"] == 0.0, "{io:?}");
        let errors = points(&file, "hw.errors");
        assert_eq!((errors["corrected"], errors["uncorrected"]), (0.0, 2.0));
        let status = points(&file, "hw.status");
        let held = ["degraded", "failed", "predicted_failure"].map(|state| status[state]);
        assert_eq!((status.len(), held), (4, [1.0, 1.0, 1.0]), "{status:?}");
        let busy = points(&file, "hw.gpu.utilization");
        assert!(
            busy.contains_key("general") && busy["encoder"] > 0.0 && busy["decoder"] == 0.0,
            "{busy:?}"
        );
        let clocks = points(&file, "phasemeter.gpu.clock.frequency");
        assert!([345e6, 1_755e6].contains(&clocks["sm"]), "{clocks:?}");
        assert_eq!((clocks.len(), clocks["memory"]), (2, 2_619e6));

        let events = elements(&file, ["resourceLogs", "scopeLogs", "logRecords"]);
        let names = events.iter().map(|event| event["eventName"].as_str().unwrap());
        // A recommendation may follow from the error.
        let names: Vec<_> = names.filter(|name| name.starts_with("phasemeter.gpu.")).collect();
        assert_eq!(
            names,
            [
                "phasemeter.gpu.xid.reported",
                "phasemeter.gpu.call_hung",
                "phasemeter.gpu.call_recovered"
            ]
        );
    });
}

/// Scenario: one of two GPUs reports no temperature thresholds and no serial number.
/// Guarantee: fixed properties are exported as attributes and in the policy window; missing ones are
/// omitted, with one debug line each.
#[test]
fn gpu_properties_and_limits_are_exported() {
    let rig = Rig::new(
        "[[device]]
        power_limit_w = 312.5
        [[device]]
        [[fault]]
        device = 1
        functions = [\"nvmlDeviceGetTemperatureThreshold\", \"nvmlDeviceGetSerial\"]
        error = \"not_supported\"",
    );
    let dir = tempfile::tempdir().unwrap();
    let [file, window] = ["otlp.json", "window.json"].map(|name| dir.path().join(name));
    let arguments = format!(
        "--duration 1.5 --log-level debug --otlp-file {} --dump-windows {}",
        file.display(),
        window.display()
    );
    let output = phasemeter(&rig, &arguments).output().unwrap();
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    for property in ["slowdown temperature", "shutdown temperature", "serial number"] {
        let line = format!("000000000001: no {property}: ");
        assert_eq!(log.matches(&line).count(), 1, "{log}");
    }

    let limits = points(&file, "hw.temperature.limit");
    let one = |which: &str, degrees| (format!("gpu {which}"), degrees);
    let expected = BTreeMap::from([one("high.degraded", 89.0), one("high.critical", 92.0)]);
    assert_eq!(limits, expected);
    let metrics = elements(&file, ["resourceMetrics", "scopeMetrics", "metrics"]);
    let of_gpus = |metric: &&Value| metric["name"].as_str().unwrap().starts_with("hw.gpu.");
    for metric in metrics.iter().filter(of_gpus) {
        let data = metric.get("sum").unwrap_or(&metric["gauge"]);
        for point in data["dataPoints"].as_array().unwrap() {
            let attributes = point["attributes"].as_array().unwrap();
            let of = |key: &str| {
                let it = attributes.iter().find(|it| it["key"] == key)?;
                it["value"]["stringValue"].as_str()
            };
            assert_eq!(of("hw.driver_version"), Some("575.57.08"), "{metric}");
            assert_eq!(of("hw.firmware_version"), Some("96.00.74.00.01"), "{metric}");
            let first = of("hw.name") == Some("GPU 0");
            assert_eq!(of("hw.serial_number"), first.then_some("0000000000001"), "{metric}");
        }
    }
    // Attributes of the machine are detected, those of the workload are given.
    let text = fs::read_to_string(&file).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let all: Vec<_> =
        lines.filter_map(|line| line["resourceMetrics"].as_array().cloned()).collect();
    for resource in all.iter().flatten() {
        let is_detected = resource["resource"].to_string().contains("host.name");
        assert_eq!(resource["schemaUrl"] == phasemeter_otlp::encode::SCHEMA, is_detected);
    }
    let window: Value = serde_json::from_slice(&fs::read(window).unwrap()).unwrap();
    let limit = |gpu: usize| &window["window"]["gpus"][gpu]["power_limit_milliwatts"];
    assert_eq!([limit(0), limit(1)], [312_500, 700_000]);
}

/// Received requests: path and body.
type Requests = Vec<(String, Vec<u8>)>;

/// Starts a plain HTTP backend and returns its endpoint. It accepts requests until a connection is
/// closed without one.
fn backend() -> (String, JoinHandle<Requests>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        let mut bodies = Requests::new();
        loop {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            // One request per connection.
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                match line.trim() {
                    "" => break,
                    line => head.push(line.to_lowercase()),
                }
            }
            let Some(first) = head.first() else { return bodies };
            let path = first.split(' ').nth(1).unwrap().to_owned();
            let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            bodies.push((path, body));
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.get_mut().write_all(response).unwrap();
        }
    };
    (endpoint, thread::spawn(serve))
}

#[test]
fn received_data_sums_to_bill() {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50\n[[device]]");
    let (endpoint, serving) = backend();
    let (_, report) = run_with_report(&rig, "--duration 1.5", |command| {
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).env("TRACEPARENT", PARENT);
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
    });
    drop(TcpStream::connect(endpoint.trim_start_matches("http://")).unwrap());
    let bodies = serving.join().unwrap();

    let mut costs = BTreeMap::new();
    let (mut spans, mut sessions, mut phases) = (0, BTreeMap::<_, Vec<_>>::new(), BTreeMap::new());
    for (path, body) in &bodies {
        match path.as_str() {
            "/v1/metrics" => {
                let request = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
                let resources = request.resource_metrics.into_iter();
                let metrics = resources.flat_map(|it| it.scope_metrics).flat_map(|it| it.metrics);
                let cost = metrics.filter(|metric| metric.name == "phasemeter.gpu.cost");
                for point in cost.flat_map(|metric| match metric.data {
                    Some(Data::Sum(sum)) => sum.data_points,
                    _ => panic!("cost is a sum"),
                }) {
                    let Some(number_data_point::Value::AsDouble(cost)) = point.value else {
                        panic!("{point:?}");
                    };
                    // Sums are cumulative: keep the last one.
                    costs.insert(format!("{:?}", point.attributes), cost);
                }
            }
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
                let resources = request.resource_spans.into_iter();
                for span in resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans) {
                    assert_eq!(span.trace_id[..2], [0x0a, 0xf7]);
                    assert!(!span.parent_span_id.is_empty());
                    spans += 1;
                    if span.name == "gpu session" {
                        let gpu = otlp::attributes(&span.attributes)["hw.id"].clone();
                        let times = (span.start_time_unix_nano, span.end_time_unix_nano);
                        sessions.entry(gpu).or_default().push((span.span_id, times));
                    } else {
                        *phases.entry(span.parent_span_id).or_insert(0) += 1;
                    }
                }
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    for sessions in sessions.values() {
        assert!(sessions.iter().all(|(id, _)| phases.get(id) == Some(&1)), "one phase each");
        assert_one_session_per_hour(sessions.iter().map(|(_, times)| *times).collect());
    }
    let all: usize = sessions.values().map(Vec::len).sum();
    assert_eq!(spans, 2 * all, "a session and its phase");
    let total = format!("{:.9}", costs.values().sum::<f64>());
    assert_eq!(report["cost"]["total_usd"], total);
    assert!(
        assumptions(&report).contains(&format!("{spans} spans sent")),
        "{}",
        assumptions(&report)
    );
}
