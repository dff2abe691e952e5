//! The agent's end of the socket: what it publishes, and one thread per connection, which answers from that.

mod answers;

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use phasemeter_meter::holder::{Container, Share};
use phasemeter_meter::reading::Reading;
use phasemeter_otlp::unix_socket::listen_privately;
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::Observed;

use self::answers::answer;
use super::protocol::{AgentAccount, AgentBilled, AgentGpu, AgentInterval, AgentReading};
use super::statement::{AgentStatement, GpuStatement};
use super::values;
use crate::pipeline::BilledTime;

/// Connections at once: two per pod of a node. Further ones are closed.
const MAX_CONNECTIONS: usize = 512;

/// The memory of the stack of a thread: it keeps little there.
const STACK: usize = 128 << 10;

/// Batches of readings that are kept for connections that are behind.
const MAX_BATCHES: usize = 8;

/// Intervals of one batch; more are dropped, and the newest reading counts instead.
const MAX_INTERVALS: usize = 4_096;

/// A GPU and who holds it, at this moment.
#[derive(Clone, Debug, Default)]
pub struct MeteredGpuState {
    /// The GPU, without grants.
    pub gpu: AgentGpu,
    /// The containers that hold it.
    pub holders: Vec<HolderState>,
    /// Whether others than containers hold it, too.
    pub is_shared: bool,
    /// Its accounts, if [any sidecar](AgentSocket::has_followers) has requested them.
    pub statement: Option<GpuStatement>,
}

/// A container that holds a GPU or a part of it.
#[derive(Clone, Debug, Default)]
pub struct HolderState {
    /// The container.
    pub container: Container,
    /// What it was granted.
    pub share: Option<Share>,
    /// Its accounts.
    pub accounts: Vec<AgentAccount>,
}

/// A listening socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct AgentSocket {
    path: PathBuf,
    board: Arc<Board>,
    clock: Clock,
    /// What was measured since the last publication.
    batch: Batch,
}

/// What was measured between two publications.
#[derive(Clone, Debug, Default)]
struct Batch {
    readings: Vec<AgentReading>,
    intervals: Vec<AgentInterval>,
}

/// What the threads share.
#[derive(Debug, Default)]
struct Board {
    published: Mutex<Published>,
    changed: Condvar,
    /// Open connections.
    open: AtomicUsize,
    /// Those on which readings are sent.
    readers: AtomicUsize,
    /// Those on which accounts are sent.
    followers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Published {
    /// `None` until the agent has learned who holds the GPUs.
    gpus: Option<Arc<Vec<MeteredGpuState>>>,
    /// The time that is billed.
    billed: Arc<Vec<AgentBilled>>,
    /// The accounts of all containers, if they are requested.
    statements: Arc<Vec<AgentStatement>>,
    /// The newest batches.
    batches: VecDeque<Arc<Batch>>,
    /// The number of batches so far.
    count: u64,
}

impl AgentSocket {
    /// Listens at `path`, where every user of this machine may connect. Each gets the GPUs of one pod: its own by
    /// control group, else the one that it states. The socket of an agent that has ended is replaced. `procfs` is that
    /// of this process's PID namespace, in which the kernel reports peers.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be created, or another agent listens there.
    pub fn listen(path: &Path, procfs: &Path, clock: Clock) -> io::Result<Self> {
        let created = listen_privately(path).or_else(|error| {
            let is_socket =
                fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
            if !is_socket || UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            fs::remove_file(path)?;
            listen_privately(path)
        });
        let listener = created?;
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        let board = Arc::<Board>::default();
        let socket = Self {
            path: path.to_owned(),
            board: Arc::clone(&board),
            clock,
            batch: Batch::default(),
        };
        let procfs = procfs.to_owned();
        let acceptor = thread::Builder::new().name("agent-socket".to_owned()).stack_size(STACK);
        acceptor.spawn(move || accept(&listener, &board, &procfs))?;
        Ok(socket)
    }

