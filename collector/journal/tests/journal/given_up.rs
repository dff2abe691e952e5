//! Journals that are given up while the run goes on.

use std::time::Duration;

use phasemeter_engine::pipeline::{Change, Pipeline};
use phasemeter_engine::pricing::PriceOptions;
use phasemeter_journal::{Gate, Left, RunJournal, VERSION, Writing};
use phasemeter_outbox::DataDirectory;

use crate::damage::{LABEL, STEPS, begin, now, step};
use crate::run::{Requests, at, identities, run};

/// A run with a journal, and what writes it if it has a turn.
fn begun(data: &DataDirectory) -> (Pipeline<'static>, Requests, RunJournal, Writing) {
    let gate = Gate::new(0);
    let (mut pipeline, left) = run(Some(&gate));
    let mut writing = None;
    let keep = |started| {
        writing = Some(started);
        Ok(())
    };
    let begin = begin(VERSION);
    let clock = begin.clock.clone();
    let writer = RunJournal::create(data, LABEL, begin, keep).unwrap();
    pipeline.keep_changes();
    identities().iter().for_each(|gpu| pipeline.add(gpu, at(0)));
    (pipeline, left, RunJournal::new(writer, gate, clock), writing.unwrap())
}

/// Scenario: prices are read again, which no journal keeps, and the disk is slow.
/// Guarantee: what is exported from then on waits until the journal is removed, or the run could be continued without it; then
/// all leaves, and changes are kept no longer.
#[test]
fn nothing_leaves_before_a_journal_that_is_given_up_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let data = DataDirectory::open(home.path(), false).unwrap();
    let (mut pipeline, left, mut journal, mut writing) = begun(&data);
    let gpus = identities();
    for number in 0..STEPS {
        if number == 4 {
            pipeline.change_prices(&PriceOptions::default(), None, at(2_000));
        }
        let end = step(&mut pipeline, &gpus, number);
        journal = journal.step(&mut pipeline, at(end)).unwrap().unwrap();
    }
    assert!(left.borrow().is_empty());
    while writing.turn(Duration::ZERO).is_some() {
        assert!(left.borrow().is_empty());
    }
    drop(writing);
    assert!(Left::find(&data, LABEL, now()).unwrap().is_none(), "it is removed");
    assert!(journal.step(&mut pipeline, at(40_000)).unwrap().is_none());
    assert!(!left.borrow().is_empty());
    step(&mut pipeline, &gpus, STEPS);
    assert_eq!(pipeline.take_changes().unwrap(), Vec::<Change>::new());
}

/// Scenario: the disk hangs.
/// Guarantee: what is exported waits for two minutes at most.
#[test]
fn disk_that_hangs_is_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let data = DataDirectory::open(home.path(), false).unwrap();
    let (mut pipeline, left, journal, _writing) = begun(&data);
    let (gpus, mut journal) = (identities(), Some(journal));
    let mut steps = 0;
    while let Some(waits) = journal {
        assert!(left.borrow().is_empty());
        let end = step(&mut pipeline, &gpus, steps);
        journal = waits.step(&mut pipeline, at(end)).unwrap();
        steps += 1;
    }
    assert!(!left.borrow().is_empty());
    assert!(steps <= 240, "{steps}");
    step(&mut pipeline, &gpus, steps);
    assert_eq!(pipeline.take_changes().unwrap(), Vec::<Change>::new());
}
