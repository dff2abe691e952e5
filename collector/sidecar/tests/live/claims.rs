//! Runs that are killed and started again, with a backend that rejects: which time of the GPUs the backend
//! has, in sums and in gaps. Nothing here depends on how a run keeps its state.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use http::StatusCode;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use phasemeter_process::send;
use tempfile::TempDir;

use crate::mock_backend::{MockBackend, ReceivedRequest, Reply};
use crate::prng::Prng;
use crate::run::{Log, NO_POLICIES, Running, phasemeter, started};
use crate::signals::wait;
use crate::telemetry::decode;
use crate::wall_clock::WallClock;
use crate::{Rig, TIMEOUT};

const SIGTERM: i32 = 15;

/// Clocks of one machine differ by less, and an export is much longer.
const TOLERANCE: i64 = 20_000_000;

/// What a backend has accepted.
#[derive(Debug, Default)]
struct Accepted {
    /// Bodies. A request that is sent again has the same one.
    bodies: BTreeSet<Vec<u8>>,
    /// Of each process and GPU: the start of its sums of time, and the largest, in nanoseconds.
    sums: BTreeMap<(String, String), (i64, i64)>,
    /// Of each process and GPU: the ends of gaps and their lengths.
    gaps: BTreeSet<(String, String, i64, i64)>,
    rejections: u32,
}

impl Accepted {
    fn add(&mut self, request: &ReceivedRequest) {
        if !self.bodies.insert(request.body.to_vec()) {
            return;
        }
        if request.path.contains("metrics") {
            self.add_sums(&decode(request));
        } else if request.path.contains("logs") {
            self.add_gaps(&decode(request));
        }
    }

    /// The sums of one request over all phases.
    fn add_sums(&mut self, request: &ExportMetricsServiceRequest) {
        let mut sums = BTreeMap::<_, (i64, i64)>::new();
        for group in &request.resource_metrics {
            let resource = group.resource.as_ref().map(|it| it.attributes.as_slice());
            let process = text(resource.unwrap_or_default(), "phasemeter.experiment.id");
            let metrics = group.scope_metrics.iter().flat_map(|scope| &scope.metrics);
            for metric in metrics.filter(|metric| metric.name == "phasemeter.gpu.time") {
                let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
                for point in &sum.data_points {
                    let Some(Value::AsDouble(seconds)) = point.value else { panic!("{point:?}") };
                    let gpu = text(&point.attributes, "hw.id");
                    let total = sums.entry((process.clone(), gpu)).or_default();
                    total.0 = i64::try_from(point.start_time_unix_nano).unwrap();
                    total.1 += nanos(seconds);
                }
            }
        }
        for (stream, (start, total)) in sums {
            let known = self.sums.entry(stream).or_insert((start, total));
            known.1 = known.1.max(total);
        }
    }

    fn add_gaps(&mut self, request: &ExportLogsServiceRequest) {
        let scopes = request.resource_logs.iter().flat_map(|it| &it.scope_logs);
        let records = scopes.flat_map(|scope| &scope.log_records);
        for record in records.filter(|record| record.event_name == "phasemeter.gpu.gap.found") {
            let of = |key| text(&record.attributes, key);
            let length = nanos(of("phasemeter.gpu.gap.duration").parse().unwrap());
            let end = i64::try_from(record.time_unix_nano).unwrap();
            self.gaps.insert((of("phasemeter.experiment.id"), of("hw.id"), end, length));
        }
    }