    /// Notes what was observed of a GPU, if it is to be sent to anyone.
    pub fn observe(&mut self, uuid: &str, observed: &Observed) {
        if self.board.readers.load(Ordering::Relaxed) == 0 {
            return;
        }
        match observed {
            Observed::Reading(reading) => self.add_reading(uuid, reading),
            Observed::Interval(interval) => {
                self.add_intervals([values::interval(uuid, interval, &self.clock)]);
            }
            Observed::Activity(activity) => {
                let intervals = activity.intervals();
                let clock = self.clock;
                self.add_intervals(intervals.map(|it| values::interval(uuid, &it, &clock)));
            }
            _ => {}
        }
    }

    /// Keeps the newest reading of a GPU.
    fn add_reading(&mut self, uuid: &str, reading: &Reading) {
        let reading = values::reading(uuid, reading, &self.clock);
        match self.batch.readings.iter_mut().find(|last| last.gpu == uuid) {
            Some(last) => *last = reading,
            None => self.batch.readings.push(reading),
        }
    }

    fn add_intervals(&mut self, intervals: impl IntoIterator<Item = AgentInterval>) {
        let left = MAX_INTERVALS.saturating_sub(self.batch.intervals.len());
        self.batch.intervals.extend(intervals.into_iter().take(left));
    }

    /// Whether the accounts of any pod are requested.
    #[must_use]
    pub fn has_followers(&self) -> bool {
        self.board.followers.load(Ordering::Relaxed) > 0
    }

    /// At the end, publishes the final accounts of the GPUs. All else stays as it was published last.
    pub fn conclude(&self, gpus: &[MeteredGpuState]) {
        let statements = Arc::new(self.statements(gpus));
        let mut published = self.board.lock();
        published.statements = statements;
        published.count += 1;
        drop(published);
        self.board.changed.notify_all();
    }

    fn statements(&self, gpus: &[MeteredGpuState]) -> Vec<AgentStatement> {
        let stated = gpus.iter().filter_map(|it| {
            Some(AgentStatement::of(it.gpu.uuid.clone(), it.statement.as_ref()?, &self.clock))
        });
        stated.collect()
    }

    /// Publishes who holds the GPUs, if that is known, the time that is billed of each by its UUID, and what was observed
    /// since the last call.
    pub fn publish(
        &mut self,
        gpus: Option<Vec<MeteredGpuState>>,
        billed: impl IntoIterator<Item = (String, BilledTime)>,
    ) {
        let boot = |at| self.clock.boot_at(at).0;
        let billed = billed.into_iter().map(|(gpu, time)| AgentBilled {
            gpu,
            from_boot_ns: boot(time.from),
            until_boot_ns: boot(time.until),
            next_boot_ns: boot(time.next),
            alone: false,
        });
        let billed = Arc::new(billed.collect());
        let statements = gpus.as_ref().map(|gpus| Arc::new(self.statements(gpus)));
        let batch = Arc::new(std::mem::take(&mut self.batch));
        let mut published = self.board.lock();
        if let Some(gpus) = gpus {
            published.gpus = Some(Arc::new(gpus));
        }
        if let Some(statements) = statements {
            published.statements = statements;
        }
        published.billed = billed;
        published.batches.push_back(batch);
        if published.batches.len() > MAX_BATCHES {
            published.batches.pop_front();
        }
        published.count += 1;
        drop(published);
        self.board.changed.notify_all();
    }
}

impl Drop for AgentSocket {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.path);
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Published> {
        // It is valid after each publication.
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a publication, at most this long.
    fn wait<'a>(
        &self,
        published: MutexGuard<'a, Published>,
        at_most: Duration,
    ) -> MutexGuard<'a, Published> {
        match self.changed.wait_timeout(published, at_most) {
            Ok((published, _)) => published,
            Err(poisoned) => poisoned.into_inner().0,
        }
    }
}

/// Accepts connections until the process ends.
fn accept(listener: &UnixListener, board: &Arc<Board>, procfs: &Path) {
    for connection in listener.incoming() {
        let Ok(connection) = connection else {
            // Out of files, for example; the next one may succeed.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if board.open.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
            board.open.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (own, procfs) = (Arc::clone(board), procfs.to_owned());
        let thread = thread::Builder::new().name("agent-answer".to_owned()).stack_size(STACK);
        let started = thread.spawn(move || {
            // A sidecar that has ended gets no answer.
            let _ = answer(&connection, &own, &procfs);
            own.open.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            board.open.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
