//! A run without a command that is killed and started again, in its file and its report.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::mock_backend::MockBackend;
use crate::otlp;
use crate::run::{assumptions, phasemeter, run_with_report, started, stderr};
use crate::{Rig, TIMEOUT};

/// Scenario: a sidecar is killed, and started again with its data directory and other arguments.
/// Guarantee: the time until its sums begin is an event of the file and a line of the report. What the
/// backend has of all runs is tested in `claims.rs`.
#[test]
fn gap_after_a_kill_is_an_event_and_a_line_of_the_report() {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50");
    let dir = tempfile::tempdir().unwrap();
    let [data, file] = ["data", "otlp.json"].map(|name| dir.path().join(name));
    let backend = MockBackend::start([]);
    let arguments = format!("--data-dir {}", data.display());
    let mut command = phasemeter(&rig, &arguments);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", backend.address));
    let (run, _log) = started(&mut command);
    let began = Instant::now();
    while !data.join("claims.json").exists() {
        assert!(began.elapsed() < TIMEOUT, "no claims");
        thread::sleep(Duration::from_millis(20));
    }
    // Killed.
    drop(run);

    let arguments = format!("{arguments} --duration 1 --otlp-file {}", file.display());
    let (output, report) = run_with_report(&rig, &arguments, |_| {});
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let captured = otlp::read(&fs::read_to_string(&file).unwrap());
    let gap = captured
        .events
        .iter()
        .find(|event| event.event_name == "phasemeter.gpu.gap.found")
        .unwrap();
    let duration: f64 =
        otlp::attributes(&gap.attributes)["phasemeter.gpu.gap.duration"].parse().unwrap();
    assert!(duration > 0.0);
    let streams = captured.streams("phasemeter.gpu.time");
    assert_eq!(streams.values().next().unwrap().points[0].start, gap.time_unix_nano);
    let notes = assumptions(&report);
    assert!(notes.contains("between an earlier run and this one are not billed"), "{notes}");
}
