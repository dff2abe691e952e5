//! Blocking, receiving and sending signals, including real-time signals.
//!
//! A blocked signal waits until it is received, so that none is lost and no handler interrupts other
//! calls.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use libc::{c_int, siginfo_t, sigset_t};

use crate::launch::{is_blocked_at_launch, is_ignored_at_launch, record_blocked};

/// Never blocked: KILL and STOP, faults, which the thread at fault handles, and job control, by which a shell
/// notices that a process has stopped.
const NEVER: [c_int; 10] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGTRAP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];

/// A set of signals.
#[derive(Clone, Copy)]
pub struct SignalSet(sigset_t);

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// Its number.
    pub number: i32,
    /// The process that sent it, which may be this one; `None` for the kernel.
    pub sender: Option<u32>,
}

impl SignalSet {
    /// All signals that can be received.
    #[must_use]
    pub fn all() -> Self {
        // The C library uses those between the standard and the real-time signals.
        let standard = 1..libc::SIGSYS + 1;
        let real_time = libc::SIGRTMIN()..=libc::SIGRTMAX();
        Self::of(standard.chain(real_time).filter(|signal| !NEVER.contains(signal)))
    }

    /// These signals. Others than existing ones are left out.
    #[must_use]
    pub fn of(signals: impl IntoIterator<Item = i32>) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: initializes the set, and cannot fail.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: initialized above.
        let mut set = unsafe { set.assume_init() };
        for signal in signals {
            // SAFETY: the set is valid; an invalid signal is an error that changes nothing.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        Self(set)
    }

    /// Blocks these signals for this thread and those that it starts from now on, so that only
    /// [`SignalSet::receive`] returns them. To be called before other threads are started.
    ///
    /// # Errors
    /// Returns an error if the system rejects it.
    pub fn block(&self) -> io::Result<()> {
        record_blocked(self.block_here()?);
        // SAFETY: the set is valid.
        let children = unsafe { libc::sigismember(&raw const self.0, libc::SIGCHLD) } == 1;
        if children && is_ignored_at_launch(libc::SIGCHLD) {
            // Ignored, it would discard the exit statuses of children.
            // SAFETY: its default action has no effect.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
        Ok(())
    }

    /// Blocks these signals for this thread only, which others then receive.
    ///
    /// # Errors
    /// Returns an error if the system rejects it.
    pub fn block_in_thread(&self) -> io::Result<()> {
        self.block_here().map(drop)
    }

    /// Blocks these signals for this thread, and returns those that were blocked before.
    fn block_here(&self) -> io::Result<sigset_t> {
        let mut before = Self::of([]).0;
        // SAFETY: both sets are valid.
        let error =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.0, &raw mut before) };
        if error == 0 { Ok(before) } else { Err(io::Error::from_raw_os_error(error)) }
    }

    /// Waits for a signal of this set, which must be blocked.
    #[must_use]
    pub fn receive(&self) -> ReceivedSignal {
        loop {
            // SAFETY: set and place are valid.
            let wait = |info: *mut siginfo_t| unsafe { libc::sigwaitinfo(&raw const self.0, info) };
            // It fails only if another signal interrupts it.
            if let Some(signal) = received(wait) {
                return signal;
            }
        }
    }

    /// Waits for a signal of this set, which must be blocked, at most for this long. May return early.
    #[must_use]
    pub fn receive_within(&self, at_most: Duration) -> Option<ReceivedSignal> {
        let at_most = libc::timespec {
            tv_sec: at_most.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // SAFETY: set, place and time are valid.
        received(|info| unsafe { libc::sigtimedwait(&raw const self.0, info, &raw const at_most) })
    }

    /// Discards one pending signal of this set, if there is any.
    pub fn discard(&self) {
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: set and time are valid; details are not requested.
        unsafe { libc::sigtimedwait(&raw const self.0, ptr::null_mut(), &raw const now) };
    }
}

/// The signal that `wait` returns, which fills in its details; `None` if it fails.
fn received(wait: impl FnOnce(*mut siginfo_t) -> c_int) -> Option<ReceivedSignal> {
    // SAFETY: all-zero bytes are a valid `siginfo_t`.
    let mut info: siginfo_t = unsafe { std::mem::zeroed() };
    let number = wait(&raw mut info);
    if number <= 0 {
        return None;
    }
    // Codes above 0 are the kernel's.
    let sent = info.si_code <= 0;
    // SAFETY: signals sent by a process contain its ID.
    let sender = sent.then(|| unsafe { info.si_pid() });
    Some(ReceivedSignal { number, sender: sender.and_then(|pid| u32::try_from(pid).ok()) })
}

/// Sends a signal to a process.
///
/// # Errors
/// Returns an error if there is no such process or signal, or permission is denied.
pub fn send(process: u32, signal: i32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(process).ok().filter(|pid| *pid > 0);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: a signal to another process does not affect memory of this one.
    crate::check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Lets this process die by a signal that it has received, as if it had not blocked it; returns if the
/// signal is not fatal.
pub fn die_by(signal: i32) {
    if is_ignored_at_launch(signal) || is_blocked_at_launch(signal) {
        return;
    }
    let set = SignalSet::of([signal]).0;
    // SAFETY: the default action ends the process, or has no effect on it.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: raises a signal of this thread, where it is blocked.
    unsafe { libc::raise(signal) };
    // SAFETY: the set is valid; the old one is not requested.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
}

/// Ends this process at once, whatever other threads do: no destructor runs, which could hang as well.
pub fn end_now(status: u8) -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(status.into()) }
}
