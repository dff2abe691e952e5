//! The Unix socket on which a workload reports its work, named in its environment.
//!
//! A writer never waits: what it reports is added up in bounded memory until it is taken, and what is
//! answered, a few errors, fits into the buffer of the socket.

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_meter::units::Timestamp;
use phasemeter_meter::work_unit::WorkUnit;
use phasemeter_otlp::unix_socket::listen_privately;
use phasemeter_sources::clock::Clock;
use phasemeter_work::message::{LineBuffer, Message, MessageError};
use tracing::warn;

/// The variable that names the socket to the command.
pub const VARIABLE: &str = "PHASEMETER_SOCKET";

/// Connections at once: one per process of a large training job. Further ones are closed.
const MAX_CONNECTIONS: usize = 256;

/// Reports other than work that wait to be taken.
const MAX_WAITING: usize = 1_024;

/// Rejected lines that are named.
const MAX_NAMED: usize = 5;

/// Errors that are answered per connection.
const MAX_ANSWERED: usize = 16;

/// A report of one writer.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) at: Timestamp,
    /// The number of its connection.
    pub(super) writer: u64,
    pub(super) message: Message,
}

/// What was reported since the last call.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// In order of arrival; work of a unit between two other reports is one.
    pub(super) messages: Vec<Report>,
    /// The first errors.
    pub(super) errors: Vec<MessageError>,
    /// Lines and connections that were rejected or dropped.
    pub(super) rejected: u64,
}

impl Reports {
    /// Adds a report. Work of one unit within a second is one report, so that reports of a fast loop
    /// take no more memory than those of a slow one.
    fn add(&mut self, at: Timestamp, writer: u64, message: Result<Message, MessageError>) {
        let message = match message {
            Ok(message) => message,
            Err(error) => {
                self.rejected += 1;
                if self.errors.len() < MAX_NAMED {
                    self.errors.push(error);
                }
                return;
            }
        };
        if let Message::Work { unit, count } = message
            && self.join(at, unit, count)
        {
            return;
        }
        if self.messages.len() < MAX_WAITING {
            self.messages.push(Report { at, writer, message });
        } else {
            self.rejected += 1;
        }
    }

    /// Adds work to the last report of its unit, if no other kind of report has followed.
    fn join(&mut self, at: Timestamp, unit: WorkUnit, count: u64) -> bool {
        let is_work = |it: &&mut Report| matches!(it.message, Message::Work { .. });
        let recent = self.messages.iter_mut().rev().take_while(is_work);
        for Report { at: last, message, .. } in recent {
            if let Message::Work { unit: same, count: sum } = message
                && *same == unit
                && last.floor_second() == at.floor_second()
            {
                *sum = sum.saturating_add(count);
                return true;
            }
        }
        false
    }
}

/// A listening socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct WorkSocket {
    path: PathBuf,
    /// The directory that was created for it.
    dir: Option<PathBuf>,
    shared: Arc<Shared>,
}

/// What the threads share.
#[derive(Debug, Default)]
struct Shared {
    reports: Mutex<Reports>,
    /// Open connections.
    open: AtomicUsize,
}

impl WorkSocket {
    /// Creates the socket of a run: as requested, else for a command, which runs without if it cannot be
    /// created.
    ///
    /// # Errors
    /// Returns an error if the requested socket cannot be created.
    pub fn for_run(
        path: Option<&Path>,
        has_command: bool,
        clock: Clock,
    ) -> io::Result<Option<Self>> {
        if path.is_none() && !has_command {
            return Ok(None);
        }
        match Self::listen(path, clock) {
            Ok(socket) => Ok(Some(socket)),
            Err(error) if path.is_some() => Err(error),
            Err(error) => {
                warn!("work is not reported: cannot create a socket: {error}");
                Ok(None)
            }
        }
    }

    /// Listens at `path`, else in a new directory that no other user can enter.
    fn listen(path: Option<&Path>, clock: Clock) -> io::Result<Self> {
        let (path, dir) = match path {
            Some(path) => (path.to_owned(), None),
            None => {
                let dir = private_dir()?;
                (dir.join("work.sock"), Some(dir))
            }
        };
        let listener = listen_privately(&path).inspect_err(|_| {
            // The error of the socket is the one to report.
            let _ = dir.as_ref().map(fs::remove_dir);
        })?;
        let shared = Arc::<Shared>::default();
        let socket = Self { path, dir, shared: Arc::clone(&shared) };
        thread::Builder::new()
            .name("work-socket".to_owned())
            .spawn(move || accept(&listener, &shared, clock))?;
        Ok(socket)
    }

