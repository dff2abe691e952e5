//! Output files of `phasemeter run`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use phasemeter_meter::instant::Instant as At;
use serde_json::Value;

use crate::run::{phasemeter, stderr, with_command};
use crate::{Rig, TIMEOUT};

/// Buffered data fails only when it is flushed, at the end.
#[test]
fn full_disk_is_reported_and_does_not_fail_the_run() {
    let rig = Rig::new("[[device]]");
    let output = phasemeter(&rig, "--duration 1 --otlp-file /dev/full").output().unwrap();
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(log.contains("writing the OTLP file stopped: No space left on device"), "{log}");
    assert!(log.contains("Experiment"), "{log}");
}

/// Guarantee: the command is not started, and neither file is touched.
#[test]
fn output_in_use_is_rejected_before_the_command_starts() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("terms.json"), "{}").unwrap();
    let (report, terms) = (path("report.json"), path("terms.json"));
    let (report, terms) = (report.display(), terms.display());
    for arguments in [
        format!("--report {report} --otlp-file {report}"),
        format!("--policy-settings negotiated={terms} --report {terms}"),
    ] {
        let started = path("started");
        let script = format!("touch {}", started.display());
        let output = with_command(&rig, &arguments, &script).output().unwrap();
        assert_eq!(output.status.code(), Some(73), "{}", stderr(&output));
        assert!(stderr(&output).contains("is also the "), "{}", stderr(&output));
        assert!(!started.exists() && !path("report.json").exists(), "{arguments}");
        assert_eq!(fs::read_to_string(path("terms.json")).unwrap(), "{}", "{arguments}");
    }
}

/// The reader of a pipe may stop reading.
#[test]
fn pipes_are_rejected_as_files_before_the_command() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for option in ["--otlp-file", "--report", "--html"] {
        let arguments = format!("{option} {}", pipe.display());
        let output = with_command(&rig, &arguments, "echo ran").output().unwrap();
        assert_eq!(output.status.code(), Some(74), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
        assert!(stderr(&output).contains("pipe: is a pipe"), "{}", stderr(&output));
    }
}

#[test]
fn report_is_replaced_only_by_a_new_one() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.json");
    fs::write(&report, "old").unwrap();
    let page = dir.path().join("page.html");
    let arguments = format!("--report {} --html {}", report.display(), page.display());
    let output = phasemeter(&rig, &format!("{arguments} --gpu 5")).output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
    let file = fs::File::open(&report).unwrap();
    let output = with_command(&rig, &arguments, "exit 0").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(io::read_to_string(file).unwrap(), "old");
    let new: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    assert_eq!(new["title"], "sh");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains(r#"{"schema":"phasemeter.report/0.1","title":"sh","#), "{page}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// The reports of a directory, with their names.
pub(crate) fn reports_in(dir: &Path) -> Vec<(String, Value)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let reports = entries.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let read = |path: PathBuf| {
        let report = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), report)
    };
    reports.map(read).collect()
}

