//! The binary while the wall clock is set. `sampler/simulation` proves by simulated clocks that no length
//! changes; here they are those of the machine.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::run::{NO_POLICIES, assert_billed, phasemeter, seconds};
use crate::wall_clock::WallClock;
use crate::{Rig, otlp, unless_stalled};

/// From now to 1970, where clocks without a battery start: the time since then is less.
const TO_1970: i64 = -1_767_225_600;

/// Sets the clock from one offset to another while the binary runs, and checks its report and export.
fn check_step(from: i64, to: i64, note: &str) {
    unless_stalled(|| {
        let rig = Rig::new("length_ms = 60000\n[[device]]\n[[device.phase]]\nutilization = 95");
        let dir = tempfile::tempdir().unwrap();
        let [report, exported] = ["report.json", "otlp.json"].map(|name| dir.path().join(name));
        let files = format!("--report {} --otlp-file {}", report.display(), exported.display());
        let arguments = format!("--duration 4 {NO_POLICIES} {files}");
        let mut command = phasemeter(&rig, &arguments);
        let clock = WallClock::new();
        clock.set(from);
        clock.apply(&mut command);
        let run = command.stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_secs(2));
        clock.set(to);
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));

        let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        let gpu = &report["gpus"][0];
        assert_billed(gpu);
        let span = seconds(&gpu["span_seconds"]);
        assert!((4.0..5.0).contains(&span), "{span} s");
        assert_eq!(gpu["phases"]["compute_bound"]["seconds"], gpu["span_seconds"]);
        let notes = report["sampling"].to_string();
        assert!(notes.contains(note), "{notes}");

        let captured = otlp::read(&fs::read_to_string(&exported).unwrap());
        let events: Vec<_> =
            captured.events.iter().map(|event| event.event_name.as_str()).collect();
        assert_eq!(events, ["phasemeter.clock.stepped"]);
        let sessions = captured.named("gpu session");
        assert!(sessions.len() >= 2, "{sessions:?}");
        for session in sessions {
            let length = session.end_time_unix_nano.checked_sub(session.start_time_unix_nano);
            assert!(length.unwrap() < 5_000_000_000, "{session:?}");
        }
    });
}

#[test]
fn clock_that_is_set_back_changes_no_length() {
    check_step(0, -10, "system clock set back by 10.0 s");
}

#[test]
fn clock_that_is_set_forward_changes_no_length() {
    check_step(0, 3_600, "system clock set forward by 3600.0 s");
}

/// As if NTP synchronized the clock of a machine that started without a valid one.
#[test]
fn clock_that_is_set_for_the_first_time_changes_no_length() {
    check_step(TO_1970, 0, "system clock set forward by 1767225600.0 s");
}
