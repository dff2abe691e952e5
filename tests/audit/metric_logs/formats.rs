//! The same readings in each format of logs.

use std::fmt::Write;

use phasemeter_oracle::calendar;
use serde_json::json;

use crate::prng::Prng;

pub(super) const MODEL: &str = "NVIDIA L4";

/// 2026-07-26T23:59:30.250Z, shortly before a new day.
pub(super) const START: u64 = 1_785_110_370_250;

/// What a GPU reports at an instant: milliseconds, GPU, percent, MiB and milliwatts. A missing percent is
/// not available.
pub(super) struct Row(pub(super) u64, usize, Option<u64>, u64, u64);

/// Twenty minutes of two GPUs, each five seconds; with a pause, if there is to be one.
pub(super) fn rows(has_pause: bool) -> Vec<Row> {
    let mut prng = Prng(7);
    let mut rows = Vec::new();
    let mut at = START;
    for tick in 0..240 {
        for gpu in 0..2 {
            let percent = if tick / 20 % 2 == 0 { prng.below(101) } else { 0 };
            let percent = (prng.below(50) > 0).then_some(percent);
            let memory = if tick < 120 { 0 } else { 4_096 * (gpu as u64 + 1) };
            rows.push(Row(at, gpu, percent, memory, 30_000 + 1_000 * prng.below(40)));
        }
        at += if has_pause && tick == 100 { 90_000 } else { 5_000 };
    }
    rows
}

fn uuid(gpu: usize) -> String {
    format!("GPU-5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d6{gpu}")
}

/// `2026-07-26T23:59:30.250Z`, or as `nvidia-smi` writes it.
pub(super) fn time(millis: u64, is_smi: bool) -> String {
    let civil = calendar::format_millis(millis);
    if is_smi { civil } else { format!("{}Z", civil.replace('/', "-").replace(' ', "T")) }
}

pub(super) fn nvidia_smi(rows: &[Row]) -> String {
    let mut log = "timestamp, index, uuid, name, utilization.gpu, memory.used [MiB], \
                   memory.total [MiB], power.draw [W]\n"
        .to_owned();
    for Row(at, gpu, percent, memory, power) in rows {
        let percent = percent.map_or_else(|| "[N/A]".to_owned(), |percent| percent.to_string());
        let power = *power as f64 / 1e3;
        writeln!(
            log,
            "{}, {gpu}, {}, {MODEL}, {percent}, {memory} MiB, 23034 MiB, {power:.2} W",
            time(*at, true),
            uuid(*gpu)
        )
        .unwrap();
    }
    log
}

