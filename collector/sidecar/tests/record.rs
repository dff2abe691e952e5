//! `phasemeter record` on the scripted driver.

#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fake_nvml::{Fake, Model};
use flate2::read::GzDecoder;
use phasemeter_logs::Source;
use phasemeter_logs::log::Input;
use phasemeter_logs::nvidia_smi::{LogOptions, Logs};
use phasemeter_meter::reading::{MIG_MODE, MIG_PROFILES, NVLINK_PEERS};
use phasemeter_meter::units::{Nanos, Timestamp};
use serde_json::Value;
use tempfile::TempDir;
use wall_clock::WallClock;

mod wall_clock;

/// Two reading intervals: a change is seen up to one interval late, and a busy machine may miss a tick.
const TOLERANCE: f64 = 0.2;

/// Metering options of both audit and run.
const METERING: [&str; 4] = ["--price", "3", "--thresholds", "10,30,60"];

/// A driver whose script started at the current second.
struct Rig {
    dir: TempDir,
    fake: Fake,
    start: Timestamp,
}

impl Rig {
    fn new(script: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let second = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let script = format!("start_unix_ms = {}\n{script}", second * 1_000);
        let fake = Fake::install(dir.path(), &script).unwrap();
        Self { dir, fake, start: Timestamp::EPOCH + Nanos::from_secs(second) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The binary with only this driver's environment.
    fn phasemeter(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        command.env_clear().envs(self.fake.environment()).args(arguments);
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.phasemeter(arguments).output().unwrap()
    }

    /// The audit of a recording, which must not reject any row.
    fn audit(&self, log: &str) -> Value {
        let run = self.run(&[&["audit", log, "--format", "json"], &METERING[..]].concat());
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        let report: Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(report["rejected_total"], 0);
        report
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn interrupt(child: &Child, signal: &str) {
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

/// The instants of the readings of a recorded GPU.
fn instants(log: PathBuf, gpu: usize) -> Vec<Timestamp> {
    let mut logs = Logs::open(&[Input::from(log)], &LogOptions::default()).unwrap();
    let mut instants = Vec::new();
    while let Some((of, reading)) = logs.next().unwrap() {
        if logs.gpus()[of].index == u32::try_from(gpu).ok() {
            instants.push(reading.at);
        }
    }
    assert!(instants.is_sorted());
    instants
}

/// The clock is set back while it records.
#[test]
fn recording_continues_with_the_time_that_it_began_with() {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 95\npower_w = 300");
    let file = rig.file("log.csv");
    let log = file.to_str().unwrap();
    let clock = WallClock::new();
    let mut command = rig.phasemeter(&["record", log, "--duration", "4"]);
    clock.apply(&mut command);
    let run = command.spawn().unwrap();
    thread::sleep(Duration::from_secs(2));
    clock.set(-10);
    let run = run.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("system clock set back by 10.0 s"), "{}", text(&run.stderr));

    let gpu = &rig.audit(log)["gpus"][0];
    let span = gpu["span_seconds"].as_f64().unwrap();
    assert!((3.5..6.0).contains(&span), "{gpu:#}");
    assert_eq!(gpu["unobserved_seconds"], 0.0, "{gpu:#}");
    let joules = gpu["energy_joules"].as_f64().unwrap();
    assert!((joules - 300.0 * span).abs() < 300.0, "{gpu:#}");
}

/// Scenario: a GPU in MIG mode, two on a switch, and two connected to each other.
#[test]
fn recording_names_mig_profiles_and_nvlink_peers() {
    let rig = Rig::new(
        "[[device]]
        mig = true
        [[device.instance]]
        profile = '3g.40gb'
        [[device.instance]]
        gpu_instance = 9
        [[device]]
        nvlinks = 2
        [[device]]
        nvlinks = 2
        [[device]]
        nvlinks = 1
        nvlink_peer = 4
        [[device]]
        nvlinks = 1
        nvlink_peer = 3",
    );
    let file = rig.file("log.csv");
    let run = rig.run(&["record", file.to_str().unwrap(), "--duration", "1"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let mut logs = Logs::open(&[Input::from(file)], &LogOptions::default()).unwrap();
    while logs.next().unwrap().is_some() {}
    // The GPUs stand in the order of their first rows, which follows the times of their answers.
    let mut gpus: Vec<_> = logs.gpus().iter().collect();
    gpus.sort_unstable_by_key(|gpu| gpu.index);
    let attributes: Vec<Vec<_>> =
        gpus.iter().map(|gpu| gpu.attributes.clone().into_iter().collect()).collect();
    let uuid = |index: usize| format!("GPU-00000000-0000-0000-0000-{index:012}");
    let mode = |mode: &str| (MIG_MODE.to_owned(), mode.to_owned());
    let peer = |index| vec![mode("disabled"), (NVLINK_PEERS.to_owned(), uuid(index))];
    let instances = vec![mode("enabled"), (MIG_PROFILES.to_owned(), "3g.40gb 1g.10gb".to_owned())];
    assert_eq!(attributes, [instances, peer(2), peer(1), peer(4), peer(3)]);
}

/// A GPU hangs until after the end.
#[test]
fn recording_of_hung_gpu_is_as_long_as_that_of_others() {
    let hang = "[[fault]]\ndevice = 1\nat_ms = 3000\nhang = true";
    let rig = Rig::new(&format!("length_ms = 60000\n[[device]]\n[[device]]\n{hang}"));
    let file = rig.file("log.csv");
    let log = file.to_str().unwrap();
    let run = rig.run(&["record", log, "--duration", "5"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let report = rig.audit(log);
    let [healthy, hung] = [0, 1].map(|gpu| &report["gpus"][gpu]);
    let [end, hung_end] = [healthy, hung].map(|gpu| gpu["span_seconds"].as_f64().unwrap());
    assert!((end - hung_end).abs() < TOLERANCE, "{end} s, {hung_end} s");
    assert_eq!(healthy["unobserved_seconds"], 0.0, "{healthy:#}");
    assert!(hung["unobserved_seconds"].as_f64().unwrap() > 0.5, "{hung:#}");
}

#[test]
fn recording_audits_to_ground_truth_and_live_report() {
    let phase = |name, utilization, for_ms| {
        format!(
            "[[device.phase]]
            name = \"{name}\"
            utilization = {utilization}
            for_ms = {for_ms}
            processes = [{{ pid = 7, name = \"python\" }}]\n"
        )
    };
    let device = [
        "[[device]]\ndriver = { window_ms = 0 }\nmemory_total_mib = 1000\npower_limit_w = 312.5\n"
            .to_owned(),
        phase("idle", 0, 1_000),
        phase("productive", 45, 1_000),
        phase("compute_bound", 100, 1_000),
        phase("productive", 45, 1_000),
        phase("underutilized", 20, 1_000),
        phase("idle", 0, 60_000),
    ]
    .concat();
    let lost = "[[fault]]
        device = 1
        at_ms = 2000
        for_ms = 1000
        error = \"gpu_is_lost\"";
    let rig = Rig::new(&format!("{device}{device}{lost}"));
    let file = rig.file("log.csv");
    let log = file.to_str().unwrap();
    let live = rig.file("run.json");
    let metered = ["run", "--duration", "5.5", "--basis", "nvml.gpu", "--report"];
    let metered = [&metered[..], &[live.to_str().unwrap()], &METERING].concat();
    let concurrent = rig.phasemeter(&metered).spawn().unwrap();
    let run = rig.run(&["record", log, "--duration", "5.5"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(concurrent.wait_with_output().unwrap().status.success());
    let log_text = text(&run.stderr);
    assert!(log_text.contains("readings of 2 GPUs to"), "{log_text}");

    let report = rig.audit(log);
    let live: Value = serde_json::from_slice(&fs::read(live).unwrap()).unwrap();
    let model: Model = rig.fake.model().unwrap();
    let instants = instants(file.clone(), 0);
    let (from, second, to) = (instants[0], instants[1], *instants.last().unwrap());
    assert!(to.since(from) > Nanos::from_secs(5), "{:?}", to.since(from));
    for phase in ["idle", "underutilized", "productive", "compute_bound"] {
        let [a, b] = [from, to].map(|at| at.since(rig.start));
        let truth = model.devices[0].true_time_in(phase, a, b).as_secs_f64();
        let seconds =
            |report: &Value| report["gpus"][0]["phases"][phase]["seconds"].as_f64().unwrap();
        let found = seconds(&report);
        assert!((found - truth).abs() <= TOLERANCE, "{phase}: {found} s, expected {truth} s");
        // The two processes started one after the other.
        let billed = seconds(&live);
        assert!((found - billed).abs() <= 2.0 * TOLERANCE, "{phase}: {found} s, live {billed} s");
    }
    // Its process holds too little memory to be detected by memory use. The first reading is taken
    // before processes are listed; from the second on the GPU is held.
    let phases = &report["gpus"][0]["phases"];
    let seconds = |account: &str| phases[account]["seconds"].as_f64().unwrap();
    let unlisted = second.since(from).as_secs_f64();
    assert!(seconds("idle") - seconds("idle_held") <= unlisted + 1e-9, "{phases}");
    let both = seconds("idle_held") + seconds("idle_free");
    assert!((both - seconds("idle")).abs() < 1e-9, "{phases}");
    assert_eq!(report["gpus"][0]["unobserved_seconds"], 0.0);
    let unobserved = report["gpus"][1]["unobserved_seconds"].as_f64().unwrap();
    assert!((0.8..2.5).contains(&unobserved), "{unobserved} s without the GPU");
    let rows = fs::read_to_string(&file).unwrap();
    let lost = "[GPU is lost], [GPU is lost], 1000 MiB, [GPU is lost], 312.500 W, [GPU is lost]";
    assert!(rows.contains(lost), "{rows}");
    let window = rig.file("window.json");
    let dump = ["audit", log, "--dump-windows", window.to_str().unwrap()];
    assert_eq!(rig.run(&dump).status.code(), Some(0));
    let window: Value = serde_json::from_slice(&fs::read(window).unwrap()).unwrap();
    for gpu in window["window"]["gpus"].as_array().unwrap() {
        assert_eq!(gpu["power_limit_milliwatts"], 312_500);
    }
    assert!(!report["assumptions"].to_string().contains("UTC"), "{report:#}");
}

#[test]
fn signal_ends_recording_with_complete_rows() {
    for signal in ["-INT", "-TERM"] {
        let rig = Rig::new("[[device]]\n[[device]]");
        let file = rig.file("log.csv.gz");
        let child = rig.phasemeter(&["record", file.to_str().unwrap()]).spawn().unwrap();
        // Rows are flushed regularly, although the archive is incomplete.
        let began = Instant::now();
        let mut flushed = String::new();
        while flushed.lines().count() <= 10 {
            assert!(began.elapsed() < Duration::from_secs(120), "{flushed}");
            thread::sleep(Duration::from_millis(50));
            let Ok(archive) = fs::File::open(&file) else { continue };
            flushed.clear();
            assert!(GzDecoder::new(archive).read_to_string(&mut flushed).is_err());
        }
        interrupt(&child, signal);
        let run = child.wait_with_output().unwrap();
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));

        let mut rows = String::new();
        GzDecoder::new(fs::File::open(&file).unwrap()).read_to_string(&mut rows).unwrap();
        assert!(rows.starts_with(&flushed) && rows.ends_with('\n'));
        assert!(are_complete(&rows), "{rows}");
        assert_eq!(rig.audit(file.to_str().unwrap())["gpus"].as_array().unwrap().len(), 2);
    }
}

/// Whether all rows have as many cells as the header.
fn are_complete(rows: &str) -> bool {
    let mut cells = rows.lines().map(|row| row.split(", ").count());
    let header = cells.next();
    cells.all(|cells| Some(cells) == header)
}

/// A limit of the file's size fails writes as a full disk does, within a row.
#[test]
fn recording_on_full_disk_ends_with_complete_row() {
    let rig = Rig::new("[[device]]\n[[device]]");
    for (name, blocks) in [("log.csv", 64), ("log.csv.gz", 4), ("-", 64)] {
        let (file, stdout) = (rig.file(name), rig.file("stdout.csv"));
        let log = if name == "-" { name } else { file.to_str().unwrap() };
        let record = rig.phasemeter(&["record", log, "--interval", "0.01"]);
        // The signal of the limit is ignored: a full disk has none.
        let mut command = Command::new("sh");
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        command.args(["-c", &limited]).arg(record.get_program()).args(record.get_args());
        command.env_clear().envs(rig.fake.environment()).stdin(Stdio::null());
        let run = command.stdout(fs::File::create(&stdout).unwrap()).output().unwrap();
        assert_eq!(run.status.code(), Some(74), "{}", text(&run.stderr));

        let bytes = fs::read(if name == "-" { &stdout } else { &file }).unwrap();
        let mut rows = String::new();
        if name.ends_with(".gz") {
            // The archive itself is incomplete.
            assert!(GzDecoder::new(&bytes[..]).read_to_string(&mut rows).is_err());
        } else {
            rows = String::from_utf8(bytes).unwrap();
        }
        assert!(rows.ends_with('\n'), "{name}: {rows}");
        assert!(are_complete(&rows), "{name}: {rows}");
    }
}

#[test]
fn recording_to_pipe_ends_when_reader_closes() {
    let rig = Rig::new("[[device]]\n[[device]]");
    let arguments = ["record", "-", "--gpu", "1", "--interval", "0.02"];
    let mut child = rig.phasemeter(&arguments).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("timestamp, index, uuid"));
    for row in lines.take(60) {
        assert_eq!(row.unwrap().split(", ").nth(1), Some("1"));
    }
    let run = child.wait_with_output().unwrap();
    assert_eq!((run.status.code(), text(&run.stderr)), (Some(0), ""));
}

/// Guarantee: the log of last night is overwritten only if that is requested, and a recording shows that it goes on.
#[test]
fn recording_keeps_a_log_that_exists() {
    let rig = Rig::new("[[device]]");
    let file = rig.file("log.csv");
    let log = file.to_str().unwrap();
    fs::write(&file, "last night\n").unwrap();
    let run = rig.run(&["record", log, "--duration", "1"]);
    assert_eq!(run.status.code(), Some(73), "{run:?}");
    assert!(text(&run.stderr).contains("exists, and is kept"), "{run:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "last night\n");
    let run = rig.run(&["record", log, "--duration", "1", "--overwrite"]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(text(&run.stderr).contains("recording 1 GPU every 0.1 s to"), "{run:?}");
    assert!(fs::read_to_string(&file).unwrap().starts_with("timestamp, index, uuid"));
}

#[test]
fn missing_driver_creates_no_recording() {
    let rig = Rig::new("[[device]]");
    let file = rig.file("log.csv");
    fs::write(rig.fake.library(), "").unwrap();
    let run = rig.run(&["record", file.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(69));
    assert!(text(&run.stderr).starts_with("phasemeter: NVIDIA driver: cannot load"), "{run:?}");
    assert!(!file.exists());

    let rig = Rig::new("[[device]]");
    let run = rig.run(&["record", "-", "--gpu", "7"]);
    assert_eq!(run.status.code(), Some(69));
    assert!(text(&run.stderr).contains("unknown GPU '7'"), "{run:?}");
}
