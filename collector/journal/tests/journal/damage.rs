//! Journals of runs that were killed: whole, cut, changed, and of other runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use phasemeter_engine::pipeline::Pipeline;
use phasemeter_journal::{Begin, BootClock, Gate, Left, RunJournal, VERSION, Writing, changes};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::Request;
use phasemeter_outbox::DataDirectory;
use tempfile::TempDir;

use crate::run::{Event, at, earlier, happen, identities, run};

pub(crate) const LABEL: &str = "a run";

/// The steps of a run, each of so many ticks of 0.1 s. In the last one a round of metrics is complete: 30 s are exported
/// once 2 s more have passed.
pub(crate) const STEPS: u64 = 65;
const TICKS: u64 = 5;

/// The clock in a boot, so many seconds after it, if the run or the wall clock is at this time.
pub(crate) fn clock(boot: &str, seconds: u64, millis: u64) -> BootClock {
    let boot_id = Some(boot.to_owned());
    BootClock { boot_id, boot: Nanos::from_secs(seconds), at: at(millis) }
}

/// The clock of a process that is started 3 s after the run was killed.
pub(crate) fn now() -> BootClock {
    clock("a boot", 1_000 + 36, 36_000)
}

/// How one begins.
pub(crate) fn begin(version: &str) -> Begin {
    Begin {
        version: version.to_owned(),
        clock: clock("a boot", 1_000, 0),
        trace: [7; 16],
        first: at(0),
        billed_from: at(0),
        named: at(0),
        process: 1,
        earlier: earlier(),
    }
}

/// What happens in a step. Returns the time after it.
pub(crate) fn step(pipeline: &mut Pipeline<'_>, gpus: &[GpuIdentity], step: u64) -> u64 {
    let mut now = step * TICKS * 100;
    for tick in 0..TICKS {
        let used = u32::try_from((step * 7 + tick * 13) % 101).unwrap();
        now = happen(pipeline, gpus, now, Event::Readings([used, 100 - used]));
    }
    if step % 20 == 3 {
        happen(pipeline, gpus, now, Event::Results);
    }
    now
}

/// A run that was killed after its last step.
pub(crate) struct Killed {
    /// Its data directory as it was then.
    data: TempDir,
    /// What had left.
    pub(crate) left: Vec<Request>,
    /// What it cost after each step.
    bills: Vec<i128>,
    /// The length of its journal after each step.
    pub(crate) lengths: Vec<usize>,
    /// How many requests had left after each step.
    pub(crate) left_until: Vec<usize>,
    /// Held, or the journal would be removed.
    _journal: RunJournal,
    _original: TempDir,
}

pub(crate) fn killed(begin: Begin) -> Killed {
    let original = tempfile::tempdir().unwrap();
    let directory = DataDirectory::open(original.path(), false).unwrap();
    let gate = Gate::new(0);
    let (mut pipeline, left) = run(Some(&gate));
    let clock = begin.clock.clone();
    let writer = RunJournal::create(&directory, LABEL, begin, Writing::on_thread).unwrap();
    let mut journal = RunJournal::new(writer, gate, clock);
    pipeline.keep_changes();
    let gpus = identities();
    gpus.iter().for_each(|gpu| pipeline.add(gpu, at(0)));
    let (mut bills, mut lengths, mut left_until) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..STEPS {
        let now = step(&mut pipeline, &gpus, number);
        journal = journal.step(&mut pipeline, at(now)).unwrap().unwrap();
        while !journal.is_written() {
            thread::sleep(Duration::from_millis(1));
        }
        bills.push(pipeline.bill().0);
        left_until.push(left.borrow().len());
        lengths.push(fs::read(file(original.path())).unwrap().len());
    }
    let data = tempfile::tempdir().unwrap();
    copy(original.path(), data.path());
    let left = left.borrow().clone();
    Killed { data, left, bills, lengths, left_until, _journal: journal, _original: original }
}

