//! Standard error, without waiting for its reader: a bounded queue that a thread writes.
//!
//! A reader may be stuck: a full pipe, a stopped terminal, a log disk that hangs. That must not stop what
//! is metered, nor the end of the command. So all that this process writes to standard error goes through
//! here. What does not fit is dropped, counted and reported.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::SignalSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that may wait: thousands of lines.
const CAPACITY: usize = 256 << 10;

/// Bytes that a pipe that is ready takes without waiting.
const READY: usize = 4 << 10;

/// How often an operation that cannot wait for the thread is repeated.
const RETRY: Duration = Duration::from_millis(10);

/// What waits for standard error.
static QUEUE: Queue = Queue::new();

/// Text that waits to be written.
#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    /// Bytes of all that waits.
    bytes: usize,
    is_writing: bool,
    has_thread: bool,
    /// Lines dropped since the last report of them, and in all.
    dropped: u64,
    total_dropped: u64,
    /// The last write failed.
    error: Option<io::ErrorKind>,
    /// A caller has stopped waiting for the reader.
    is_given_up: bool,
}

/// Queues a line; drops it if too much waits.
pub fn write_line(line: &[u8]) {
    QUEUE.push(line, CAPACITY);
    QUEUE.drive(io::stderr);
}

/// Queues a text of any length.
pub fn write(text: &[u8]) {
    QUEUE.push(text, usize::MAX);
    QUEUE.drive(io::stderr);
}

/// Waits until all is written, for at most `limit`, or until `is_cut`. Once it was in vain, it returns at
/// once.
///
/// # Errors
/// Returns an error if that takes longer, or the last write failed.
pub fn flush(limit: Duration, is_cut: impl Fn() -> bool) -> io::Result<()> {
    QUEUE.flush(limit, is_cut, || QUEUE.drive(io::stderr))
}

/// Lines that were dropped.
pub fn dropped() -> u64 {
    QUEUE.lock().total_dropped
}

/// Standard error, to compare it with other files.
pub fn stream() -> impl AsFd + IsTerminal {
    io::stderr()
}

