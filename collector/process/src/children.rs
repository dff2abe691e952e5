//! Children that this process did not start: those of its launcher, which ran the same process before,
//! and orphans if this is the first process of a container.

use std::mem;

/// Reaps the children that have ended and that `is_own` denies. Those that it confirms are left to
/// their owners; the search ends at the first of them that has ended, so call it regularly.
pub fn reap_others(is_own: impl Fn(u32) -> bool) {
    // An error, if there are no children, ends it too.
    while let Some(pid) = ended(libc::WNOWAIT, libc::P_ALL, 0).filter(|pid| !is_own(*pid)) {
        ended(0, libc::P_PID, pid);
    }
}

/// Whether a process is in the process group of this one. A group whose leader is outside of the PID namespace has the
/// ID 0, which `rustix` does not expect: a group that the process has made itself has another one.
#[must_use]
pub fn is_in_own_group(pid: u32) -> bool {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return false };
    // SAFETY: these calls have no preconditions.
    let (group, own) = unsafe { (libc::getpgid(pid), libc::getpgrp()) };
    group == own
}

/// A child that has ended.
fn ended(flags: libc::c_int, kind: libc::idtype_t, id: libc::id_t) -> Option<u32> {
    // SAFETY: all-zero bytes are a valid `siginfo_t`.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    let flags = flags | libc::WEXITED | libc::WNOHANG;
    // SAFETY: the place is valid.
    let found = unsafe { libc::waitid(kind, id, &raw mut info, flags) };
    // SAFETY: the information of a child contains its ID; it stays zero if there is none.
    let pid = unsafe { info.si_pid() };
    (found == 0).then(|| u32::try_from(pid).ok()).flatten().filter(|pid| *pid != 0)
}
