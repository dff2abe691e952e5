//! A simulation of delivery, on one thread: a producer, the outbox and a sender on a disk that loses what was
//! not synced, a network that loses requests and responses, and a clock. Everything follows from a seed.
//!
//! `SEED=7 cargo test -p phasemeter-simulation --test outbox` repeats one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is a failure")]

mod backend;
mod damage;
mod journal;
mod newest;
mod world;

use phasemeter_simulation::DiskBug;

use self::world::{LIMITED, UNLIMITED, World};

const SEEDS: u64 = 1_000;
pub(crate) const CRASHES: u64 = 10;

/// Errors that a log of this kind can have. Each is planted in the disk or in a step of the protocol, and must
/// be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    Disk(DiskBug),
    /// A second attempt sends other bytes.
    ChangedResend,
}

/// Every fourth seed reaches the limits.
fn run(seed: u64, bug: Option<Bug>) -> Result<World, String> {
    let limits = if seed % 4 == 3 { LIMITED } else { UNLIMITED };
    let mut world = World::new(seed, bug, limits);
    world.run(CRASHES)?;
    Ok(world)
}

pub(crate) fn seeds() -> std::ops::Range<u64> {
    match std::env::var("SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..SEEDS,
    }
}

/// Whatever write, sync, rename or send a crash hits, every request whose storing was confirmed arrives, was
/// rejected by the backend, or is counted as lost; in order, and never changed.
#[test]
fn every_stored_request_arrives_or_is_counted() {
    let (mut crashes, mut operations, mut arrived, mut twice, mut lost) = (0, 0, 0, 0, 0);
    for seed in seeds() {
        let world = run(seed, None).unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
        crashes += world.crashes;
        operations += world.operations();
        arrived += world.arrived().0;
        twice += world.arrived().1;
        lost += world.losses().total();
    }
    println!(
        "{crashes} crashes in {operations} operations of the disk: {arrived} requests arrived, {twice} of \
         them more than once, {lost} were counted as lost"
    );
    assert!(crashes >= CRASHES && arrived > 0);
    assert!(seeds().count() == 1 || (twice > 0 && lost > 0), "the simulation reaches these states");
}

#[test]
fn planted_bugs_are_found() {
    for bug in [
        Bug::Disk(DiskBug::AcknowledgeBeforeSync),
        Bug::Disk(DiskBug::NoDirectorySync),
        Bug::Disk(DiskBug::UnlinkBeforeHead),
        Bug::Disk(DiskBug::SequenceReuse),
        Bug::ChangedResend,
    ] {
        let found = (0..SEEDS).find_map(|seed| Some((seed, run(seed, Some(bug)).err()?)));
        let (seed, error) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?}: seed {seed}: {error}");
        assert_eq!(run(seed, Some(bug)).err(), Some(error), "a seed repeats");
    }
}
