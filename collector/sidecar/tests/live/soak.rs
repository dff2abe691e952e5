//! The binary for minutes under random faults of the driver, signals, steps of the clock, kills and
//! rejections: `make soak PARTS=live`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::TryRecvError;
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_process::send;
use serde_json::Value;

use crate::Rig;
use crate::claims::claim_at_random;
use crate::prng::Prng;
use crate::run::{Running, assert_billed, phasemeter, seconds};
use crate::signals::{LAST, Lines, REPORT, SAME_GROUP, reporter, wait};
use crate::wall_clock::WallClock;

/// Variables: the length in seconds, and the seed.
const SECONDS: &str = "PHASEMETER_SOAK_SECONDS";
const SEED: &str = "PHASEMETER_SOAK_SEED";

const DEFAULT_SECONDS: u64 = 600;

/// The last GPU has no fault.
const GPUS: u64 = 8;

/// Resident memory may grow by this much after the first quarter.
const MAX_GROWTH_KIB: u64 = 2 * 1_024;

/// Lines of the log per GPU and minute: all kinds of events at their limit.
const MAX_LINES_PER_MINUTE: u64 = 5 * 10;

/// Offsets of the wall clock in seconds, one after the other.
const OFFSETS: [i64; 7] = [-10, 0, 3_600, 0, 45, -1_767_225_600, -30];

const FUNCTIONS: [&str; 8] = [
    "",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetHandleByUUID",
];

const ERRORS: [&str; 7] = [
    "gpu_is_lost",
    "reset_required",
    "uninitialized",
    "not_supported",
    "no_permission",
    "timeout",
    "unknown",
];

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// GPUs with a fault every few seconds, of any kind and for up to 15 seconds, until the end.
fn script(random: &mut Prng, length: u64) -> String {
    let mut script = format!("length_ms = {}\n", (length + 7_200) * 1_000);
    for _ in 0..GPUS {
        script += "[[device]]\n[[device.phase]]\nutilization = 95\n";
    }
    for _ in 0..length {
        let (at, device) = (random.below(length * 1_000), random.below(GPUS - 1));
        write!(script, "[[fault]]\nat_ms = {at}\ndevice = {device}\n").unwrap();
        let effect = match random.below(8) {
            0 => "hang = true".to_owned(),
            1 => format!("delay_ms = {}", 1 + random.below(3_000)),
            2 => {
                writeln!(script, "xid = {}", 1 + random.below(120)).unwrap();
                continue;
            }
            _ => format!("error = \"{}\"", random.one_of(&ERRORS)),
        };
        writeln!(script, "for_ms = {}\n{effect}", 100 + random.below(15_000)).unwrap();
        let function = random.one_of(&FUNCTIONS);
        if !function.is_empty() {
            writeln!(script, "functions = [\"{function}\"]").unwrap();
        }
    }
    script
}

