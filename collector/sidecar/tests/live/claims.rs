//! Runs that are killed and started again, with a backend that fails: which time of the GPUs the backend
//! has, in sums and in gaps. Nothing here depends on how a run keeps that.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use phasemeter_process::send;
use tempfile::TempDir;

use crate::Rig;
use crate::claimed::{Backend, GOOD, Habits};
use crate::prng::Prng;
use crate::run::{Log, NO_POLICIES, Running, isolate, phasemeter, started};
use crate::signals::wait;
use crate::telemetry::decode;
use crate::wall_clock::WallClock;

const SIGTERM: i32 = 15;

/// Clocks of one machine differ by less, and an export is much longer.
const TOLERANCE: i64 = 20_000_000;

/// A machine on which a run is started again and again.
struct Machine {
    rig: Rig,
    dir: TempDir,
    clock: WallClock,
    /// The offset of its wall clock in seconds.
    offset: i64,
    backend: Backend,
    processes: u32,
    /// The name of the run in progress.
    name: String,
}

impl Machine {
    fn new(backend: Backend) -> Self {
        let gpu = "[[device]]\n[[device.phase]]\nutilization = 50\n";
        let rig = Rig::new(&gpu.repeat(2));
        let (dir, clock) = (tempfile::tempdir().unwrap(), WallClock::new());
        Self { rig, dir, clock, offset: 0, backend, processes: 0, name: String::new() }
    }

    fn claims(&self) -> PathBuf {
        self.dir.path().join("data/claims.json")
    }

    fn set_clock(&mut self, offset: i64) {
        self.offset = offset;
        self.clock.set(offset);
    }

    /// The name of the next run, and its command.
    fn command(&mut self) -> (String, Command) {
        self.processes += 1;
        self.name = format!("{}@{}", self.processes, self.offset);
        (self.name.clone(), self.same_command())
    }

    /// The command by which the run in progress goes on.
    fn same_command(&self) -> Command {
        let (name, data) = (&self.name, self.dir.path().join("data"));
        let arguments = format!("{NO_POLICIES} --data-dir {}", data.display());
        let mut command = phasemeter(&self.rig, &arguments);
        command.env("OTEL_RESOURCE_ATTRIBUTES", format!("phasemeter.experiment.id={name}"));
        self.apply(&mut command);
        command
    }

    /// Another process delivers what is left. Returns whether that is all.
    fn flush(&self) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        isolate(&mut command, &self.rig);
        command.args(["flush", "--timeout", "2s", "--data-dir"]).arg(self.dir.path().join("data"));
        self.apply(&mut command);
        command.output().unwrap().status.success()
    }

    fn apply(&self, command: &mut Command) {
        let endpoint = format!("http://{}", self.backend.mock.address);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
        command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "1000");
        command.env("OTEL_SDK_DISABLED", "true");
        self.clock.apply(command);
    }

    fn start(&mut self) -> (String, Running, Log) {
        let (name, mut command) = self.command();
        let (run, log) = started(&mut command);
        (name, run, log)
    }

    /// A last process, of which the backend accepts everything.
    fn settle(&mut self) {
        self.backend.set(GOOD);
        let (name, mut run, _log) = self.start();
        self.backend.wait_for_sums(&name);
        // What was rejected is sent again with the next sums.
        thread::sleep(Duration::from_secs(3));
        send(run.0.id(), SIGTERM).unwrap();
        assert_eq!(wait(&mut run.0), Some(0));
    }

    /// Checks that the claimed time of each GPU has no hole and no overlap.
    #[track_caller]
    fn assert_claimed_once(&self) -> Balance {
        let claimed = self.backend.claimed();
        assert_eq!(claimed.len(), 2, "{claimed:?}");
        let mut balance = Balance::default();
        for times in claimed.values() {
            for two in times.windows(2) {
                let between = two[1].0 - two[0].1;
                balance.hole = balance.hole.max(between);
                balance.overlap = balance.overlap.max(-between);
            }
            balance.claimed += times.iter().map(|(from, to)| to - from).sum::<i64>();
            balance.span += times.last().unwrap().1 - times[0].0;
        }
        let accepted = self.backend.accepted.lock().unwrap();
        balance.gaps = accepted.gaps.iter().map(|(_, _, _, length)| length).sum();
        let (sums, gaps) = (&accepted.sums, &accepted.gaps);
        assert!(balance.hole.max(balance.overlap) < TOLERANCE, "{balance}\n{sums:#?}\n{gaps:#?}");
        balance
    }
}

