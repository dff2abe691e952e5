//! Logs of metrics: the same readings in any format give the same bill as a log of `nvidia-smi`.

pub(crate) mod amd;
mod formats;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use self::formats::{
    MODEL, Row, START, dmon, export, labels, nvidia_smi, otlp_json, pages, pretty, query, quoted,
    rows, time, timestamps,
};
use crate::phasemeter::Phasemeter;
use crate::report;

fn audit(dir: &Path, name: &str, log: &str) -> Value {
    let path = dir.join(name);
    fs::write(&path, log).unwrap();
    let report = Phasemeter::audit()
        .args(["--price", "2.4837", "--gpu-model", MODEL])
        .args(["--dmon-start", &time(START, false), "--dmon-interval", "5"])
        .arg(&path)
        .report();
    report::check(&report);
    report
}

/// Everything that is metered, without the names of GPUs and bases.
fn metered(report: &Value) -> Value {
    let gpu = |gpu: &Value| {
        let fields = [
            "model",
            "start",
            "end",
            "cost_usd",
            "utilized_usd",
            "waste_usd",
            "waste_by_category_usd",
            "unobserved_usd",
            "span_seconds",
            "unobserved_seconds",
            "unobserved_reasons",
            "phases",
            "effective_seconds",
            "pattern",
            "memory",
            "energy_joules",
            "periods",
        ];
        let mut utilization = gpu["utilization"].clone();
        utilization["basis"] = Value::Null;
        json!([fields.map(|field| gpu[field].clone()), utilization])
    };
    let gpus: Vec<Value> = report["gpus"].as_array().unwrap().iter().map(gpu).collect();
    json!({"gpus": gpus, "cost": report["cost"], "fleet": report["fleet"]})
}

/// Scenario: the same readings, with a pause and missing values, as a log of `nvidia-smi`, as pages of
/// dcgm-exporter, as samples of Prometheus, as output of `dcgmi dmon`, as OTLP in JSON, and as series of Prometheus
/// and VictoriaMetrics.
/// Guarantee: every amount and duration is the same.
#[test]
fn same_readings_in_any_format_give_the_same_bill() {
    let dir = tempfile::tempdir().unwrap();
    for has_pause in [true, false] {
        let rows = rows(has_pause);
        let expected = audit(dir.path(), "smi.csv", &nvidia_smi(&rows));
        let mut logs = vec![
            ("pages.prom", pages(&rows)),
            ("samples.prom", timestamps(&rows)),
            ("dmon.txt", dmon(&rows, true)),
            ("otlp.jsonl", otlp_json(&rows)),
            ("otlp.json", pretty(&otlp_json(&rows))),
            ("quoted.prom", quoted(&rows)),
            ("export.jsonl", export(&rows)),
            ("query.json", query(&rows)),
            ("query-pretty.json", pretty(&query(&rows))),
        ];
        if !has_pause {
            logs.push(("ticks.txt", dmon(&rows, false)));
        }
        for (name, log) in logs {
            let report = audit(dir.path(), name, &log);
            assert_eq!(metered(&report), metered(&expected), "{name}");
            assert_eq!(report["gpus"][0]["utilization"]["basis"], "dcgm.gpu", "{name}");
            assert_eq!(report["rejected_total"], 0, "{name}: {}", report["rejected_rows"]);
        }
    }
}

/// Scenario: a log in two parts, one of them compressed, and output of `dcgmi dmon` of two hosts.
/// Guarantee: parts are merged in time order; GPUs of different hosts are different GPUs.
#[test]
fn several_logs_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let rows = rows(false);
    let whole = audit(dir.path(), "whole.prom", &pages(&rows));
    let [first, second] = ["first.prom.gz", "second.prom"].map(|name| dir.path().join(name));
    fs::write(&first, crate::logs::gzipped(pages(&rows[..200]))).unwrap();
    fs::write(&second, pages(&rows[200..])).unwrap();
    let price = ["--price", "2.4837"];
    let parts = Phasemeter::audit().args(price).args([&second, &first]).report();
    assert_eq!(metered(&parts), metered(&whole));

    let hosts = ["a.txt", "b.txt"].map(|name| dir.path().join(name));
    hosts.iter().for_each(|path| fs::write(path, dmon(&rows, true)).unwrap());
    let report = Phasemeter::audit().args(price).args(&hosts).report();
    let ids: Vec<_> = report["gpus"].as_array().unwrap().iter().map(|gpu| &gpu["id"]).collect();
    assert_eq!(ids, ["a.txt:0", "b.txt:0", "a.txt:1", "b.txt:1"], "by index");
}