impl Queue {
    const fn new() -> Self {
        let state = State {
            waiting: VecDeque::new(),
            bytes: 0,
            is_writing: false,
            has_thread: false,
            dropped: 0,
            total_dropped: 0,
            error: None,
            is_given_up: false,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn push(&self, text: &[u8], capacity: usize) {
        let mut state = self.lock();
        if state.bytes.saturating_add(text.len()) > capacity {
            state.dropped += 1;
            state.total_dropped += 1;
            return;
        }
        state.bytes += text.len();
        state.waiting.push_back(text.to_vec());
        drop(state);
        self.changed.notify_all();
    }

    /// Starts the thread, if there is none. If that fails, writes what the reader takes at once.
    fn drive<W: Write + AsFd + 'static>(&'static self, out: fn() -> W) {
        let mut state = self.lock();
        if state.has_thread {
            return;
        }
        let thread = thread::Builder::new().name("stderr".to_owned());
        let started = thread.spawn(move || {
            // The thread that meters receives them. If that fails, it is as before.
            let _ = SignalSet::all().block_in_thread();
            self.serve(&mut out(), report_dropped);
        });
        state.has_thread = started.is_ok();
        if !state.has_thread {
            state.write_ready(out());
        }
    }

    /// Writes what is queued, without an end. `report` is called after lines were dropped.
    fn serve(&self, out: &mut impl Write, report: impl Fn(u64)) {
        loop {
            let mut state = self.lock();
            let text = loop {
                if let Some(text) = state.pop() {
                    break text;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
            state.is_writing = true;
            drop(state);
            let written = write_all(out, &text);
            let mut state = self.lock();
            state.is_writing = false;
            state.error = written.err().map(|error| error.kind());
            let dropped = std::mem::take(&mut state.dropped);
            drop(state);
            self.changed.notify_all();
            if dropped > 0 {
                report(dropped);
            }
        }
    }

    fn flush(
        &self,
        limit: Duration,
        is_cut: impl Fn() -> bool,
        drive: impl Fn(),
    ) -> io::Result<()> {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        while state.is_writing || !state.waiting.is_empty() {
            if state.is_given_up || Instant::now() >= until || is_cut() {
                state.is_given_up = true;
                return Err(io::ErrorKind::TimedOut.into());
            }
            drop(state);
            drive();
            let waited = self.changed.wait_timeout(self.lock(), RETRY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.error.map_or(Ok(()), |error| Err(error.into()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // It is consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pop(&mut self) -> Option<Vec<u8>> {
        let text = self.waiting.pop_front()?;
        self.bytes -= text.len();
        Some(text)
    }

    /// Writes as long as the reader is ready.
    fn write_ready(&mut self, mut out: impl Write + AsFd) {
        while let Some(text) = self.waiting.front_mut() {
            let mut ready = [PollFd::new(&out, PollFlags::OUT)];
            if !matches!(poll(&mut ready, Some(&Timespec::default())), Ok(1..)) {
                return;
            }
            let part = text.get(..READY).unwrap_or(text);
            match out.write(part) {
                Ok(written) => {
                    text.drain(..written);
                    self.bytes -= written;
                    self.error = None;
                    if text.is_empty() {
                        self.waiting.pop_front();
                    }
                }
                Err(error) => {
                    self.error = Some(error.kind());
                    let _ = self.pop();
                    return;
                }
            }
        }
    }
}

/// Writes a text at once if the system does, so that no other output is inside of a line.
fn write_all(out: &mut impl Write, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match out.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => text = text.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Another process has made it so.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(RETRY),
            Err(error) => return Err(error),
        }
    }
    out.flush()
}

fn report_dropped(lines: u64) {
    tracing::warn!(lines, "{lines} log lines were dropped: standard error was not read in time");
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;

    /// A queue that a thread writes to a socket, and the other end of that.
    fn queue() -> (&'static Queue, UnixStream, mpsc::Receiver<u64>) {
        let queue: &'static Queue = Box::leak(Box::new(Queue::new()));
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let (sender, reports) = mpsc::channel();
        queue.lock().has_thread = true;
        thread::spawn(move || queue.serve(&mut writer, |lines| sender.send(lines).unwrap()));
        (queue, reader, reports)
    }

    #[test]
    fn stuck_reader_delays_no_writer_and_drops_are_counted() {
        let (queue, mut reader, reports) = queue();
        let line = [b'x'; 1 << 10];
        (0..2_000).for_each(|_| queue.push(&line, CAPACITY));
        let began = Instant::now();
        queue.flush(Duration::from_millis(50), || false, || ()).unwrap_err();
        assert!(began.elapsed() >= Duration::from_millis(50));
        let (dropped, waiting) = {
            let state = queue.lock();
            assert!(state.bytes <= CAPACITY, "{} bytes wait", state.bytes);
            (state.total_dropped, state.waiting.len())
        };
        assert!(dropped > 1_000, "{dropped}");
        // It does not wait again.
        queue.flush(Duration::from_secs(3_600), || false, || ()).unwrap_err();
        // Once there is a reader, all that was kept arrives, and what was not is reported.
        let kept = 2_000 - usize::try_from(dropped).unwrap();
        assert!(kept >= waiting);
        let mut received = vec![0; kept << 10];
        io::Read::read_exact(&mut reader, &mut received).unwrap();
        assert!(received.iter().all(|byte| *byte == b'x'));
        // Each report counts what was dropped since the one before.
        let mut reported = 0;
        while reported < dropped {
            reported += reports.recv().unwrap();
        }
        assert_eq!(reported, dropped);
    }

    #[test]
    fn flush_waits_for_all_and_ends_if_it_is_cut() {
        let (queue, mut reader, _reports) = queue();
        queue.push(b"line\n", CAPACITY);
        // A report is not limited.
        let report = vec![b'r'; 4 * CAPACITY];
        queue.push(&report, usize::MAX);
        let mut received = Vec::new();
        thread::scope(|scope| {
            let read = scope.spawn(|| {
                let mut received = vec![0; 5 + report.len()];
                io::Read::read_exact(&mut reader, &mut received).unwrap();
                received
            });
            queue.flush(Duration::from_secs(600), || false, || ()).unwrap();
            received = read.join().unwrap();
        });
        assert!(received.starts_with(b"line\nrrr"));
        queue.push(&report, usize::MAX);
        let error = queue.flush(Duration::from_secs(600), || true, || ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn without_a_thread_what_the_reader_takes_is_written() {
        let queue = Queue::new();
        let (writer, mut reader) = UnixStream::pair().unwrap();
        let text = vec![b'y'; 1 << 20];
        queue.push(&text, usize::MAX);
        queue.lock().write_ready(&writer);
        let left = queue.lock().bytes;
        assert!(left > 0 && left < text.len(), "{left}");
        let mut received = vec![0; text.len()];
        let mut done = 0;
        while done < text.len() {
            done += io::Read::read(&mut reader, &mut received[done..]).unwrap();
            queue.lock().write_ready(&writer);
        }
        assert_eq!(received, text);
        queue.flush(Duration::ZERO, || false, || ()).unwrap();
        // A reader that is gone is an error, and nothing waits for it.
        drop(reader);
        queue.push(b"line\n", CAPACITY);
        queue.lock().write_ready(&writer);
        let error = queue.flush(Duration::from_secs(600), || false, || ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