/// The claimed time of all GPUs in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Balance {
    span: i64,
    claimed: i64,
    gaps: i64,
    /// The largest hole and the largest overlap.
    hole: i64,
    overlap: i64,
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { span, claimed, gaps, hole, overlap } = *self;
        let tenths = |nanos: i64| format!("{}.{}", nanos / 1_000_000_000, nanos / 100_000_000 % 10);
        let (sums, all, gaps) = (tenths(claimed - gaps), tenths(span), tenths(gaps));
        write!(f, "{all} GPU-seconds: {sums} in sums, {gaps} in gaps; largest hole {hole} ns, ")?;
        write!(f, "largest overlap {overlap} ns")
    }
}

/// Runs for this long with random kills, rejections and steps of the wall clock.
pub(crate) fn claim_at_random(seed: u64, length: Duration, clock_steps: bool) {
    let mut random = Prng(seed);
    // What is rejected of a process that has ended is lost, and counted.
    let habits = Habits { rejects: 0, is_down: 25, is_silent: 15 };
    let mut machine = Machine::new(Backend::start(habits, seed + 1));
    let (began, mut kills, mut stops, mut steps) = (Instant::now(), 0, 0, 0);
    let (mut goes_on, mut continued, mut flushes) = (false, 0, 0);
    while began.elapsed() < length {
        let (mut run, _log) = match goes_on {
            true => started(&mut machine.same_command()),
            false => started(&mut machine.command().1),
        };
        continued += u32::from(goes_on);
        goes_on = false;
        // The first export takes the allowed lateness and an interval, 16 s.
        let longest = if random.below(2) == 0 { 6_000 } else { 30_000 };
        let mut left = random.below(longest);
        while left > 0 {
            let part = left.min(500);
            left -= part;
            thread::sleep(Duration::from_millis(part));
            // Back would move the start of its sums; that is tried between processes.
            if clock_steps && random.below(10) == 0 {
                machine.set_clock(machine.offset + 1 + i64::try_from(random.below(90)).unwrap());
                steps += 1;
            }
        }
        if random.below(4) == 0 {
            send(run.0.id(), SIGTERM).unwrap();
            assert_eq!(wait(&mut run.0), Some(0));
            stops += 1;
        } else {
            // Killed.
            drop(run);
            kills += 1;
            goes_on = random.below(2) == 0;
        }
        thread::sleep(Duration::from_millis(random.below(1_500)));
        if random.below(3) == 0 {
            flushes += u32::from(machine.flush());
        }
        if clock_steps && !goes_on && random.below(2) == 0 {
            machine.set_clock(i64::try_from(random.below(7_200)).unwrap() - 3_600);
            steps += 1;
        }
    }
    machine.settle();
    let balance = machine.assert_claimed_once();
    let rejections = machine.backend.accepted.lock().unwrap().rejections;
    println!(
        "{} runs, {kills} kills, {flushes} flushes, {continued} continued, {stops} stops, {rejections} rejections, {steps} steps of the clock\n{balance}",
        machine.processes
    );
}

/// Scenario: runs are killed and stopped at random, and go on or not; at times `flush` delivers what they have left; the backend is
/// down, or accepts without an answer.
/// Guarantee: in the end the backend has each second of each GPU once, in a sum or in a gap.
#[test]
fn every_second_is_claimed_once_over_kills() {
    claim_at_random(7, Duration::from_secs(45), true);
}

/// Scenario: a run is killed some exports after its file of claims was written last, and `flush` delivers all that it has stored.
/// Guarantee: each second is claimed once.
#[test]
fn flush_keeps_what_it_delivers_claimed() {
    let mut machine = Machine::new(Backend::start(GOOD, 6));
    let (name, run, _log) = machine.start();
    machine.backend.wait_for_sums(&name);
    let written = std::fs::read(machine.claims()).unwrap();
    thread::sleep(Duration::from_secs(3));
    drop(run);
    assert_eq!(std::fs::read(machine.claims()).unwrap(), written, "it is older than the last sums");
    assert!(machine.flush());
    machine.settle();
    machine.assert_claimed_once();
}

/// Scenario: a process begins while another one has the directory: one that is killed a second later, and one that goes on.
/// Guarantee: it waits for the end of the first, and each second is claimed once; it ends with an error that names the
/// directory of the other.
#[test]
fn directory_belongs_to_one_process() {
    let mut machine = Machine::new(Backend::start(GOOD, 1));
    let (_, first, _log) = machine.start();
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_secs(1));
        drop(first);
    });
    let (_, second, _log) = machine.start();
    killer.join().unwrap();
    let third = machine.command().1.output().unwrap();
    let error = String::from_utf8_lossy(&third.stderr);
    assert_eq!(third.status.code(), Some(78), "{error}");
    assert!(
        error.contains("data: another process uses it; give each a directory of its own"),
        "{error}"
    );
    drop(second);
    machine.settle();
    machine.assert_claimed_once();
}

