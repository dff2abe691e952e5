//! Any bytes as the journal of a run, and as an entry in it.

use std::iter;

use phasemeter_journal::changes;
use phasemeter_outbox::{JOURNAL, Journal};

use super::outbox::MemoryDisk;

/// A journal is read and goes on, or is damaged and not changed. An entry is damaged, or has what changed a run.
pub(crate) fn journal(bytes: &[u8]) {
    changes(iter::once(bytes)).for_each(drop);
    let disk = MemoryDisk::default();
    disk.add(JOURNAL, bytes);
    let before = disk.files();
    let Ok((mut journal, entries)) = Journal::open(disk.clone()) else {
        assert_eq!(disk.files(), before, "nothing is changed");
        return;
    };
    assert!(entries.iter().map(<[u8]>::len).sum::<usize>() <= bytes.len());
    changes(entries.iter()).for_each(drop);
    journal.append(b"next").unwrap();
    journal.sync().unwrap();
    let (_, again) = Journal::open(disk).unwrap();
    assert!(again.iter().eq(entries.iter().chain([&b"next"[..]])));
}
