//! Work that a workload reports on the socket named in its environment.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::otlp::{self, Captured};
use crate::python::python;
use crate::python_module::DIRECTORY;
use crate::run::{assumptions, phasemeter, run_with_report, stderr};
use crate::{Rig, TIMEOUT, unless_stalled};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/report_work.py");

fn captured(file: &Path) -> Captured {
    otlp::read(&fs::read_to_string(file).unwrap())
}

/// The last point of each unit.
fn last(captured: &Captured, name: &str) -> BTreeMap<String, f64> {
    let streams = captured.streams(name).into_iter();
    streams
        .map(|(mut attributes, stream)| {
            let unit = attributes.remove("phasemeter.work.unit").unwrap();
            (unit, stream.points.last().unwrap().value)
        })
        .collect()
}

/// Connects as soon as the socket exists.
pub(crate) fn connect(socket: &Path) -> UnixStream {
    let began = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return stream,
            Err(error) => assert!(began.elapsed() < TIMEOUT, "{}: {error}", socket.display()),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Scenario: the example of the documentation, which ends at once after its last line.
/// Guarantee: all of its work is in the report, by hour, in the metrics, in the experiment's span and in
/// the window of policies, and the dollars per unit are the bill divided by the work.
#[test]
fn example_reports_work_and_its_cost() {
    let Some(python) = python() else { return };
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
    let dir = tempfile::tempdir().unwrap();
    let [file, window] = ["otlp.json", "window.json"].map(|name| dir.path().join(name));
    let arguments = format!("--otlp-file {} --dump-windows {}", file.display(), window.display());
    let (output, report) = run_with_report(&rig, &arguments, |command| {
        command.env("PYTHONPATH", DIRECTORY).args(["--", python, EXAMPLE]);
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let expected = [("epochs", 2), ("samples", 51_200), ("steps", 100)];
    let bill: f64 = report["cost"]["total_usd"].as_str().unwrap().parse().unwrap();
    assert!(bill > 0.0);
    for (unit, count) in expected {
        let work = &report["work"][unit];
        assert_eq!(work["count"], count, "{work}");
        let each: f64 = work["cost_each_usd"].as_str().unwrap().parse().unwrap();
        assert!((each * f64::from(count) / bill - 1.0).abs() < 0.01, "{each} × {count} ≠ {bill}");
    }
    let hours = report["work_by_hour"].as_array().unwrap();
    let samples = hours.iter().filter_map(|hour| hour["work"]["samples"].as_u64());
    assert_eq!(samples.sum::<u64>(), 51_200, "{hours:?}");

    let captured = captured(&file);
    let counts = expected.map(|(unit, count)| (unit.to_owned(), f64::from(count)));
    assert_eq!(last(&captured, "phasemeter.work.done"), BTreeMap::from(counts));
    let each = last(&captured, "phasemeter.work.unit_cost");
    assert!(each.len() == 3 && each.values().all(|each| *each > 0.0), "{each:?}");
    let [experiment] = captured.named("experiment")[..] else { panic!() };
    let attributes = otlp::attributes(&experiment.attributes);
    assert_eq!(attributes["phasemeter.work.samples"], "51200");
    let each: f64 = attributes["phasemeter.work.cost_per.samples"].parse().unwrap();
    assert!((each * 51_200.0 / bill - 1.0).abs() < 1e-6, "{each} of {bill}");

    let window: Value = serde_json::from_str(&fs::read_to_string(&window).unwrap()).unwrap();
    assert!(window.to_string().contains("work.samples"), "{window:#}");
}

/// Scenario: a command that reports nothing.
/// Guarantee: there is no count and no cost per unit, and no socket remains.
#[test]
fn no_work_has_no_cost_per_unit() {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.json");
    let arguments = format!("--otlp-file {}", file.display());
    let path = dir.path().join("path");
    let script = format!(
        "stat -c %a $(dirname $PHASEMETER_SOCKET); test -S $PHASEMETER_SOCKET && \
         printf %s $PHASEMETER_SOCKET > {}",
        path.display()
    );
    let (output, report) = run_with_report(&rig, &arguments, |command| {
        command.args(["--", "sh", "-c", &script]);
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "700\n");
    assert_eq!(
        (&report["work"], &report["work_by_hour"]),
        (&serde_json::json!({}), &serde_json::json!([]))
    );
    let captured = captured(&file);
    assert!(captured.streams("phasemeter.work.done").is_empty());
    assert!(captured.streams("phasemeter.work.unit_cost").is_empty());
    let path = fs::read_to_string(&path).unwrap();
    assert!(!Path::new(&path).exists() && !Path::new(&path).parent().unwrap().exists());
}

/// Scenario: a client that writes megabytes without an end of line, one that stays silent, and one that
/// reports work.
/// Guarantee: only the work counts, the run ends in time, and the report names the rejected line.
#[test]
fn malformed_reports_affect_themselves_only() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("work.sock");
    unless_stalled(|| {
        let clients = thread::spawn({
            let socket = socket.clone();
            move || {
                let silent = connect(&socket);
                let mut flood = connect(&socket);
                flood.write_all(&vec![b'x'; 4 << 20]).unwrap();
                flood.write_all(b"\nwork requests 3\nwork cats 9\n").unwrap();
                silent
            }
        });
        let began = Instant::now();
        let arguments = format!("--duration 2 --work-socket {}", socket.display());
        let (output, report) = run_with_report(&rig, &arguments, |_| {});
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        drop(clients.join().unwrap());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(report["work"]["requests"]["count"], 3, "{}", report["work"]);
        assert_eq!(report["work"].as_object().unwrap().len(), 1);
        let notes = assumptions(&report);
        assert!(notes.contains("2 lines of the work socket were rejected"), "{notes}");
        assert!(stderr(&output).contains("work socket: line rejected: unknown unit"));
        assert!(!socket.exists());
    });
}

/// Scenario: a client that reads what it is answered, and one that writes malformed lines only and never
/// reads.
/// Guarantee: each malformed line is answered by one that names the problem, others by nothing, and no
/// client waits.
#[test]
fn malformed_lines_are_answered() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("work.sock");
    let clients = thread::spawn({
        let socket = socket.clone();
        move || {
            let mut deaf = connect(&socket);
            deaf.write_all(&b"nonsense\n".repeat(100_000)).unwrap();
            let mut client = connect(&socket);
            client.write_all(b"step\nwork cats 9\nwork samples -1\nstep\nbegin").unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answers = String::new();
            client.read_to_string(&mut answers).unwrap();
            answers
        }
    });
    let arguments = format!("--duration 2 --work-socket {}", socket.display());
    let (output, report) = run_with_report(&rig, &arguments, |_| {});
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let answers = clients.join().unwrap();
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers[0].starts_with("error: unknown unit; expected samples"), "{answers:?}");
    assert!(answers[1].starts_with("error: invalid count"), "{answers:?}");
    assert!(answers[2].starts_with("error: expected `work UNIT COUNT`"), "{answers:?}");
    assert_eq!(report["work"]["steps"]["count"], 2);
}

#[test]
fn unusable_socket_is_an_error_without_a_command() {
    let rig = Rig::new("[[device]]");
    let output = phasemeter(&rig, "--work-socket /nowhere/work.sock").output().unwrap();
    assert_eq!(output.status.code(), Some(71), "{}", stderr(&output));
}