    /// Waits until what was written so far is read, if all writers have ended; otherwise for `grace`.
    pub(super) fn settle(&self, grace: Duration) {
        let until = Instant::now() + grace;
        // Connections are accepted in order, so those of writers that have ended precede this one.
        let accepted = UnixStream::connect(&self.path).and_then(|mut own| {
            own.set_read_timeout(Some(grace))?;
            own.shutdown(Shutdown::Write)?;
            own.read(&mut [0])
        });
        while accepted.is_ok()
            && self.shared.open.load(Ordering::Acquire) > 0
            && Instant::now() < until
        {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The path of its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes what was reported since the last call.
    pub(super) fn take(&self) -> Reports {
        std::mem::take(&mut self.shared.lock())
    }
}

impl Drop for WorkSocket {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.path);
        let _ = self.dir.as_ref().map(fs::remove_dir);
    }
}

/// A new directory that no other user can enter.
fn private_dir() -> io::Result<PathBuf> {
    let parent = std::env::temp_dir();
    for number in 0_u32.. {
        let dir = parent.join(format!("phasemeter-{}-{number}", process::id()));
        match DirBuilder::new().mode(0o700).create(&dir) {
            // Of an earlier process with the same ID, or of another user.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => {}
            created => return created.map(|()| dir),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Accepts connections until the process ends.
fn accept(listener: &UnixListener, shared: &Arc<Shared>, clock: Clock) {
    for (writer, connection) in (0_u64..).zip(listener.incoming()) {
        let Ok(connection) = connection else {
            // Out of files, for example; the next one may succeed.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if shared.open.fetch_add(1, Ordering::AcqRel) >= MAX_CONNECTIONS {
            shared.open.fetch_sub(1, Ordering::AcqRel);
            shared.lock().rejected += 1;
            continue;
        }
        let reader = Arc::clone(shared);
        let started = thread::Builder::new().name("work-reader".to_owned()).spawn(move || {
            read(connection, writer, &reader, clock);
            reader.open.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            shared.open.fetch_sub(1, Ordering::AcqRel);
            shared.lock().rejected += 1;
        }
    }
}

/// Reads the lines of a connection until it ends. Its experiment ends with it.
fn read(mut connection: UnixStream, writer: u64, shared: &Shared, clock: Clock) {
    let (mut lines, mut buffer) = (LineBuffer::default(), [0; 4_096]);
    let mut has_begun = false;
    let mut errors = ErrorReplies::default();
    loop {
        match connection.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                let at = clock.now();
                let mut reports = shared.lock();
                lines.push(&buffer[..length], &mut |message| {
                    has_begun |= matches!(message, Ok(Message::Begin { .. }));
                    errors.add(&message);
                    reports.add(at, writer, message);
                });
                drop(reports);
                errors.send(&connection);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let at = clock.now();
    let mut reports = shared.lock();
    lines.finish(&mut |message| {
        errors.add(&message);
        reports.add(at, writer, message);
    });
    if has_begun {
        reports.add(at, writer, Ok(Message::End));
    }
    drop(reports);
    errors.send(&connection);
}

/// The errors of a connection that its writer may read.
#[derive(Debug, Default)]
struct ErrorReplies {
    answered: usize,
    text: String,
}

impl ErrorReplies {
    fn add(&mut self, message: &Result<Message, MessageError>) {
        if let Err(error) = message
            && self.answered < MAX_ANSWERED
        {
            self.answered += 1;
            self.text += &format!("error: {error}\n");
        }
    }

    /// Sends what was added, if the writer is there.
    fn send(&mut self, mut connection: &UnixStream) {
        if !self.text.is_empty() {
            // It may have ended.
            let _ = connection.write_all(self.text.as_bytes());
            self.text.clear();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Reports> {
        // Reports are valid after each step of a writer.
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::units::Nanos;

    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_millis(millis)
    }

    #[test]
    fn work_of_a_fast_loop_is_joined() {
        let mut reports = Reports::default();
        for millis in 0..100_000 {
            reports.add(at(millis), 0, "step".parse());
            reports.add(at(millis), 0, "work samples 32".parse());
        }
        assert_eq!((reports.messages.len(), reports.rejected), (200, 0));
        let of = |wanted| {
            let counts = reports.messages.iter().map(|report| match &report.message {
                Message::Work { unit, count } if *unit == wanted => *count,
                _ => 0,
            });
            counts.sum::<u64>()
        };
        assert_eq!((of(WorkUnit::Steps), of(WorkUnit::Samples)), (100_000, 3_200_000));
    }

    #[test]
    fn work_after_a_checkpoint_is_not_joined_with_work_before() {
        let mut reports = Reports::default();
        for line in ["step", "checkpoint", "step"] {
            reports.add(at(0), 0, line.parse());
        }
        assert_eq!(reports.messages.len(), 3);
    }

    #[test]
    fn reports_that_are_not_taken_are_limited() {
        let mut reports = Reports::default();
        for _ in 0..10_000 {
            reports.add(at(0), 0, "checkpoint".parse());
            reports.add(at(0), 0, "nonsense".parse());
        }
        assert_eq!(reports.messages.len(), MAX_WAITING);
        assert_eq!(reports.errors.len(), MAX_NAMED);
        assert_eq!(reports.rejected, 10_000 + 10_000 - MAX_WAITING as u64);
    }
}