/// Guarantee: an invalid line is reported with file, line and reason, and the rest counts; a sender of ratios
/// where percents are declared is named, and its values are unreadable, unless a mapping states its unit.
#[test]
fn invalid_lines_are_rejected_with_their_number() {
    let dir = tempfile::tempdir().unwrap();
    let rows = rows(false);
    let mut log = timestamps(&rows);
    log.insert_str(log.find('\n').unwrap() + 1, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0} 5\n\n");
    let report = audit(dir.path(), "torn.prom", &log);
    let row = &report["rejected_rows"][0];
    assert_eq!((&report["rejected_total"], &row["line"]), (&json!(1), &json!(2)), "{row}");
    assert!(row["file"].as_str().unwrap().ends_with("torn.prom"));
    assert_eq!(row["reason"], "expected NAME{LABEL=\"VALUE\", …} NUMBER [TIMESTAMP]");

    let sample = |at: u64, ratio: f64| {
        format!("DCGM_FI_DEV_GPU_UTIL{{UUID=\"GPU-a\"}} {ratio} {}\n", START + at * 1_000)
    };
    let ratios = [0.5, 0.25, 0.75].iter().cycle().take(13);
    let log = ratios.zip(0..).map(|(ratio, i)| sample(i * 5, *ratio));
    let path = dir.path().join("ratio.prom");
    fs::write(&path, log.collect::<String>()).unwrap();
    let refused = Phasemeter::audit().args(["--price", "1"]).arg(&path).run();
    let report = refused.json();
    let reason = report["rejected_rows"][0]["reason"].as_str().unwrap();
    let expected =
        "DCGM_FI_DEV_GPU_UTIL: declared as percent, but 10 values in a row are of the other unit";
    assert!(reason.starts_with(expected), "{reason}");
    assert_eq!(
        (&report["rejected_total"], &report["rejected_rows"][0]["line"]),
        (&json!(1), &json!(10))
    );
    assert_eq!(report["fleet"]["unobserved_seconds"], report["fleet"]["span_seconds"]);

    let mapping = dir.path().join("own.toml");
    let text = "[identity]\nuuid = [\"UUID\"]\n[[metric]]\nname = \"DCGM_FI_DEV_GPU_UTIL\"\n\
                is = \"utilization\"\nbasis = \"dcgm.gpu\"\nunit = \"ratio\"\n";
    fs::write(&mapping, text).unwrap();
    let stated = Phasemeter::audit().args(["--price", "1", "--mapping"]).arg(mapping).arg(path);
    let report = stated.report();
    assert_eq!(report["fleet"]["unobserved_seconds"], 0.0);
    assert_eq!(report["gpus"][0]["effective_seconds"], 30.0, "four times 7.5 s");
}

/// Scenario: a document of each format of JSON is cut off, in the middle of a log and at its end.
/// Guarantee: it is reported by its first line, and costs no other one.
#[test]
fn document_that_is_cut_off_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let rows = rows(false);
    let half = |text: &str| text[..text.len() / 2].trim_end().to_owned();
    for (name, log) in [
        ("a.jsonl", otlp_json(&rows)),
        ("b.json", pretty(&otlp_json(&rows))),
        ("c.jsonl", export(&rows)),
        ("d.json", query(&rows)),
    ] {
        let whole = audit(dir.path(), name, &log);
        let first = log.lines().take_while(|line| !line.starts_with('}')).count() + 1;
        let first = if name == "b.json" { first } else { 1 };
        let document: String = log.lines().take(first).map(|line| format!("{line}\n")).collect();
        // Before the first document, and after the last one.
        let torn = format!("{document}{}\n{log}{}", half(&document), half(&document));
        let report = audit(dir.path(), name, &torn);
        assert_eq!(metered(&report), metered(&whole), "{name}");
        let lines = report::list(&report["rejected_rows"]).iter();
        let lines: Vec<_> =
            lines.map(|row| (row["line"].as_u64(), row["reason"].as_str())).collect();
        let torn = Some("a JSON document that is cut off");
        let last = torn_lines(&document, &half(&document)) + log.lines().count() + 1;
        let expected = [first + 1, last].map(|line| (Some(line as u64), torn));
        assert_eq!(lines, expected, "{name}");
    }
}