/// The resident memory of a process in KiB, without pages of its file, which it releases now and then.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[ignore = "takes minutes: make soak PARTS=live"]
fn run_survives_random_faults_signals_and_clock_steps() {
    let (length, seed) = (variable(SECONDS, DEFAULT_SECONDS), variable(SEED, 1));
    println!("{length} s, seed {seed}");
    let mut random = Prng(seed);
    let rig = Rig::new(&script(&mut random, length));
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let [report_file, log] = ["report.json", "log"].map(file);
    let arguments = format!("--otlp-file /dev/null --report {}", report_file.display());
    let mut command = phasemeter(&rig, &format!("{arguments} -- env --block-signal"));
    command.args(reporter()).env(REPORT, SAME_GROUP).process_group(0).stdout(Stdio::piped());
    command.stderr(fs::File::create(&log).unwrap());
    let clock = WallClock::new();
    clock.apply(&mut command);
    let began = Instant::now();
    let mut run = Running(command.spawn().unwrap());
    let (pid, lines) = (run.0.id(), Lines::of(&mut run.0));
    lines.wait_for("ready");

    let (mut sent, mut received) = (BTreeMap::new(), BTreeMap::new());
    let (mut memory, mut steps, mut next_step) = (Vec::new(), 0, 10);
    while began.elapsed() < Duration::from_secs(length) {
        // Real-time signals are queued: every one must arrive.
        let signal = i32::try_from(35 + random.below(25)).unwrap();
        if random.below(2) == 0 {
            send(pid, signal).unwrap();
        } else {
            let arguments = [format!("-{signal}"), "--".to_owned(), format!("-{pid}")];
            assert!(Command::new("kill").args(arguments).status().unwrap().success());
        }
        *sent.entry(signal).or_insert(0) += 1;
        thread::sleep(Duration::from_millis(100 + random.below(500)));
        let elapsed = began.elapsed().as_secs();
        if elapsed >= next_step {
            clock.set(OFFSETS[steps % OFFSETS.len()]);
            (steps, next_step) = (steps + 1, elapsed + 5 + random.below(20));
        }
        if memory.len() < usize::try_from(elapsed).unwrap() {
            memory.push(resident(pid));
        }
        loop {
            match lines.0.try_recv() {
                Ok(line) => count(&mut received, &line),
                Err(TryRecvError::Empty) => break,
                Err(error) => panic!("the command has ended: {error}"),
            }
        }
    }
    send(pid, LAST).unwrap();
    lines.0.iter().for_each(|line| count(&mut received, &line));
    assert_eq!(wait(&mut run.0), Some(0), "{}", fs::read_to_string(&log).unwrap());
    let elapsed = began.elapsed().as_secs_f64();
    received.remove(&LAST);

    let report: Value = serde_json::from_slice(&fs::read(&report_file).unwrap()).unwrap();
    let gpus = report["gpus"].as_array().unwrap();
    let warm = memory.len() / 4;
    let [early, late] = [&memory[warm..], &memory[memory.len() - warm.max(1)..]]
        .map(|part| (part.iter().min().unwrap(), part.iter().max().unwrap()));
    let log = fs::read_to_string(&log).unwrap();
    let logged = log.lines().count() as u64;
    // The report repeats some.
    let is_step = |line: &&str| line.starts_with("phasemeter: system clock set");
    let noticed = log.lines().filter(is_step).count();
    println!("signals {}, steps {steps}", sent.values().sum::<u64>());
    println!(
        "resident KiB: {early:?} after a quarter, {late:?} in the last; lines logged {logged}"
    );
    for gpu in gpus {
        let (span, unobserved) = (seconds(&gpu["span_seconds"]), &gpu["unobserved_seconds"]);
        println!("GPU {}: {span} s, unobserved {unobserved} s", gpu["index"]);
    }

    assert_eq!(received, sent, "signals");
    assert_eq!(noticed, steps, "steps of the clock");
    assert!(late.1.saturating_sub(*early.0) <= MAX_GROWTH_KIB, "{memory:?}");
    assert!(logged <= GPUS * MAX_LINES_PER_MINUTE * (length / 60 + 1), "{logged} lines");
    assert_eq!(gpus.len() as u64, GPUS);
    for gpu in gpus {
        assert_billed(gpu);
        assert_eq!(gpu["span_seconds"], gpus[0]["span_seconds"], "{gpu:#}");
        assert!(seconds(&gpu["span_seconds"]) <= elapsed, "{elapsed}: {gpu:#}");
        let observed = seconds(&gpu["span_seconds"]) - seconds(&gpu["unobserved_seconds"]);
        let busy = seconds(&gpu["phases"]["compute_bound"]["seconds"]);
        assert!((busy - observed).abs() < 1e-6, "{gpu:#}");
    }
}

/// Scenario and guarantee of [`crate::claims`], for minutes.
#[test]
#[ignore = "takes minutes: make soak PARTS=live"]
fn every_second_is_claimed_once_under_random_kills_rejections_and_clock_steps() {
    let (length, seed) = (variable(SECONDS, DEFAULT_SECONDS), variable(SEED, 1));
    println!("{length} s, seed {seed}");
    claim_at_random(seed, Duration::from_secs(length), true);
}

fn count(received: &mut BTreeMap<i32, u64>, line: &str) {
    if let Some(signal) = line.trim_end().strip_prefix("signal ") {
        *received.entry(signal.parse().unwrap()).or_insert(0) += 1;
    }
}