/// Scenario: a run that writes its report each second is killed, and another one ends.
/// Guarantee: each leaves one file with its start in the name, which a bill of the directory adds up.
#[test]
fn run_that_is_killed_leaves_the_report_so_far() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let arguments = format!("--report {}/bill.json --report-every 1s", dir.path().display());
    let mut killed = phasemeter(&rig, &arguments).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while reports_in(dir.path()).is_empty() {
        assert!(Instant::now() < deadline, "no report");
        thread::sleep(Duration::from_millis(100));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let reports = reports_in(dir.path());
    let [(name, report)] = &reports[..] else { panic!("{reports:?}") };
    assert!(name.starts_with("bill-20") && name.ends_with("Z.json"), "{name}");
    let cost = nanos(&report["cost"]["total_usd"]);
    assert!(cost > 500_000, "{cost}");
    assert!(
        report["sampling"].to_string().contains("written during the run"),
        "{}",
        report["sampling"]
    );
    // In another second, which is in the name.
    thread::sleep(Duration::from_millis(1_100));
    let output = with_command(&rig, &arguments, "sleep 1.5").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let reports = reports_in(dir.path());
    assert_eq!(reports.len(), 2, "{reports:?}");
    let last = reports.iter().find(|(_, report)| report["title"] == "sh").unwrap();
    assert!(!last.1["sampling"].to_string().contains("written during the run"));
    let costs: i128 = reports.iter().map(|(_, report)| nanos(&report["cost"]["total_usd"])).sum();
    let mut bill = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    let bill = bill.arg("bill").arg(dir.path()).args(["--format", "json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&bill.stdout).unwrap();
    assert_eq!(nanos(&json["total"]["metered_usd"]), costs, "{}", stderr(&bill));
}

/// Scenario: a run with a data directory, and no option of reports, is killed, and another one ends.
/// Guarantee: each leaves one report in the directory, and a bill of them is the sum of both.
#[test]
fn run_that_is_killed_leaves_its_report_in_the_data_directory() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let reports = dir.path().join("reports");
    let arguments = format!("--data-dir {}", dir.path().display());
    let mut killed = phasemeter(&rig, &arguments).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !reports.is_dir() || reports_in(&reports).is_empty() {
        assert!(began.elapsed() < TIMEOUT, "no report");
        thread::sleep(Duration::from_millis(100));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = reports_in(&reports);
    let [(name, report)] = &left[..] else { panic!("{left:?}") };
    assert!(report["sampling"].to_string().contains("written during the run"), "{report}");
    // At 3.6 dollars an hour.
    assert!(nanos(&report["cost"]["total_usd"]) > 5_000_000, "{name}: {report}");
    let output = with_command(&rig, &arguments, "sleep 1").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let left = reports_in(&reports);
    assert_eq!(left.len(), 2, "{left:?}");
    let last = left.iter().find(|(_, report)| report["title"] == "sh").unwrap();
    assert!(!last.1["sampling"].to_string().contains("written during the run"));
    let costs: i128 = left.iter().map(|(_, report)| nanos(&report["cost"]["total_usd"])).sum();
    let mut bill = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    let bill = bill.arg("bill").arg(&reports).args(["--format", "json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&bill.stdout).unwrap();
    assert_eq!(nanos(&json["total"]["metered_usd"]), costs, "{}", stderr(&bill));
}

/// Scenario: a run that cannot reach its backend is killed at its end, while it waits for the backend.
/// Guarantee: its whole report is in the data directory.
#[test]
fn run_that_is_killed_at_its_end_leaves_its_whole_report() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let reports = dir.path().join("reports");
    let mut command =
        phasemeter(&rig, &format!("--duration 2 --data-dir {}", dir.path().display()));
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let mut run = command.stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !reports.is_dir() || reports_in(&reports).is_empty() {
        assert!(began.elapsed() < TIMEOUT, "no report");
        thread::sleep(Duration::from_millis(50));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let left = reports_in(&reports);
    let [(name, report)] = &left[..] else { panic!("{left:?}") };
    assert!(!report["sampling"].to_string().contains("written during the run"), "{name}: {report}");
    // At 3.6 dollars an hour.
    assert!(nanos(&report["cost"]["total_usd"]) > 1_500_000, "{name}: {report}");
    assert_eq!(report["delivery"], serde_json::json!([]), "it was to be delivered");
}

/// Scenario: a run that begins a report every two seconds is killed, and another one ends.
/// Guarantee: the periods of a run follow one another, and a bill of all files is what the time of both runs costs, to
/// the nano-dollar.
#[test]
fn periods_of_runs_that_are_killed_or_end_sum_to_their_bills() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let arguments =
        format!("--report {}/bill.json --report-every 1s --report-period 2s", dir.path().display());
    let mut killed = phasemeter(&rig, &arguments).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while reports_in(dir.path()).len() < 4 {
        assert!(Instant::now() < deadline, "{:?}", reports_in(dir.path()));
        thread::sleep(Duration::from_millis(100));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let first = reports_in(dir.path());
    let output = with_command(&rig, &arguments, "sleep 2.5").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut second = reports_in(dir.path());
    second.retain(|report| !first.contains(report));
    assert!(second.len() >= 2, "{second:?}");
    let expected: i128 = [first, second].into_iter().map(bill_of_run).sum();
    let mut bill = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    let bill = bill.arg("bill").arg(dir.path()).args(["--format", "json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&bill.stdout).unwrap();
    assert_eq!(nanos(&json["total"]["metered_usd"]), expected, "{}", stderr(&bill));
}

/// What a run with one GPU costs, whose reports are those of periods: the cost of all its time.
fn bill_of_run(mut reports: Vec<(String, Value)>) -> i128 {
    reports.sort_by(|(one, _), (other, _)| one.cmp(other));
    let at = |text: &Value| i128::from(text.as_str().unwrap().parse::<At>().unwrap().0.as_nanos());
    let spans: Vec<[i128; 2]> = reports
        .iter()
        .map(|(name, report)| {
            let gpu = &report["gpus"][0];
            let span = ["start", "end"].map(|end| at(&gpu[end]));
            assert!(span[0] < span[1] && gpu["cost_usd"] == report["cost"]["total_usd"], "{name}");
            span
        })
        .collect();
    let tile = |pair: &[[i128; 2]]| pair[0][1] == pair[1][0] && pair[1][0] % 2_000_000_000 == 0;
    assert!(spans.windows(2).all(tile), "{spans:?}");
    let rate = nanos(&reports[0].1["gpus"][0]["rate_usd_per_gpu_hour"]);
    rate * (spans[spans.len() - 1][1] - spans[0][0]) / 3_600_000_000_000
}

pub(crate) fn nanos(usd: &Value) -> i128 {
    usd.as_str().unwrap().replace('.', "").parse().unwrap()
}

/// A limit of the file's size fails writes as a full disk does.
#[test]
fn report_on_full_disk_leaves_the_old_one() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.json");
    fs::write(&report, "old").unwrap();
    let arguments = format!("--no-default-policies --report {}", report.display());
    let run = with_command(&rig, &arguments, "exit 0");
    // The signal of the limit is ignored: a full disk has none.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\""]);
    limited.arg(run.get_program()).args(run.get_args());
    limited.env_clear().envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("report.json: cannot be written"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&report).unwrap(), "old");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// Scenario: what is to be the file of claims is a device or a directory, by a link.
/// Guarantee: it is neither read nor renamed, and metering goes on without it.
#[test]
fn claims_that_are_no_file_are_left_alone() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    for device in ["/dev/null", "/dev/zero", "/"] {
        let link = dir.path().join("claims.json");
        symlink(device, &link).unwrap();
        let arguments = format!("--duration 1 --data-dir {}", dir.path().display());
        let output = phasemeter(&rig, &arguments).output().unwrap();
        let log = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{log}");
        assert!(log.contains("; no claims are kept"), "{log}");
        assert_eq!(fs::read_link(&link).unwrap().to_str(), Some(device));
        assert!(!dir.path().join("claims.json.unreadable").exists(), "{log}");
        fs::remove_file(link).unwrap();
    }
}