/// The lines of a document and of a part of one.
fn torn_lines(document: &str, half: &str) -> usize {
    document.lines().count() + half.lines().count()
}

/// Scenario: the clock of a node is ten years ahead for one instant in the middle of a log, or at its
/// beginning; then for good.
/// Guarantee: every line of that instant is rejected by its number, and the bill is that of the others. A
/// clock that stays ahead is a pause.
#[test]
fn instant_far_ahead_is_rejected() {
    const TEN_YEARS: u64 = 10 * 365 * 86_400_000;
    let dir = tempfile::tempdir().unwrap();
    let log = |name: &str, rows: &[Row]| match name {
        "pages.prom" => pages(rows),
        "samples.prom" => timestamps(rows),
        "dmon.txt" => dmon(rows, true),
        _ => otlp_json(rows),
    };
    // Lines of two rows: of the pages without their comments.
    for (name, lines) in
        [("pages.prom", 8), ("samples.prom", 8), ("dmon.txt", 2), ("otlp.jsonl", 2)]
    {
        for tick in [0, 100] {
            let mut ahead = rows(false);
            ahead[2 * tick..2 * tick + 2].iter_mut().for_each(|row| row.0 += TEN_YEARS);
            let mut without = rows(false);
            without.drain(2 * tick..2 * tick + 2);
            let report = audit(dir.path(), name, &log(name, &ahead));
            let expected = audit(dir.path(), name, &log(name, &without));
            assert_eq!(metered(&report), metered(&expected), "{name}, {tick}");
            assert_eq!(report["rejected_total"], lines, "{name}: {}", report["rejected_rows"]);
            let rejected = report["rejected_rows"].as_array().unwrap();
            let is_jump = |row: &Value| row["reason"].as_str().unwrap().starts_with("clock_jump: ");
            assert!(rejected.iter().all(is_jump), "{name}: {rejected:?}");
        }
        let mut rows = rows(false);
        rows[200..].iter_mut().for_each(|row| row.0 += 3 * 3_600_000);
        let report = audit(dir.path(), name, &log(name, &rows));
        assert_eq!(report["rejected_total"], 0, "{name}: {}", report["rejected_rows"]);
        assert_eq!(report["gpus"][0]["span_seconds"], 3.0 * 3_600.0 + 239.0 * 5.0, "{name}");
    }
}

/// Scenario: a page of dcgm-exporter has profiling metrics.
/// Guarantee: policies get them, as those of a log of `nvidia-smi`.
#[test]
fn activity_of_dcgm_is_in_windows() {
    let dir = tempfile::tempdir().unwrap();
    let [path, window] = ["page.prom", "one.window.json"].map(|name| dir.path().join(name));
    let metrics = [
        ("DCGM_FI_DEV_GPU_UTIL", "90"),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", "40"),
        ("DCGM_FI_PROF_SM_ACTIVE", "0.5"),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.3"),
        ("DCGM_FI_PROF_DRAM_UTIL_RATIO", "0.6"),
        ("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "0.7"),
        ("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "0.2"),
        ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "0"),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", "3000000000"),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", "1000000000"),
        ("DCGM_FI_PROF_NVLINK_TX_BYTES", "5e9"),
        ("DCGM_FI_PROF_NVLINK_RX_BYTES", "5e9"),
    ];
    let mut log = String::new();
    for at in (0..120).map(|tick| START + 15_000 * tick) {
        for (metric, number) in metrics {
            writeln!(log, "{metric}{} {number} {at}", labels(0)).unwrap();
        }
    }
    fs::write(&path, log).unwrap();
    let report = Phasemeter::audit().arg(&path).arg("--dump-windows").arg(&window).report();
    assert_eq!(report["gpus"][0]["utilization"]["basis"], "dcgm.gpu");
    let window: Value = serde_json::from_slice(&fs::read(&window).unwrap()).unwrap();
    let gpu = &window["window"]["gpus"][0];
    let sensors = &gpu["sensors"];
    for (name, expected) in [("sm_activity", 0.5), ("tensor_activity", 0.3), ("dram_activity", 0.6)]
    {
        assert_eq!(sensors[name], expected, "{sensors:#}");
    }
    let metrics = gpu["metrics"].to_string();
    for (pipe, expected) in [("fp64", 0.7), ("fp32", 0.2), ("fp16", 0.0)] {
        assert_eq!(gpu["metrics"][format!("{pipe}.activity")], expected, "{metrics}");
    }
    assert!(metrics.contains("memory.utilization"), "{metrics}");
    assert_eq!(gpu["metrics"]["pcie.bytes_per_second"], 4e9, "{metrics}");
    assert_eq!(gpu["metrics"]["nvlink.bytes_per_second"], 1e10, "{metrics}");
}

