//! A producer, an outbox and a sender over a disk, a network and a clock that fail as the seed says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use phasemeter_outbox::{Limits, Losses, Outbox, ReadError, Reason, Stream};
use phasemeter_simulation::{Rng, SimulatedDisk};

use crate::Bug;
use crate::backend::{Backend, request};

const SECOND: u64 = 1_000_000_000;

/// A request that waits to be sent.
#[derive(Clone, Debug)]
enum Waiting {
    /// By its number in the outbox.
    Stored(u64),
    /// The disk refused it: its id.
    InMemory(u64),
}

/// What ended the process.
pub(crate) struct Crash;

/// The state of one seed.
pub(crate) struct World {
    rng: Rng,
    disk: SimulatedDisk,
    limits: Limits,
    bug: Option<Bug>,
    outbox: Option<Outbox<SimulatedDisk>>,
    backend: Backend,
    waiting: [VecDeque<Waiting>; Stream::COUNT],
    /// Requests whose commit returned, by stream and number in the outbox.
    promised: [BTreeMap<u64, u64>; Stream::COUNT],
    /// Requests that the backend rejected for good, or in part.
    rejected: [BTreeSet<u64>; Stream::COUNT],
    attempts: BTreeMap<u64, u64>,
    next_id: u64,
    now: u64,
    pub(crate) crashes: u64,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, limits: Limits) -> Self {
        let mut rng = Rng(seed);
        let planted = match bug {
            Some(Bug::Disk(bug)) => Some(bug),
            _ => None,
        };
        let disk = SimulatedDisk::new(Rng(rng.number()), planted);
        Self {
            rng,
            disk,
            limits,
            bug,
            outbox: None,
            backend: Backend::default(),
            waiting: Default::default(),
            promised: Default::default(),
            rejected: Default::default(),
            attempts: BTreeMap::new(),
            next_id: 1,
            now: 1_000 * SECOND,
            crashes: 0,
        }
    }

    /// Runs with this many crashes, then delivers all and checks it.
    pub(crate) fn run(&mut self, crashes: u64) -> Result<(), String> {
        for _ in 0..crashes {
            let operations = 1 + self.rng.below(60);
            self.disk.machine.cut_after(operations);
            self.live()?;
            self.end();
        }
        self.disk.machine.kill();
        self.disk.machine.set_faults(false, 0);
        if self.open().is_err() {
            return Err("the outbox does not open".to_owned());
        }
        for stream in Stream::ALL {
            while !self.waiting[stream.index()].is_empty() {
                // Here a crash is a lost response.
                let _ = self.send(stream, true)?;
            }
        }
        self.checkpoint();
        self.check()
    }

    /// Cuts the power, or kills the process only.
    fn end(&mut self) {
        self.crashes += 1;
        self.outbox = None;
        self.waiting = Default::default();
        if self.rng.percent(70) {
            self.disk.machine.lose_power();
        } else {
            self.disk.machine.kill();
        }
    }

    pub(crate) fn open(&mut self) -> Result<(), Crash> {
        self.disk.machine.set_opening(true);
        let opened = Outbox::open(self.disk.clone(), self.limits);
        self.disk.machine.set_opening(false);
        let outbox = opened.map_err(|_| Crash)?;
        for stream in Stream::ALL {
            let stored = outbox.pending(stream).map(|it| Waiting::Stored(it.sequence));
            self.waiting[stream.index()] = stored.collect();
        }
        self.outbox = Some(outbox);
        Ok(())
    }

    /// Until the power fails.
    fn live(&mut self) -> Result<(), String> {
        if self.open().is_err() {
            return Ok(());
        }
        let (is_full, failing) = (self.rng.percent(5), if self.rng.percent(5) { 20 } else { 0 });
        self.disk.machine.set_faults(is_full, failing);
        let backend_is_up = self.rng.percent(70);
        for _ in 0..200 {
            if self.disk.machine.is_off() {
                break;
            }
            self.now += self.rng.below(2 * SECOND);
            match self.rng.below(10) {
                0..=3 => self.produce()?,
                4..=7 => {
                    let stream = Stream::ALL[self.rng.index(Stream::COUNT)];
                    if self.send(stream, backend_is_up)?.is_err() {
                        break;
                    }
                }
                8 => self.checkpoint(),
                // The process is killed between two operations.
                _ if self.rng.percent(3) => break,
                _ => {}
            }
        }
        Ok(())
    }

    /// Stores some requests at once.
    fn produce(&mut self) -> Result<(), String> {
        let Some(outbox) = &mut self.outbox else { return Ok(()) };
        let mut batch = Vec::new();
        let mut failed = false;
        for _ in 0..=self.rng.below(3) {
            let (id, stream) = (self.next_id, Stream::ALL[self.rng.index(Stream::COUNT)]);
            self.next_id += 1;
            let stored = match failed {
                true => None,
                false => outbox.append(stream, 1, &request(id), self.now).ok(),
            };
            failed |= stored.is_none();
            batch.push((stream, id, stored));
        }
        failed = failed || outbox.commit().is_err();
        let dropped: BTreeSet<_> =
            outbox.take_dropped().iter().map(|loss| (loss.stream, loss.sequence)).collect();
        for (stream, id, stored) in batch {
            let waiting = match stored.filter(|_| !failed) {
                None => Waiting::InMemory(id),
                Some(sequence) => {
                    let before = self.promised[stream.index()].insert(sequence, id);
                    if let Some(before) = before {
                        return Err(format!("{stream:?} {sequence}: given to {before} and {id}"));
                    }
                    Waiting::Stored(sequence)
                }
            };
            self.waiting[stream.index()].push_back(waiting);
        }
        self.forget(&dropped);
        Ok(())
    }

    fn forget(&mut self, dropped: &BTreeSet<(Stream, u64)>) {
        for stream in Stream::ALL {
            self.waiting[stream.index()].retain(|waiting| match waiting {
                Waiting::Stored(sequence) => !dropped.contains(&(stream, *sequence)),
                Waiting::InMemory(_) => true,
            });
        }
    }

    /// Sends the oldest request of a stream. The inner error is a crash.
    fn send(&mut self, stream: Stream, is_up: bool) -> Result<Result<(), Crash>, String> {
        let Some(outbox) = &mut self.outbox else { return Ok(Ok(())) };
        let waiting = &mut self.waiting[stream.index()];
        let Some(oldest) = waiting.front().cloned() else { return Ok(Ok(())) };
        let mut bytes = match &oldest {
            Waiting::InMemory(id) => request(*id),
            Waiting::Stored(sequence) => match outbox.read(stream, *sequence) {
                Ok(bytes) => bytes,
                Err(ReadError::Gone) => return Err(format!("{stream:?} {sequence} is gone")),
                // The power is off.
                Err(ReadError::Disk(_)) => return Ok(Err(Crash)),
                Err(ReadError::Unreadable(_)) => {
                    outbox.lose(stream, *sequence, Reason::Unreadable);
                    waiting.pop_front();
                    return Ok(Ok(()));
                }
            },
        };
        let id = bytes.first_chunk().copied().map(u64::from_le_bytes).unwrap_or_default();
        let attempts = self.attempts.entry(id).or_default();
        *attempts += 1;
        if self.bug == Some(Bug::ChangedResend) && *attempts > 1 {
            bytes.push(0);
        }
        let network = self.rng.below(100);
        if !is_up || network < 10 {
            return Ok(Ok(()));
        }
        if Rng(id).percent(6) {
            // Each time anew.
            self.rejected[stream.index()].insert(id);
        } else {
            self.backend.receive(stream, &bytes)?;
        }
        // The response is lost, and perhaps the process with it.
        match network {
            90..=95 => return Ok(Ok(())),
            96..=97 => return Ok(Err(Crash)),
            _ => {}
        }
        waiting.pop_front();
        if let Waiting::Stored(sequence) = oldest {
            outbox.settle(stream, sequence);
        }
        Ok(Ok(()))
    }

    fn checkpoint(&mut self) {
        let Some(outbox) = &mut self.outbox else { return };
        // After an error it is tried again.
        let _ = outbox.checkpoint(self.now);
        let dropped: BTreeSet<_> =
            outbox.take_dropped().iter().map(|loss| (loss.stream, loss.sequence)).collect();
        self.forget(&dropped);
    }

    /// Every promised request arrived, was rejected, or is counted.
    fn check(&self) -> Result<(), String> {
        let losses = self.losses();
        for stream in Stream::ALL {
            let arrived = &self.backend.arrived[stream.index()];
            let is_missing = |id: &&u64| {
                !arrived.contains_key(id) && !self.rejected[stream.index()].contains(id)
            };
            let missing: Vec<u64> =
                self.promised[stream.index()].values().filter(is_missing).copied().collect();
            if missing.len() as u64 > losses.of_stream(stream) {
                let counted = losses.of_stream(stream);
                return Err(format!(
                    "{stream:?}: lost {missing:?}, of which {counted} are counted"
                ));
            }
            if losses.of(stream, Reason::Unreadable) > 0 {
                return Err(format!("{stream:?}: counted as unreadable on a disk that keeps all"));
            }
            if self.limits == UNLIMITED && losses.of_stream(stream) > 0 {
                return Err(format!("{stream:?}: counted losses without a limit"));
            }
        }
        Ok(())
    }

    pub(crate) fn losses(&self) -> Losses {
        self.outbox.as_ref().map(|outbox| *outbox.losses()).unwrap_or_default()
    }

    /// Requests that arrived, and those that arrived more than once.
    pub(crate) fn arrived(&self) -> (u64, u64) {
        let counts = self.backend.arrived.iter().flat_map(BTreeMap::values);
        counts.fold((0, 0), |(all, twice), count| (all + 1, twice + u64::from(*count > 1)))
    }

    pub(crate) fn operations(&self) -> u64 {
        self.disk.machine.operations()
    }
}

/// Small segments, and no limit that is reached.
pub(crate) const UNLIMITED: Limits = Limits {
    bytes: u64::MAX,
    requests: usize::MAX,
    age: Duration::from_secs(1 << 30),
    segment_bytes: 1_000,
};

/// Limits that are reached.
pub(crate) const LIMITED: Limits =
    Limits { bytes: 6_000, requests: 40, age: Duration::from_secs(60), segment_bytes: 1_000 };