/// The metrics of a row, as DCGM has them.
fn metrics(row: &Row) -> [(&'static str, String); 4] {
    let Row(_, _, percent, memory, power) = row;
    let missing = "9223372036854775794".to_owned();
    [
        ("DCGM_FI_DEV_FB_TOTAL", "23034".to_owned()),
        ("DCGM_FI_DEV_FB_USED", memory.to_string()),
        ("DCGM_FI_DEV_GPU_UTIL", percent.map_or(missing, |percent| percent.to_string())),
        ("DCGM_FI_DEV_POWER_USAGE", format!("{:.6}", *power as f64 / 1e3)),
    ]
}

pub(super) fn labels(gpu: usize) -> String {
    let uuid = uuid(gpu);
    format!(
        "{{gpu=\"{gpu}\",UUID=\"{uuid}\",pci_bus_id=\"00000000:0{gpu}:00.0\",device=\"nvidia{gpu}\",\
         modelName=\"{MODEL}\",Hostname=\"node-1\",DCGM_FI_DRIVER_VERSION=\"575.57.08\"}}"
    )
}

/// Pages of dcgm-exporter, each after its time.
pub(super) fn pages(rows: &[Row]) -> String {
    let mut log = String::new();
    for page in rows.chunks(2) {
        writeln!(log, "# {}", time(page[0].0, false)).unwrap();
        let names = metrics(&page[0]).map(|(name, _)| name);
        for (index, name) in names.into_iter().enumerate() {
            writeln!(log, "# HELP {name} a metric of DCGM.\n# TYPE {name} gauge").unwrap();
            for row in page {
                writeln!(log, "{name}{} {}", labels(row.1), metrics(row)[index].1).unwrap();
            }
        }
    }
    log
}

/// Samples with a timestamp each, as Prometheus federates them.
pub(super) fn timestamps(rows: &[Row]) -> String {
    let mut log = String::new();
    for row in rows {
        for (name, number) in metrics(row) {
            writeln!(log, "{name}{} {number} {}", labels(row.1), row.0).unwrap();
        }
    }
    log
}

/// The output of `dcgmi dmon`, with a time before each line or without.
pub(super) fn dmon(rows: &[Row], has_times: bool) -> String {
    let mut log = String::new();
    let mut line = |at: u64, line: &str| {
        let time = if has_times { format!("{} ", time(at, false)) } else { String::new() };
        writeln!(log, "{time}{line}").unwrap();
    };
    for (tick, rows) in rows.chunks(2).enumerate() {
        if tick % 14 == 0 {
            line(
                rows[0].0,
                "#Entity   POWER         FBTTL             FBUSD             GPUTL       ",
            );
            line(
                rows[0].0,
                "ID        W                                                           ",
            );
        }
        for Row(at, gpu, percent, memory, power) in rows {
            let percent = percent.map_or_else(|| "N/A".to_owned(), |it| it.to_string());
            let power = format!("{:.3}", *power as f64 / 1e3);
            line(
                *at,
                &format!("GPU {gpu}     {power:<14}23034             {memory:<18}{percent:<12}"),
            );
        }
    }
    line(0, "\n\ndmon was stopped do to receiving a signal");
    log
}

/// A request of a Collector per line.
pub(super) fn otlp_json(rows: &[Row]) -> String {
    let mut log = String::new();
    for row in rows {
        let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
        let metric = |(name, number): (&str, String)| {
            let attributes = [text("UUID", &uuid(row.1)), text("modelName", MODEL)];
            let time = format!("{}000000", row.0);
            let number: f64 = number.parse().unwrap();
            let point = json!({"attributes": attributes, "timeUnixNano": time, "asDouble": number});
            json!({"name": name, "gauge": {"dataPoints": [point]}})
        };
        let request = json!({"resourceMetrics": [{
            "resource": {"attributes": [text("service.name", "dcgm")]},
            "scopeMetrics": [{
                "scope": {"name": "prometheusreceiver"},
                "metrics": metrics(row).map(metric),
            }],
        }]});
        writeln!(log, "{request}").unwrap();
    }
    log
}

/// The same requests over several lines, as `jq` writes them.
pub(super) fn pretty(documents: &str) -> String {
    let pretty = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        serde_json::to_string_pretty(&value).unwrap() + "\n"
    };
    documents.lines().map(pretty).collect()
}

/// Samples whose names are quoted, as Prometheus 3 writes those that are not words.
pub(super) fn quoted(rows: &[Row]) -> String {
    let mut log = String::new();
    for row in rows {
        let labels = labels(row.1).replace("gpu=", "\"gpu\"=");
        let labels = labels.trim_start_matches('{');
        for (name, number) in metrics(row) {
            writeln!(log, "{{\"{name}\",{labels} {number} {}", row.0).unwrap();
        }
    }
    log
}

/// The samples of each metric of each GPU, with its labels.
fn series(rows: &[Row]) -> Vec<(serde_json::Value, Vec<(u64, String)>)> {
    let mut series = Vec::new();
    for gpu in 0..2 {
        for (index, (name, _)) in metrics(&rows[0]).iter().enumerate() {
            let metric = json!({
                "__name__": name, "UUID": uuid(gpu), "gpu": gpu.to_string(), "modelName": MODEL,
            });
            let of_gpu = rows.iter().filter(|row| row.1 == gpu);
            series
                .push((metric, of_gpu.map(|row| (row.0, metrics(row)[index].1.clone())).collect()));
        }
    }
    series
}

/// An export of VictoriaMetrics: a series per line.
pub(super) fn export(rows: &[Row]) -> String {
    let mut log = String::new();
    for (metric, samples) in series(rows) {
        let values: Vec<f64> = samples.iter().map(|(_, number)| number.parse().unwrap()).collect();
        let timestamps: Vec<u64> = samples.iter().map(|(at, _)| *at).collect();
        let line = json!({"metric": metric, "values": values, "timestamps": timestamps});
        writeln!(log, "{line}").unwrap();
    }
    log
}

/// Answers of Prometheus to a query over a range, one for each metric of each GPU.
pub(super) fn query(rows: &[Row]) -> String {
    let mut log = String::new();
    for (metric, samples) in series(rows) {
        let values = samples.iter().map(|(at, number)| json!([*at as f64 / 1e3, number]));
        let result = json!([{"metric": metric, "values": values.collect::<Vec<_>>()}]);
        let data = json!({"resultType": "matrix", "result": result});
        writeln!(log, "{}", json!({"status": "success", "data": data})).unwrap();
    }
    log
}