/// The journal in a data directory with one.
fn file(data: &Path) -> PathBuf {
    let mut runs = fs::read_dir(data.join("journals")).unwrap();
    let run = runs.next().unwrap().unwrap().path();
    assert!(runs.next().is_none());
    run.join("journal")
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Goes on with a run whose journal was changed like this, through its remaining steps. Returns from which step on it went
/// on, and what has left then.
fn go_on(killed: &Killed, change: impl FnOnce(&mut Vec<u8>)) -> Option<(usize, Vec<Request>)> {
    go_on_at(killed, now(), change)
}

/// The same by a process that is started at this time.
pub(crate) fn go_on_at(
    killed: &Killed,
    now: BootClock,
    change: impl FnOnce(&mut Vec<u8>),
) -> Option<(usize, Vec<Request>)> {
    let data = tempfile::tempdir().unwrap();
    copy(killed.data.path(), data.path());
    let path = file(data.path());
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let directory = DataDirectory::open(data.path(), false).unwrap();
    let left = Left::find(&directory, LABEL, now).unwrap()?;
    let steps = left.until.since(at(0)).0 / (TICKS * 100_000_000);
    let gate = Gate::new(left.left);
    let (mut pipeline, requests) = run(Some(&gate));
    let (journal, gpus) = left.make_again(&mut pipeline, gate, Writing::on_thread).ok()?;
    assert!(!path.with_file_name("attempts").exists(), "it has succeeded");
    pipeline.keep_changes();
    let made = usize::try_from(steps).unwrap();
    assert_eq!(pipeline.bill().0, killed.bills[made - 1], "after {steps} steps");
    for number in steps..STEPS {
        step(&mut pipeline, &gpus, number);
    }
    journal.end(thread::sleep).unwrap();
    let requests = requests.borrow().clone();
    Some((made, requests))
}

/// What leaves a run that is not killed, and how much of it is made until each step.
pub(crate) fn expected() -> (Vec<Request>, Vec<usize>) {
    let (mut pipeline, requests) = run(None);
    let gpus = identities();
    gpus.iter().for_each(|gpu| pipeline.add(gpu, at(0)));
    let made = |number| {
        step(&mut pipeline, &gpus, number);
        requests.borrow().len()
    };
    let made = (0..STEPS).map(made).collect();
    let requests = requests.borrow().clone();
    (requests, made)
}

/// Both together are all that is expected, in order; what is in both is the same.
pub(crate) fn assert_complete(first: &[Request], then: &[Request], expected: &[Request]) {
    assert_eq!(first, &expected[..first.len()], "what has left is not what was expected");
    let (begins, is_end) = (expected.len().checked_sub(then.len()), expected.ends_with(then));
    assert!(is_end && begins.is_some_and(|begins| begins <= first.len()), "{begins:?}");
}

/// Guarantee: a run that was killed between two steps, or while it wrote the last one, goes on; nothing that it exports
/// is lost, and what leaves twice is the same.
#[test]
fn run_that_is_killed_within_a_write_goes_on() {
    let (killed, (expected, _)) = (killed(begin(VERSION)), expected());
    assert!(!killed.left.is_empty() && killed.left.len() < expected.len());
    let all = usize::try_from(STEPS).unwrap();
    let (from, then) = go_on(&killed, |_| {}).unwrap();
    assert_eq!(from, all);
    assert_complete(&killed.left, &then, &expected);
    let before = killed.lengths[all - 2];
    for cut in (before..killed.lengths[all - 1]).step_by(7) {
        let (from, then) = go_on(&killed, |bytes| bytes.truncate(cut)).unwrap();
        assert_eq!(from, all - 1, "cut at {cut}");
        assert_complete(&killed.left, &then, &expected);
    }
}

/// Guarantee: a journal that has lost or changed a step before the last one is not continued.
#[test]
fn damaged_journal_is_not_continued() {
    let killed = killed(begin(VERSION));
    let [.., last, end] = killed.lengths[..] else { panic!("no steps") };
    for place in (0..last).step_by(end / 150) {
        let flipped = go_on(&killed, |bytes| bytes[place] ^= 1 << (place % 8));
        assert!(flipped.is_none(), "flipped in byte {place}");
        let zeroed = go_on(&killed, |bytes| bytes[place..(place + 512).min(end)].fill(0));
        assert!(zeroed.is_none() || place + 512 > last, "zeroed from byte {place}");
        let removed = go_on(&killed, |bytes| _ = bytes.drain(place..last));
        assert!(removed.is_none(), "removed from byte {place}");
    }
    for place in last..end {
        let (from, _) = go_on(&killed, |bytes| bytes[place] ^= 1 << (place % 8)).unwrap();
        assert_eq!(from, killed.lengths.len() - 1);
    }
}

/// Guarantee: the journal of another version, of long ago, or of another run, is not continued, and one of a run that has
/// begun since is the only one that is.
#[test]
fn run_goes_on_from_the_newest_journal_of_its_own_alone() {
    assert!(go_on(&killed(begin("0.0.0")), |_| {}).is_none());
    let killed = killed(begin(VERSION));
    assert!(go_on_at(&killed, clock("a boot", 1_000 + 3_700, 0), |_| {}).is_none());
    let directory = DataDirectory::open(killed.data.path(), false).unwrap();
    assert!(Left::find(&directory, "another", now()).unwrap().is_none());
    assert!(Left::find(&directory, LABEL, now()).unwrap().is_some());
    let newer = RunJournal::create(&directory, LABEL, begin(VERSION), Writing::on_thread).unwrap();
    assert!(Left::find(&directory, LABEL, now()).unwrap().is_none(), "a newer one has begun");
    drop(newer);
    assert!(Left::find(&directory, LABEL, now()).unwrap().is_none(), "a newer one has ended");
}

/// Scenario: each process that goes on from a journal is killed meanwhile, for example since it needs too much memory.
/// Guarantee: the fourth one begins a new run.
#[test]
fn attempts_that_end_early_are_not_repeated_for_ever() {
    let killed = killed(begin(VERSION));
    let directory = DataDirectory::open(killed.data.path(), false).unwrap();
    for attempt in 1..=3 {
        assert!(Left::find(&directory, LABEL, now()).unwrap().is_some(), "attempt {attempt}");
    }
    assert!(Left::find(&directory, LABEL, now()).unwrap().is_none());
    RunJournal::create(&directory, LABEL, begin(VERSION), Writing::on_thread).unwrap();
    let runs = fs::read_dir(killed.data.path().join("journals")).unwrap();
    let attempts = runs.filter(|run| run.as_ref().unwrap().path().join("attempts").exists());
    assert_eq!(attempts.count(), 0, "nothing of it is left");
}

/// Guarantee: the fuzz target of journals begins with entries that are read.
#[test]
fn seeds_of_the_fuzz_target_are_read() {
    let step = include_bytes!("../../../../tests/fuzz/seeds/journal/step");
    let read: Vec<_> = changes([&step[..]].into_iter()).collect();
    assert!(read.len() == 1 && !read[0].is_empty(), "{read:?}");
}
