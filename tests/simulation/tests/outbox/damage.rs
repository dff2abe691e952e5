//! Files that are cut off, zeroed or changed while no process runs.

use phasemeter_outbox::{Outbox, Reason, Stream};
use phasemeter_simulation::{Rng, SimulatedDisk};

use crate::backend::request;
use crate::world::UNLIMITED;

/// Damage never keeps an outbox from opening, nothing that was changed is returned, and what is missing of
/// what a checkpoint had noted is counted.
#[test]
fn damage_costs_what_it_hits_and_is_counted() {
    let mut damaged = 0;
    for seed in 0..500 {
        let mut rng = Rng(seed);
        let disk = SimulatedDisk::new(Rng(rng.number()), None);
        let mut outbox = Outbox::open(disk.clone(), UNLIMITED).unwrap();
        let count = 1 + rng.below(60);
        for id in 1..=count {
            outbox.append(Stream::ALL[1], 1, &request(id), id).unwrap();
        }
        outbox.commit().unwrap();
        let settled = rng.below(count);
        (1..=settled).for_each(|sequence| outbox.settle(Stream::ALL[1], sequence));
        outbox.checkpoint(count).unwrap();
        drop(outbox);
        let before = disk.files();
        (0..=rng.below(3)).for_each(|_| damaged += u64::from(disk.damage()));
        let is_head_lost = disk.head_is_damaged(&before);

        let mut outbox = Outbox::open(disk.clone(), UNLIMITED)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let pending: Vec<_> = outbox.pending(Stream::ALL[1]).collect();
        for it in &pending {
            let read = outbox.read(Stream::ALL[1], it.sequence);
            assert_eq!(read.unwrap(), request(it.sequence), "seed {seed}");
        }
        let counted = outbox.losses().of(Stream::ALL[1], Reason::Unreadable);
        if !is_head_lost {
            let expected = count - settled;
            assert_eq!(pending.len() as u64 + counted, expected, "seed {seed}");
        }
        // It is counted once, and numbers go on.
        outbox.checkpoint(count).unwrap();
        let sequence = outbox.append(Stream::ALL[1], 1, &request(count + 1), count).unwrap();
        outbox.commit().unwrap();
        assert!(pending.iter().all(|it| it.sequence < sequence), "seed {seed}");
        drop(outbox);
        let outbox = Outbox::open(disk, UNLIMITED).unwrap();
        assert_eq!(outbox.losses().of(Stream::ALL[1], Reason::Unreadable), counted, "seed {seed}");
        assert_eq!(outbox.pending(Stream::ALL[1]).count(), pending.len() + 1, "seed {seed}");
    }
    assert!(damaged > 500);
}
