//! A journal on a disk that loses what was not synced.

use phasemeter_outbox::{Journal, JournalError};
use phasemeter_simulation::{Rng, SimulatedDisk};

/// Scenario: records are appended and synced, and the process is killed or the power lost within any operation, again and
/// again.
/// Guarantee: the next one reads what was appended, in order, unchanged, from the first on; all of it that was durable, and
/// all of it if the process was killed between two operations.
#[test]
fn journal_has_all_that_was_durable_in_order() {
    let (mut crashes, mut kept, mut lost) = (0, 0, 0);
    for seed in crate::seeds() {
        let mut rng = Rng(seed);
        let disk = SimulatedDisk::new(Rng(seed + 1), None);
        let mut appended: Vec<Vec<u8>> = Vec::new();
        let mut durable = 0;
        let mut journal = Journal::create(disk.clone()).unwrap();
        for _ in 0..crate::CRASHES {
            disk.machine.cut_after(rng.below(40));
            while !disk.machine.is_off() {
                let payload = vec![u8::try_from(rng.below(256)).unwrap(); rng.index(1_500)];
                let is_synced = rng.percent(30);
                if journal.append(&payload).is_ok() {
                    appended.push(payload);
                }
                if is_synced && journal.sync().is_ok() {
                    durable = appended.len();
                }
            }
            crashes += 1;
            match rng.percent(50) {
                true => disk.machine.kill(),
                false => disk.machine.lose_power(),
            }
            let (opened, read) =
                Journal::open(disk.clone()).unwrap_or_else(|error| panic!("SEED={seed}: {error}"));
            let read: Vec<_> = read.iter().map(<[u8]>::to_vec).collect();
            // One that failed may have been written.
            let common = read.iter().zip(&appended).take_while(|(one, other)| one == other).count();
            assert!(common >= durable, "SEED={seed}: {common} of {durable}");
            assert!(read.len() <= appended.len() + 1, "SEED={seed}");
            assert!(common == appended.len() || common == read.len(), "SEED={seed}: changed");
            (kept, lost) = (kept + read.len(), lost + appended.len() - common);
            (durable, appended, journal) = (read.len(), read, opened);
        }
    }
    println!("{crashes} crashes: {kept} records read, {lost} lost that were not durable");
    assert!(kept > 0 && (crate::seeds().count() == 1 || lost > 0));
}

/// Guarantee: damage is found, or costs only what no later record says was durable.
#[test]
fn damage_is_no_shorter_journal() {
    let (mut found, mut shorter) = (0, 0);
    for seed in crate::seeds() {
        let disk = SimulatedDisk::new(Rng(seed), None);
        let mut journal = Journal::create(disk.clone()).unwrap();
        for number in 0..20_u8 {
            journal.append(&[number; 100]).unwrap();
            journal.sync().unwrap();
        }
        assert!(disk.damage());
        match Journal::open(disk) {
            Err(JournalError::Damaged(_)) => found += 1,
            Err(JournalError::Disk(error)) => panic!("SEED={seed}: {error}"),
            Ok((_, read)) => {
                let whole = read.iter().zip(0..).all(|(payload, number)| payload == [number; 100]);
                assert!(whole, "SEED={seed}: changed");
                shorter += usize::from(read.len() < 20);
            }
        }
    }
    println!("{found} of {} found, {shorter} at the end", crate::seeds().count());
}