    /// The claimed time of each GPU in order. The name of a process ends with the offset of its wall clock
    /// in seconds.
    fn claimed(&self) -> BTreeMap<String, Vec<(i64, i64)>> {
        let mut claimed = BTreeMap::<_, Vec<_>>::new();
        let offset = |process: &str| -> i64 {
            let (_, seconds) = process.rsplit_once('@').unwrap();
            seconds.parse::<i64>().unwrap() * 1_000_000_000
        };
        for ((process, gpu), (start, total)) in &self.sums {
            let start = start - offset(process);
            claimed.entry(gpu.clone()).or_default().push((start, start + total));
        }
        for (process, gpu, end, length) in &self.gaps {
            let end = end - offset(process);
            claimed.entry(gpu.clone()).or_default().push((end - length, end));
        }
        claimed.values_mut().for_each(|times| times.sort_unstable());
        claimed
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a test is short")]
fn nanos(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}

/// An attribute as text; empty if there is none.
fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|it| it.value.as_ref()?.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::DoubleValue(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// What a backend answers, by how often of a hundred.
#[derive(Clone, Copy)]
struct Habits {
    /// It rejects.
    rejects: u64,
    /// It is not available.
    is_down: u64,
    /// It accepts, but its answer is lost.
    is_silent: u64,
}

const GOOD: Habits = Habits { rejects: 0, is_down: 0, is_silent: 0 };

/// A backend that records what it has accepted. It rejects nothing that it has.
struct Backend {
    mock: MockBackend,
    accepted: Arc<Mutex<Accepted>>,
    habits: Arc<Mutex<Habits>>,
}

impl Backend {
    fn start(habits: Habits, seed: u64) -> Self {
        let accepted = Arc::<Mutex<Accepted>>::default();
        let habits = Arc::new(Mutex::new(habits));
        let (shared, current) = (Arc::clone(&accepted), Arc::clone(&habits));
        let mut random = Prng(seed);
        let mock = MockBackend::deciding(move |request| {
            let mut accepted = shared.lock().unwrap();
            let has_it = accepted.bodies.contains(&*request.body);
            let Habits { rejects, is_down, is_silent } = *current.lock().unwrap();
            match random.below(100) {
                draw if draw < rejects && !has_it => {
                    accepted.rejections += 1;
                    rejection(&mut random)
                }
                draw if (rejects..rejects + is_down).contains(&draw) => {
                    Reply::Http(StatusCode::SERVICE_UNAVAILABLE, Some("1"), "")
                }
                draw if (rejects + is_down..rejects + is_down + is_silent).contains(&draw) => {
                    accepted.add(request);
                    Reply::NoResponse
                }
                _ => {
                    accepted.add(request);
                    Reply::Accept
                }
            }
        });
        Self { mock, accepted, habits }
    }

    fn claimed(&self) -> BTreeMap<String, Vec<(i64, i64)>> {
        self.accepted.lock().unwrap().claimed()
    }

    fn set(&self, habits: Habits) {
        *self.habits.lock().unwrap() = habits;
    }

    /// Waits until it has accepted something of this process.
    fn wait_for_sums(&self, process: &str) {
        let began = Instant::now();
        let has_any = || self.accepted.lock().unwrap().sums.keys().any(|(it, _)| it == process);
        while !has_any() {
            assert!(began.elapsed() < TIMEOUT, "{process}: {:?}", self.claimed());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Everything but a success of OTLP for all items.
fn rejection(random: &mut Prng) -> Reply {
    let http = |code| Reply::Http(StatusCode::from_u16(code).unwrap(), None, "no");
    match random.below(6) {
        0 => http(400),
        1 => http(401),
        2 => http(413),
        3 => Reply::Partial(1_000_000, "all"),
        4 => Reply::Partial(1, "one"),
        _ => Reply::Http(StatusCode::OK, None, "<html>log in</html>"),
    }
}

/// A machine on which a run is started again and again.
struct Machine {
    rig: Rig,
    dir: TempDir,
    clock: WallClock,
    /// The offset of its wall clock in seconds.
    offset: i64,
    backend: Backend,
    processes: u32,
}

impl Machine {
    fn new(backend: Backend) -> Self {
        let gpu = "[[device]]\n[[device.phase]]\nutilization = 50\n";
        let rig = Rig::new(&gpu.repeat(2));
        let (dir, clock) = (tempfile::tempdir().unwrap(), WallClock::new());
        Self { rig, dir, clock, offset: 0, backend, processes: 0 }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state.json")
    }

    fn set_clock(&mut self, offset: i64) {
        self.offset = offset;
        self.clock.set(offset);
    }

    /// The name of the next process, and its command.
    fn command(&mut self) -> (String, Command) {
        self.processes += 1;
        let name = format!("{}@{}", self.processes, self.offset);
        let state = self.state();
        let arguments = format!("{NO_POLICIES} --state {}", state.display());
        let mut command = phasemeter(&self.rig, &arguments);
        command.env("OTEL_RESOURCE_ATTRIBUTES", format!("phasemeter.experiment.id={name}"));
        let endpoint = format!("http://{}", self.backend.mock.address);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
        command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "1000");
        command.env("OTEL_SDK_DISABLED", "true");
        self.clock.apply(&mut command);
        (name, command)
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
    let habits = Habits { rejects: 25, is_down: 10, is_silent: 5 };
    let mut machine = Machine::new(Backend::start(habits, seed + 1));
    let (began, mut kills, mut stops, mut steps) = (Instant::now(), 0, 0, 0);
    while began.elapsed() < length {
        let (_, mut run, _log) = machine.start();
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
        }
        thread::sleep(Duration::from_millis(random.below(1_500)));
        if clock_steps && random.below(2) == 0 {
            machine.set_clock(i64::try_from(random.below(7_200)).unwrap() - 3_600);
            steps += 1;
        }
    }
    machine.settle();
    let balance = machine.assert_claimed_once();
    let rejections = machine.backend.accepted.lock().unwrap().rejections;
    println!(
        "{} processes, {kills} kills, {stops} stops, {rejections} rejections, {steps} steps of the clock\n{balance}",
        machine.processes
    );
}

/// Scenario: runs are killed and stopped at random; the backend rejects in every way, is down, or accepts
/// without an answer.
/// Guarantee: in the end the backend has each second of each GPU once, in a sum or in a gap.
#[test]
fn every_second_is_claimed_once_over_kills_and_rejections() {
    claim_at_random(7, Duration::from_secs(45), true);
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

/// Scenario: the backend rejects all of a run, which is killed; the next one is accepted.
/// Guarantee: the time of the first is claimed, too.
#[test]
fn time_that_was_rejected_is_claimed_after_a_restart() {
    let mut machine = Machine::new(Backend::start(Habits { rejects: 100, ..GOOD }, 2));
    let (_, run, log) = machine.start();
    log.wait_for("export rejected");
    thread::sleep(Duration::from_secs(2));
    drop(run);
    assert!(machine.backend.claimed().is_empty());
    machine.settle();
    let balance = machine.assert_claimed_once();
    assert!(balance.span > 2 * 4_000_000_000, "{balance}");
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

/// Scenario: the file of the state is empty or torn, as a crash of the machine can leave it, or of a time that has not
/// come.
/// Guarantee: the run starts, states what it does not know, and keeps the file under another name.
#[test]
fn damaged_state_is_kept_aside_and_reported() {
    let mut machine = Machine::new(Backend::start(GOOD, 5));
    let (name, run, _log) = machine.start();
    machine.backend.wait_for_sums(&name);
    drop(run);
    let whole = std::fs::read(machine.state()).unwrap();
    let damage = "not a file of --state, or damaged";
    let future = br#"{"schema":"phasemeter.claims/0.1","boot_id":null,"began":null,"claimed_until":
        {"GPU-a":{"wall":"2099-01-01T00:00:00Z","since_boot_nanos":null}},"unaccepted":[]}"#;
    for (damaged, problem) in [
        (&b""[..], damage),
        (&whole[..whole.len() / 2], damage),
        (b"{}", damage),
        (future, "has times up to 2099-01-01T00:00:00Z, ahead of this machine's clock"),
    ] {
        std::fs::write(machine.state(), damaged).unwrap();
        let (_, mut command) = machine.command();
        let (mut run, log) = crate::run::started_at(problem, &mut command);
        log.wait_for("metering ");
        send(run.0.id(), SIGTERM).unwrap();
        assert_eq!(wait(&mut run.0), Some(0));
        let aside = beside(&machine.state(), ".unreadable");
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
