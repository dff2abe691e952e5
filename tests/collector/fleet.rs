//! A large fleet through a real Collector with a compressed file: all of it arrives.
//!
//! `FLEET_GPUS` is the number of GPUs; 10,000 need some minutes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use prost::Message;
use ruzstd::decoding::StreamingDecoder;
use serde_json::Value;

use crate::otelcol::Otelcol;
use crate::otlp;
use crate::otlp::billionths;
use crate::output::print;
use crate::run::nano_usd;

/// The number of GPUs: `FLEET_GPUS`, or 1,000.
pub(crate) fn gpus() -> usize {
    std::env::var("FLEET_GPUS").map_or(1_000, |gpus| gpus.parse().unwrap())
}

/// The number of logs that the GPUs are divided among.
const LOGS: usize = 10;

/// Bytes of memory that an audit with an export takes at most, and per GPU: twice that of a meter.
const MEMORY: u64 = 96 << 20;
const MEMORY_PER_GPU: u64 = 128 << 10;

/// Minutes of each log: one row per GPU and minute.
const MINUTES: u64 = 60;

/// The second of the first row, five seconds after a whole minute: 2026-07-27T00:00:05Z.
const BEGIN: u64 = 1_785_110_405;

/// The log of these GPUs, at most an hour long.
pub(crate) fn log(gpus: Range<usize>, minutes: u64) -> String {
    let mut log =
        "timestamp, index, uuid, utilization.gpu [%], memory.used [MiB], memory.total [MiB], \
                   power.draw [W], temperature.gpu\n"
            .to_owned();
    for minute in 0..minutes {
        for gpu in gpus.clone() {
            let percent = (gpu as u64 * 37 + minute / 7 * 53) % 101;
            let (index, watts) = (gpu - gpus.start, 70 + percent * 6);
            writeln!(
                log,
                "2026/07/27 00:{minute:02}:05.000, {index}, GPU-{gpu:08x}, {percent} %, {} MiB, \
                 81559 MiB, {watts}.00 W, 60",
                percent * 700
            )
            .unwrap();
        }
    }
    log
}

/// The second of the last row.
pub(crate) fn end(minutes: u64) -> u64 {
    BEGIN + (minutes - 1) * 60
}

/// What the Collector's file has of one metric: the number of points and the last value of each GPU and
/// phase.
type Points = BTreeMap<(String, String), (u64, f64)>;

/// The requests in a compressed file.
pub(crate) fn requests<M: Message + Default>(mut archive: &[u8]) -> impl Iterator<Item = M> {
    std::iter::from_fn(move || {
        if archive.is_empty() {
            return None;
        }
        let (size, rest) = archive.split_first_chunk().unwrap();
        let (message, rest) = rest.split_at(u32::from_be_bytes(*size) as usize);
        archive = rest;
        let mut bytes = Vec::new();
        StreamingDecoder::new(message).unwrap().read_to_end(&mut bytes).unwrap();
        Some(M::decode(bytes.as_slice()).unwrap())
    })
}

/// The metrics of this name in a compressed file.
pub(crate) fn metrics<'a>(archive: &'a [u8], name: &'a str) -> impl Iterator<Item = Metric> + 'a {
    let requests = requests::<ExportMetricsServiceRequest>(archive);
    let scopes = requests.flat_map(|it| it.resource_metrics).flat_map(|it| it.scope_metrics);
    scopes.flat_map(|scope| scope.metrics).filter(move |it| it.name == name)
}

/// Reads the points of a metric from a compressed file.
fn read(archive: &[u8], name: &str) -> Points {
    let mut found = Points::new();
    for metric in metrics(archive, name) {
        let Some(Data::Sum(sum)) = metric.data else { panic!("{metric:?}") };
        for point in sum.data_points {
            let mut attributes = otlp::attributes(&point.attributes);
            let mut of = |key| attributes.remove(key).unwrap();
            let Some(Number::AsDouble(value)) = point.value else { panic!("{point:?}") };
            let found = found.entry((of("hw.id"), of("phasemeter.phase"))).or_default();
            *found = (found.0 + 1, value);
        }
    }
    found
}

/// Waits for a process, and returns its peak memory in bytes. That of `wait4` is at least what this process had when it
/// started the other, with all tests that run beside.
fn end_with_peak_memory(mut process: Child) -> (ExitStatus, u64) {
    let file = format!("/proc/{}/status", process.id());
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(&file).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = kib.map_or(peak, |kib| kib * 1_024);
        if let Some(status) = process.try_wait().unwrap() {
            assert!(peak > 0, "{file} has no VmHWM");
            return (status, peak);
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn hour_of_fleet_reaches_compressed_file_whole() {
    let Some(otelcol) = Otelcol::find() else { return };
    let gpus = gpus();
    let collector = otelcol.start_with(&["collector.yaml", "archive.yaml"], &[]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().current_dir(dir.path()).stdin(Stdio::null());
    command.args(["audit", "--price=2.985", "--format=json", "--no-default-policies"]);
    command.arg(format!("--otlp=http://{}", collector.grpc));
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    for number in 0..LOGS {
        let name = format!("node-{number}.csv");
        let range = gpus * number / LOGS..gpus * (number + 1) / LOGS;
        fs::write(dir.path().join(&name), log(range, MINUTES)).unwrap();
        command.arg(name);
    }
    let [out, err] = ["out", "err"].map(|name| dir.path().join(name));
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let began = Instant::now();
    let (status, memory) = end_with_peak_memory(command.spawn().unwrap());
    let (took, stderr) = (began.elapsed(), fs::read_to_string(err).unwrap());
    assert!(status.success(), "{stderr}");
    let [archive, ..] = collector.archives();
    print(&format!(
        "{gpus} GPUs, {MINUTES} minutes: {:.1} s, {} MB of memory, {} MB in the Collector's file; {}",
        took.as_secs_f64(),
        memory / 1_000_000,
        archive.len() / 1_000_000,
        stderr.trim()
    ));
    let most = MEMORY + gpus as u64 * MEMORY_PER_GPU;
    assert!(memory <= most, "{memory} bytes of memory: exports accumulate");

    let report: Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    let costs = read(&archive, "phasemeter.gpu.cost");
    let times = read(&archive, "phasemeter.gpu.time");
    let reported = report["gpus"].as_array().unwrap();
    assert_eq!(reported.len(), gpus);
    let mut sums = BTreeMap::<&str, [u64; 2]>::new();
    for (column, points) in [&costs, &times].into_iter().enumerate() {
        for ((gpu, phase), (count, last)) in points {
            // At each whole minute, and at the last row.
            assert_eq!(*count, MINUTES, "{phase} of {gpu}");
            sums.entry(gpu).or_default()[column] += billionths(*last);
        }
    }
    assert_eq!(sums.len(), gpus);
    for gpu in reported {
        let seconds = billionths(gpu["span_seconds"].as_f64().unwrap());
        let id = gpu["id"].as_str().unwrap();
        assert_eq!(sums[id], [nano_usd(&gpu["cost_usd"]), seconds], "{id}");
    }
    let total: u64 = sums.values().map(|[cost, _]| cost).sum();
    assert_eq!(total, nano_usd(&report["cost"]["total_usd"]));
}
