//! Confines the compiling child by a filter of the kernel: once it has what it needs, a compiler that a
//! policy has taken over can read its input, use memory, write its output, and end. It opens no file and
//! no socket, starts and traces no process, and makes no memory executable.
//!
//! What the filter refuses fails with `EPERM`, so that a library that asks for more than it needs goes on.

/// Why this process is not confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfinementError {
    /// The kernel, or the filter of a container, refuses.
    #[error("the kernel refuses a system call filter: {0}")]
    Refused(String),
    /// There is no filter for this platform.
    #[error("no system call filter for this platform")]
    Unsupported,
}

/// Confines this process and all of its threads, for good.
///
/// # Errors
/// Returns an error if there is no filter for this platform, or the kernel refuses it. Nothing has changed
/// then, except that the process gains no privileges by starting others.
pub fn confine() -> Result<(), ConfinementError> {
    imp::confine()
}

#[cfg(all(
    feature = "compiler",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod imp {
    use std::collections::BTreeMap;

    use seccompiler::SeccompCmpArgLen::Dword;
    use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule,
        apply_filter_all_threads,
    };

    use super::ConfinementError;

    /// System calls that are allowed whatever their arguments: memory, time, random numbers, locks, its own
    /// signals, and reading what is open.
    const ALLOWED: [i64; 17] = [
        libc::SYS_brk,
        libc::SYS_clock_gettime,
        libc::SYS_close,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_futex,
        libc::SYS_getpid,
        libc::SYS_getrandom,
        libc::SYS_gettid,
        libc::SYS_madvise,
        libc::SYS_mremap,
        libc::SYS_munmap,
        libc::SYS_read,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
    ];

    /// Standard output and standard error.
    const OUTPUTS: [u64; 2] = [1, 2];

    const ABORT: u64 = libc::SIGABRT.unsigned_abs() as u64;

    const EXECUTABLE: u64 = libc::PROT_EXEC.unsigned_abs() as u64;

    pub(super) fn confine() -> Result<(), ConfinementError> {
        let filter = filter().map_err(|error| ConfinementError::Refused(error.to_string()))?;
        apply_filter_all_threads(&filter)
            .map_err(|error| ConfinementError::Refused(error.to_string()))
    }

    fn filter() -> Result<BpfProgram, BackendError> {
        let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
            ALLOWED.into_iter().map(|call| (call, Vec::new())).collect();
        let when = |argument, operation, value| {
            SeccompRule::new(vec![SeccompCondition::new(argument, Dword, operation, value)?])
        };
        let outputs = OUTPUTS.map(|output| when(0, Eq, output));
        rules.insert(libc::SYS_write, outputs.into_iter().collect::<Result<_, _>>()?);
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            rules.insert(call, vec![when(2, MaskedEq(EXECUTABLE), 0)?]);
        }
        rules.insert(libc::SYS_tgkill, vec![when(2, Eq, ABORT)?]);
        let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let arch = std::env::consts::ARCH.try_into()?;
        SeccompFilter::new(rules, refused, SeccompAction::Allow, arch)?.try_into()
    }
}

#[cfg(not(all(
    feature = "compiler",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
mod imp {
    use super::ConfinementError;

    pub(super) const fn confine() -> Result<(), ConfinementError> {
        Err(ConfinementError::Unsupported)
    }
}