/// Scenario: a run is killed before its first export, some times in a row.
/// Guarantee: the gaps follow one another.
#[test]
fn gaps_of_a_crash_loop_do_not_nest() {
    let mut machine = Machine::new(Backend::start(GOOD, 1));
    for _ in 0..4 {
        let (_, run, _log) = machine.start();
        thread::sleep(Duration::from_millis(300));
        drop(run);
    }
    machine.settle();
    let balance = machine.assert_claimed_once();
    assert!(balance.gaps > 2 * 4 * 300_000_000, "{balance}");
}

/// Scenario: one export is rejected; later ones are accepted, and the run is stopped.
/// Guarantee: its time is in its sums, and the next run's gap begins at its end.
#[test]
fn early_rejection_makes_no_gap_of_an_orderly_stop() {
    let mut machine = Machine::new(Backend::start(Habits { rejects: 100, ..GOOD }, 3));
    let (name, mut run, log) = machine.start();
    log.wait_for("export rejected");
    machine.backend.set(GOOD);
    machine.backend.wait_for_sums(&name);
    send(run.0.id(), SIGTERM).unwrap();
    assert_eq!(wait(&mut run.0), Some(0));
    let stopped = machine.backend.claimed().values().map(|times| times[0].1).collect::<Vec<_>>();
    machine.settle();
    machine.assert_claimed_once();
    let accepted = machine.backend.accepted.lock().unwrap();
    for (_, _, end, length) in &accepted.gaps {
        let from = end - length;
        assert!(stopped.iter().any(|it| (it - from).abs() < TOLERANCE), "{stopped:?} {from}");
    }
}

/// Scenario: the wall clock is set back by an hour between two runs.
/// Guarantee: the gap has its true length, and the step is in the log.
#[test]
fn wall_clock_behind_an_earlier_run_is_reported() {
    let mut machine = Machine::new(Backend::start(GOOD, 4));
    let (name, run, _log) = machine.start();
    machine.backend.wait_for_sums(&name);
    drop(run);
    machine.set_clock(-3_600);
    let (_, mut run, log) = machine.start();
    send(run.0.id(), SIGTERM).unwrap();
    assert_eq!(wait(&mut run.0), Some(0));
    let log = log.rest();
    assert!(log.contains("system clock set back by 3600.") || log.contains("by 3599."), "{log}");
    machine.settle();
    machine.assert_claimed_once();
}

/// Scenario: the file of claims is empty or torn, as a crash of the machine can leave it, or of a time that has not
/// come.
/// Guarantee: the run starts, states what it does not know, and keeps the file under another name.
#[test]
fn damaged_claims_are_kept_aside_and_reported() {
    let mut machine = Machine::new(Backend::start(GOOD, 5));
    let (name, run, _log) = machine.start();
    machine.backend.wait_for_sums(&name);
    drop(run);
    let whole = std::fs::read(machine.claims()).unwrap();
    let damage = "damaged, or of another version";
    let future = br#"{"schema":"phasemeter.claims/0.2","boot_id":null,"began":null,"claimed_until":
        {"GPU-a":{"wall":"2099-01-01T00:00:00Z","since_boot_nanos":null}}}"#;
    for (damaged, problem) in [
        (&b""[..], damage),
        (&whole[..whole.len() / 2], damage),
        (b"{}", damage),
        (future, "has times up to 2099-01-01T00:00:00Z, ahead of this machine's clock"),
    ] {
        std::fs::write(machine.claims(), damaged).unwrap();
        let (_, mut command) = machine.command();
        let (mut run, _log) = crate::run::started_at(problem, &mut command);
        send(run.0.id(), SIGTERM).unwrap();
        assert_eq!(wait(&mut run.0), Some(0));
        let aside = beside(&machine.claims(), ".unreadable");
        assert_eq!(std::fs::read(aside).unwrap(), damaged);
    }
    let received = machine.backend.mock.received();
    let logs = received.iter().filter(|request| request.path.contains("logs"));
    let groups = logs.flat_map(|it| decode::<ExportLogsServiceRequest>(it).resource_logs);
    let records = groups.flat_map(|group| group.scope_logs).flat_map(|scope| scope.log_records);
    let unknown = records.filter(|it| it.event_name == "phasemeter.gpu.metering_started");
    assert_eq!(unknown.count(), 4 * 2);
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(extension);
    name.into()
}