/// Scenario: dcgm-exporter repeats an old XID error, then reports another one, twice.
/// Guarantee: the new one is an event and counts once; the old one, of unknown time, does not.
#[test]
fn new_xid_error_is_an_event() {
    let dir = tempfile::tempdir().unwrap();
    let [path, file] = ["xid.prom", "otlp.jsonl"].map(|name| dir.path().join(name));
    let mut log = String::new();
    for (tick, code) in [31, 31, 31, 79, 79, 79].into_iter().enumerate() {
        let at = START + 5_000 * tick as u64;
        for (metric, number) in [("DCGM_FI_DEV_GPU_UTIL", 50), ("DCGM_FI_DEV_XID_ERRORS", code)] {
            writeln!(log, "{metric}{} {number} {at}", labels(0)).unwrap();
        }
    }
    fs::write(&path, log).unwrap();
    Phasemeter::audit().arg(&path).arg("--otlp-file").arg(&file).report();
    let captured = crate::otlp::read(&fs::read_to_string(&file).unwrap());
    let events = captured.events.iter().filter(|it| it.event_name == "phasemeter.gpu.xid.reported");
    let codes: Vec<_> = events
        .map(|event| crate::otlp::attributes(&event.attributes)["phasemeter.gpu.xid.code"].clone())
        .collect();
    assert_eq!(codes, ["79"]);
    let errors = captured.streams("phasemeter.gpu.xid.errors");
    let total: f64 = errors.values().map(|stream| stream.points.last().unwrap().value).sum();
    assert!((total - 1.0).abs() < f64::EPSILON, "{errors:?}");
}

/// Guarantee: a log that cannot be used is one line that names file and line, and states what to do.
#[test]
fn unusable_logs_are_rejected_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let sample = "DCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-a\"} 5";
    for (name, text, expected) in [
        (
            "failed.json",
            "{\"status\":\"error\",\"errorType\":\"timeout\",\"error\":\"query timed out\"}".to_owned(),
            "failed.json, line 1: a failed query, without series",
        ),
        (
            "rate.json",
            "{\"status\":\"success\",\"data\":{\"result\":[{\"metric\":{},\"values\":[[1,\"5\"]]}]}}".to_owned(),
            "rate.json, line 1: a series without __name__; query metrics themselves, not functions of them",
        ),
        (
            "untimed.prom",
            format!("# HELP a b\n{sample}\n"),
            "untimed.prom, line 2: no time; write it before each page, as by date -u '+# %Y-%m-%dT%H:%M:%SZ'",
        ),
        (
            "untimed.txt",
            "#Entity   GPUTL\nID\nGPU 0     5\n".to_owned(),
            "untimed.txt, line 3: no time; add it to each line, as by TZ=UTC ts '%Y-%m-%dT%H:%M:%.SZ', or set --dmon-start",
        ),
        (
            "other.prom",
            "up{job=\"a\"} 1 1785110400000\n".to_owned(),
            "other.prom: no value of a GPU; check that it has metrics of --mapping or the built-in ones",
        ),
        (
            "torn.jsonl",
            "{\"resourceMetrics\": [\n".to_owned(),
            "torn.jsonl, line 1: a JSON document that is cut off",
        ),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
        let outcome = Phasemeter::audit().within(dir.path()).arg(name).run();
        assert_eq!((outcome.status, outcome.error_line()), (65, expected));
    }
    let csv = "timestamp, uuid, utilization.gpu\n2026/07/27 00:00:00.000, GPU-a, 5\n";
    fs::write(dir.path().join("smi.csv"), csv).unwrap();
    let outcome = Phasemeter::audit().within(dir.path()).args(["smi.csv", "other.prom"]).run();
    let expected = "other.prom: is a Prometheus page, unlike smi.csv; audit them separately";
    assert_eq!((outcome.status, outcome.error_line()), (65, expected));
}
