//! What the launcher set for this process and its commands: ignored and blocked signals.
//!
//! Rust ignores SIGPIPE before `main` and resets it in commands, so the ignored signals are recorded
//! before that.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::sigset_t;

/// The last signal on Linux.
const LAST: libc::c_int = 64;

/// The signals ignored at launch; the lowest bit is signal 1.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// The signals blocked at launch, once this process has blocked others.
static BLOCKED: OnceLock<sigset_t> = OnceLock::new();

/// Run by the C library at startup, before Rust's.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record_ignored;

extern "C" fn record_ignored() {
    let is_ignored = |signal: libc::c_int| {
        // SAFETY: all-zero bytes are a valid `sigaction`: no flags, the default action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: without a new action, this only writes the current one to a valid place.
        let found = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        found == 0 && action.sa_sigaction == libc::SIG_IGN
    };
    let bits = (1..=LAST).filter(|signal| is_ignored(*signal)).fold(0, |bits, it| bits | bit(it));
    IGNORED.store(bits, Ordering::Relaxed);
}

const fn bit(signal: libc::c_int) -> u64 {
    1 << (signal - 1)
}

/// Whether the launcher has this process ignore a signal, as `nohup` does.
#[must_use]
pub fn is_ignored_at_launch(signal: i32) -> bool {
    (1..=LAST).contains(&signal) && IGNORED.load(Ordering::Relaxed) & bit(signal) != 0
}

/// Records the signals blocked at launch, which are those blocked before this process blocks others.
pub(crate) fn record_blocked(before: sigset_t) {
    let _recorded = BLOCKED.get_or_init(|| before);
}

/// Whether the launcher has this process block a signal.
pub(crate) fn is_blocked_at_launch(signal: i32) -> bool {
    // SAFETY: the set is initialized; an invalid signal is an error, which is not 1.
    BLOCKED.get().is_some_and(|blocked| unsafe { libc::sigismember(blocked, signal) } == 1)
}

/// Starts a command with the signals ignored and blocked that this process was launched with.
pub fn inherit_launch(command: &mut Command) {
    let blocked = BLOCKED.get().copied();
    // Others are never changed, so the command inherits them.
    let ignored = [libc::SIGPIPE, libc::SIGCHLD].map(|it| is_ignored_at_launch(it).then_some(it));
    let restore = move || {
        for signal in ignored.into_iter().flatten() {
            // SAFETY: ignoring a signal of the new process has no other effect.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        if let Some(blocked) = blocked {
            // SAFETY: the set is initialized; the old one is not requested.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut())
            };
        }
        Ok(())
    };
    // SAFETY: between fork and exec it calls async-signal-safe functions only, and neither allocates
    // nor locks.
    unsafe { command.pre_exec(restore) };
}
