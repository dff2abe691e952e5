//! A backend that is down for long, and back.
//!
//! ```text
//! fake driver ─→ phasemeter run ─┬→ data directory ─→ front (down, then silent) ─→ otelcol ─→ file ─┐
//!                                └→ file ───────────────────────────────────────────────────────────┴─→ equal
//! ```
//!
//! Nothing is lost, the backlog arrives in order, and new data after it, since a backend may accept no point that is
//! older than the newest. Memory does not grow with the backlog.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::front::{Conduct, Front};
use super::points::{read, sums};
use super::{SCRIPT, TIMEOUT, UNDELIVERED, ask_to_end, flush_data, variable};
use crate::otelcol::Otelcol;
use crate::output::print;
use crate::run::Run;
use crate::soak::resources::resident;

/// Variable: the length of the outage in seconds.
const SECONDS: &str = "PHASEMETER_SOAK_SECONDS";
/// The time between looks at what has arrived.
const POLL: Duration = Duration::from_millis(200);
/// New data that is at most so much older than usual when it arrives does not wait for a backlog. A round is a second.
const CURRENT: Duration = Duration::from_secs(3);
/// How long the run goes on before the outage, and after it has caught up.
const REST: Duration = Duration::from_secs(10);
/// What memory may grow by in KiB: each stored request has a place in two tables.
const GROWTH: u64 = 8 << 10;

/// The file of a Collector, read as it grows.
struct Archive {
    file: File,
    /// The beginning of a line that has no end yet.
    rest: String,
    /// The times of rounds in the order of their arrival.
    rounds: Vec<u64>,
}

impl Archive {
    fn open(path: &Path) -> Self {
        Self { file: File::open(path).unwrap(), rest: String::new(), rounds: Vec::new() }
    }

    /// Reads what has arrived, and returns how old the newest round is.
    fn age(&mut self) -> Duration {
        self.file.read_to_string(&mut self.rest).unwrap();
        let end = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.rest.drain(..end).collect();
        let rounds = lines.lines().filter(|line| line.contains("phasemeter.gpu.time"));
        let time = |line: &str| {
            let times = line.split("\"timeUnixNano\":\"").skip(1);
            times.filter_map(|text| text.split('"').next()?.parse::<u64>().ok()).max()
        };
        self.rounds.extend(rounds.filter_map(time));
        let newest = Duration::from_nanos(self.rounds.last().copied().unwrap_or_default());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.saturating_sub(newest)
    }
}

/// Waits until new data is as old as usual. Returns how long that took from the first arrival on, and the number of
/// rounds meanwhile.
fn catch_up(archive: &mut Archive, usual: Duration) -> (Duration, usize) {
    let (mut progress, mut first) = (Instant::now(), None);
    let before = archive.rounds.len();
    let mut known = before;
    while archive.age() > usual + CURRENT {
        let rounds = archive.rounds.len();
        if rounds > known {
            (known, progress) = (rounds, Instant::now());
            first.get_or_insert(progress);
        }
        let (age, more) = (archive.age(), rounds - before);
        assert!(
            progress.elapsed() < TIMEOUT,
            "{more} rounds; new data is {age:?} old, before {usual:?}"
        );
        thread::sleep(POLL);
    }
    let took = first.map_or(Duration::ZERO, |first| first.elapsed());
    (took, archive.rounds.len() - before)
}

/// An outage of this length.
fn outlast(otelcol: &Otelcol, length: Duration) {
    let home = tempfile::tempdir().unwrap();
    let [arrived, sent, log] =
        ["collector.jsonl", "sent.jsonl", "log"].map(|it| home.path().join(it));
    let data = home.path().join("data");
    File::create(&arrived).unwrap();
    let collector = otelcol.start_again(None, &arrived);
    let front = Front::of(collector.http, None);
    let options = [
        "--data-dir",
        data.to_str().unwrap(),
        "--otlp-file",
        sent.to_str().unwrap(),
        "--basis",
        "nvml.gpu",
        "--fail-on-undelivered",
    ];
    let export = front.export();
    let mut run = Run::endless(SCRIPT, &options).log_to(&log);
    for (name, value) in export.clone() {
        run = run.env(name, &value);
    }
    let (mut child, _run) = run.env("OTEL_METRIC_EXPORT_INTERVAL", "1000").spawn();
    let mut archive = Archive::open(&arrived);
    let began = Instant::now();
    while archive.rounds.len() < 3 {
        archive.age();
        assert!(began.elapsed() < TIMEOUT, "nothing arrives");
        thread::sleep(POLL);
    }
    let watch = |archive: &mut Archive, length: Duration| {
        let (began, mut memory, mut age) = (Instant::now(), 0, Duration::ZERO);
        while began.elapsed() < length {
            memory = resident(child.id()).max(memory);
            age = archive.age().max(age);
            thread::sleep(POLL);
        }
        (memory, age)
    };
    // Policies are compiled at first, and their memory is given back.
    let (before, usual) = watch(&mut archive, REST);

    front.set(Conduct::Refuses);
    let (refused, _) = watch(&mut archive, length / 2);
    front.set(Conduct::IsSilent);
    let (silent, age) = watch(&mut archive, length / 2);
    assert!(age >= length, "it was down: {age:?}");
    front.set(Conduct::Forwards);
    let returned = Instant::now();
    let (took, rounds) = catch_up(&mut archive, usual);
    let caught_up = returned.elapsed();
    let (after, late) = watch(&mut archive, REST);

    let status = ask_to_end(&mut child);
    assert!(matches!(status, Some(0 | UNDELIVERED)), "{status:?}");
    flush_data(&data, export);
    collector.stop();
    let most = refused.max(silent).max(after);
    print(&format!(
        "an outage of {length:?}: {rounds} rounds arrived in {took:?} once the backend was found, {caught_up:?} after its \
         return; new data is at most {late:?} old from then on, {usual:?} before; memory {before} KiB before, {most} at most"
    ));
    let mut known = BTreeSet::new();
    archive.age();
    // What arrives twice is the same.
    let firsts: Vec<u64> = archive.rounds.into_iter().filter(|time| known.insert(*time)).collect();
    assert!(firsts.is_sorted(), "rounds arrive in order");
    let (arrived, expected) = (sums(&read(&arrived)), sums(&read(&sent)));
    assert!(arrived == expected, "{} points arrived, of {}", arrived.len(), expected.len());
    print(&format!("all {} points arrived", expected.len()));
    assert!(most < before + GROWTH, "{most} KiB, {before} before");
}

#[test]
fn half_a_minute_without_backend_costs_nothing() {
    let Some(otelcol) = Otelcol::find() else { return };
    outlast(&otelcol, Duration::from_secs(30));
}

/// The same for an hour.
#[test]
#[ignore = "takes an hour: make soak PARTS=outage"]
fn an_hour_without_backend_costs_nothing() {
    let Some(otelcol) = Otelcol::find() else { return };
    outlast(&otelcol, Duration::from_secs(variable(SECONDS, 3_600)));
}
