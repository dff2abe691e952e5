//! Any bytes as the head and a segment of an outbox.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use phasemeter_outbox::{Disk, Limits, Outbox, Records, Stream};

/// Bytes of the head.
const HEAD_BYTES: usize = 1024;
/// The first segment of the first stream.
const SEGMENT: &str = "0-0000000000000001.log";

/// Files in memory. Clones are the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryDisk(Rc<RefCell<BTreeMap<String, Vec<u8>>>>);

impl MemoryDisk {
    pub(super) fn add(&self, name: &str, bytes: &[u8]) {
        self.0.borrow_mut().insert(name.to_owned(), bytes.to_vec());
    }

    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.borrow().clone()
    }
}

impl Disk for MemoryDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.borrow().keys().cloned().collect())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.0.borrow().get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read_at(&self, name: &str, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let (bytes, start) = (self.read(name)?, usize::try_from(offset).unwrap());
        let part = bytes.get(start..start.saturating_add(length));
        part.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let before = self.0.borrow_mut().insert(name.to_owned(), Vec::new());
        before.map_or(Ok(()), |_| Err(io::ErrorKind::AlreadyExists.into()))
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.0.borrow_mut();
        let file = files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        let start = usize::try_from(offset).unwrap();
        file.resize(file.len().max(start + bytes.len()), 0);
        file[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.0.borrow_mut().remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.0.borrow_mut().insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.0.borrow_mut().remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Records are read in order, each as it was written; an outbox opens or names a newer version, what is
/// pending can be read, and it goes on.
pub(crate) fn outbox(bytes: &[u8]) {
    let salt = u32::from(bytes.first().copied().unwrap_or_default());
    let mut end = 0;
    for (offset, record) in Records::new(bytes, salt) {
        assert!(offset >= end, "records do not overlap");
        let encoded = record.encode(salt).unwrap();
        end = offset + encoded.len();
        assert_eq!(encoded, bytes[offset..end]);
    }
    let (head, segment) = bytes.split_at(bytes.len().min(HEAD_BYTES));
    let disk = MemoryDisk::default();
    disk.add("head", head);
    disk.add(SEGMENT, segment);
    let before = disk.files();
    let Ok(mut outbox) = Outbox::open(disk.clone(), Limits::default()) else {
        assert_eq!(disk.files(), before, "nothing is changed");
        return;
    };
    let stream = Stream::ALL[0];
    let pending: Vec<_> = outbox.pending(stream).collect();
    pending.iter().for_each(|it| drop(outbox.read(stream, it.sequence).unwrap()));
    if let Ok(sequence) = outbox.append(stream, 1, b"request", 0) {
        outbox.commit().unwrap();
        assert!(pending.iter().all(|it| it.sequence < sequence));
        assert_eq!(outbox.read(stream, sequence).unwrap(), b"request");
    }
    pending.iter().for_each(|it| outbox.settle(stream, it.sequence));
    outbox.checkpoint(0).unwrap();
}
