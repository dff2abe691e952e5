//! Compiling policies in a child process with its own limits, or in this process.
//!
//! A policy written in an interpreted language takes seconds and hundreds of megabytes to compile, and a
//! hostile one may attack the compiler. The sidecar therefore starts itself again with a hidden command,
//! whose body is [`child_main`]: it limits its own memory and time and confines itself before reading
//! anything, reads a policy from standard input, checks its imports and writes machine code to standard
//! output, or a reason to standard error.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use phasemeter_terminal::escape::sanitize;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::codegen;
use crate::confinement::{ConfinementError, confine};
use crate::contract::{self, Stubs};
use crate::engine::{Layout, unpooled};
use crate::error::{CompileError, ForbiddenImports, LoadError, MAX_GUEST_TEXT};
use crate::wasm_info::WasmInfo;

/// Bytes of the control group that a compiling child must leave free for the sidecar.
const RESERVED_FREE: u64 = 16 << 20;

/// Exit statuses of the child, from sysexits.h.
const EX_USAGE: u8 = 64;
const EX_DATAERR: u8 = 65;
const EX_SOFTWARE: u8 = 70;

/// Why the child rejects a policy: what it writes to standard error, as JSON.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Reject {
    Unreadable(String),
    NotAPolicy(String),
    ForbiddenImports { first: Vec<String>, more: usize },
    UnsupportedVersion { found: String, newer: bool },
}

impl Reject {
    /// The reason of an error; `None` if the policy is not to blame.
    fn of(error: &LoadError) -> Option<Self> {
        Some(match error {
            LoadError::Unreadable(why) => Self::Unreadable(why.clone()),
            LoadError::NotAPolicy(why) => Self::NotAPolicy(why.clone()),
            LoadError::ForbiddenImport(ForbiddenImports { first, more }) => {
                Self::ForbiddenImports { first: first.clone(), more: *more }
            }
            LoadError::UnsupportedVersion { found, newer, .. } => {
                Self::UnsupportedVersion { found: found.clone(), newer: *newer }
            }
            _ => return None,
        })
    }
}

/// The child processed a hostile policy, so its text is not trusted.
impl From<Reject> for LoadError {
    fn from(reject: Reject) -> Self {
        let clean = |text: String| sanitize(&text, MAX_GUEST_TEXT);
        match reject {
            Reject::Unreadable(why) => Self::Unreadable(clean(why)),
            Reject::NotAPolicy(why) => Self::NotAPolicy(clean(why)),
            Reject::ForbiddenImports { first, more } => {
                Self::ForbiddenImport(ForbiddenImports::new(first.into_iter().map(clean), more))
            }
            Reject::UnsupportedVersion { found, newer } => {
                Self::UnsupportedVersion { found: clean(found), known: contract::KNOWN, newer }
            }
        }
    }
}

/// How policies are compiled.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// In this process, without limits: for a command line, where nothing else is affected.
    InProcess,
    /// In a child process with limits.
    Subprocess(CompilerProcess),
}

/// How to start the compiling child process, and its limits.
#[derive(Clone, Debug)]
pub struct CompilerProcess {
    /// A program that calls [`child_main`] with the arguments after `args`.
    pub program: PathBuf,
    /// Arguments that make the program call [`child_main`].
    pub args: Vec<OsString>,
    /// Limit on writable memory, in bytes. 512 MiB suffices for every language tried; Python needs
    /// 400. It is lowered to what the control group has free, less 16 MiB.
    pub memory: u64,
    /// Limit on processor time, in whole seconds.
    pub time: Duration,
}

impl CompilerProcess {
    /// This program, started with a command that calls [`child_main`].
    ///
    /// # Errors
    /// Returns an error if the path of this program is unavailable.
    pub fn current_program(command: &str) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            args: vec![command.into()],
            memory: 512 << 20,
            time: Duration::from_secs(60),
        })
    }

    fn compile(&self, policy: &[u8], layout: Layout, stubs: Stubs) -> Result<Vec<u8>, LoadError> {
        let free = cgroup::free(Path::new("/"));
        let free = free.map_or(u64::MAX, |free| free.saturating_sub(RESERVED_FREE));
        let memory = self.memory.min(free);
        let out = self.run(policy, layout, stubs, memory).map_err(CompileError::Run)?;
        let code = out.status.code().and_then(|code| u8::try_from(code).ok());
        match code {
            Some(0) => {
                if !out.stderr.is_empty() {
                    let _ = UNCONFINED.set(error_message(&out.stderr));
                }
                Ok(out.stdout)
            }
            Some(EX_DATAERR) => Err(match serde_json::from_slice::<Reject>(&out.stderr) {
                Ok(reject) => reject.into(),
                Err(_) => LoadError::Unreadable(error_message(&out.stderr)),
            }),
            // The memory limit aborts it; the time limit and the kernel kill it.
            _ if out.status.signal().is_some() || code == Some(EX_SOFTWARE) => {
                Err(CompileError::Limit { memory, time: self.time }.into())
            }
            _ => {
                let error = format!("{}: {}", out.status, error_message(&out.stderr));
                Err(CompileError::Run(io::Error::other(error)).into())
            }
        }
    }

    fn run(
        &self,
        policy: &[u8],
        layout: Layout,
        stubs: Stubs,
        memory: u64,
    ) -> io::Result<std::process::Output> {
        // A file, so that nothing has to be written while the output is read.
        let mut input = File::from(memfd_create("policy", MemfdFlags::CLOEXEC)?);
        input.write_all(policy)?;
        input.rewind()?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .args([layout.name(), stubs.name()])
            .args([memory, self.time.as_secs()].map(|limit| limit.to_string()))
            .env_clear()
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = {
            let mut running = running();
            let child = command.spawn()?;
            running.insert(child.id());
            child
        };
        let pid = child.id();
        let output = child.wait_with_output();
        running().remove(&pid);
        output
    }
}

/// The processes that compile, for programs that reap children which they have not started.
static RUNNING: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a child of this process is one that compiles a policy.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    running().contains(&pid)
}

/// Why a child was not confined.
static UNCONFINED: OnceLock<String> = OnceLock::new();

/// Why the system call filter of the compiling child is missing, once if it is.
#[must_use]
pub fn take_unconfined() -> Option<&'static str> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let reason = UNCONFINED.get()?;
    (!TAKEN.swap(true, Ordering::Relaxed)).then_some(reason)
}

/// The child's error message, sanitized.
fn error_message(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    sanitize(text.trim(), MAX_GUEST_TEXT)
}

impl Compiler {
    /// Compiles a policy to machine code for engines with this memory layout, after checking the
    /// version of its contract and its imports.
    pub(crate) fn compile(
        &self,
        policy: &[u8],
        layout: Layout,
        stubs: Stubs,
    ) -> Result<Vec<u8>, LoadError> {
        match self {
            Self::Subprocess(process) if codegen::AVAILABLE => {
                process.compile(policy, layout, stubs)
            }
            Self::InProcess | Self::Subprocess(_) => compile(policy, layout, stubs),
        }
    }
}

/// Compiles in this process.
fn compile(policy: &[u8], layout: Layout, stubs: Stubs) -> Result<Vec<u8>, LoadError> {
    contract::admit(&WasmInfo::parse(policy)?, stubs)?;
    codegen::compile(policy, || unpooled(layout))
}

/// The body of the hidden command of a program that is its own compiling [`CompilerProcess`].
///
/// `args` are the arguments after the command: layout, whether imports are stubbed, memory limit in
/// bytes, and time limit in seconds. Compiles the policy on standard input to machine code on standard
/// output.
#[must_use]
pub fn child_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<_> = args.into_iter().filter_map(|arg| arg.into_string().ok()).collect();
    let [layout, stubs, memory, seconds] = args.as_slice() else { return EX_USAGE.into() };
    let (Some(layout), Some(stubs), Ok(memory), Ok(seconds)) =
        (Layout::from_name(layout), Stubs::from_name(stubs), memory.parse(), seconds.parse())
    else {
        return EX_USAGE.into();
    };
    let (code, message) = match compile_stdin(layout, stubs, memory, seconds) {
        Ok(Ok(confined)) => match confined {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => (0, error.to_string()),
        },
        Ok(Err(error)) => match Reject::of(&error).map(|it| serde_json::to_string(&it)) {
            Some(Ok(reject)) => (EX_DATAERR, reject),
            Some(Err(_)) | None => (EX_SOFTWARE, error.to_string()),
        },
        Err(error) => (EX_SOFTWARE, error.to_string()),
    };
    // If this fails, the exit status remains.
    #[allow(clippy::disallowed_methods, reason = "the process that started this one reads it")]
    let _ = io::stderr().write_all(message.as_bytes());
    code.into()
}

fn compile_stdin(
    layout: Layout,
    stubs: Stubs,
    memory: u64,
    seconds: u64,
) -> io::Result<Result<Result<(), ConfinementError>, LoadError>> {
    limit_this_process(memory, seconds)?;
    // If memory runs out, the kernel ends this process, not the one that meters.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    // If the parent ends, nothing waits for the result.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The compiler has limits without it, too.
    let confined = confine();
    let mut policy = Vec::new();
    io::stdin().lock().read_to_end(&mut policy)?;
    match compile(&policy, layout, stubs) {
        Ok(code) => io::stdout().lock().write_all(&code).map(|()| Ok(confined)),
        Err(error) => Ok(Err(error)),
    }
}

/// Sets hard limits. `Data` counts writable memory, not address space that is only reserved.
fn limit_this_process(memory: u64, seconds: u64) -> io::Result<()> {
    let hard = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    setrlimit(Resource::Core, hard(0))?;
    setrlimit(Resource::Cpu, hard(seconds))?;
    setrlimit(Resource::Data, hard(memory))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a compiler process that runs this shell script returns.
    fn compile(script: &str) -> Result<Vec<u8>, LoadError> {
        let process = CompilerProcess {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            memory: 1 << 30,
            time: Duration::from_secs(10),
        };
        process.compile(b"policy", Layout::Wide, Stubs::Disabled)
    }

    #[test]
    fn compiler_process_returns_its_standard_output() {
        assert_eq!(compile("cat").unwrap(), b"policy");
    }

    /// Scenario: the kernel refuses the filter of the child.
    /// Guarantee: what it compiled is used, and the reason is reported once.
    #[test]
    fn unconfined_child_is_reported_once() {
        for _ in 0..2 {
            assert_eq!(compile("echo refused >&2; cat").unwrap(), b"policy");
        }
        assert_eq!(take_unconfined(), Some("refused"));
        assert_eq!(take_unconfined(), None);
    }

    #[test]
    fn exit_status_of_the_compiler_process_is_its_error() {
        let error = |script| compile(script).unwrap_err();
        let unreadable = error("echo broken >&2; exit 65");
        assert!(matches!(&unreadable, LoadError::Unreadable(why) if why == "broken"));
        let no_policy = error(r#"echo '{"NotAPolicy": "no exports"}' >&2; exit 65"#);
        assert!(matches!(&no_policy, LoadError::NotAPolicy(why) if why == "no exports"));
        for script in ["exit 70", "kill -9 $$", "kill -ABRT $$"] {
            let limit = error(script);
            assert!(
                matches!(limit, LoadError::CompileLimit(CompileError::Limit { .. })),
                "{script}: {limit}"
            );
        }
        let other = error("echo why >&2; exit 1");
        assert!(matches!(other, LoadError::CompileLimit(CompileError::Run(_))), "{other}");
        assert!(other.to_string().contains("why"), "{other}");
    }

    #[test]
    fn reasons_of_the_child_are_read_back_and_limited() {
        let names = |count: usize| (0..count).map(|at| format!("import-{at}"));
        for error in [
            LoadError::Unreadable("why".to_owned()),
            LoadError::NotAPolicy("why".to_owned()),
            LoadError::ForbiddenImport(ForbiddenImports::new(names(20), 0)),
            LoadError::UnsupportedVersion {
                found: "0.9".to_owned(),
                known: contract::KNOWN,
                newer: true,
            },
        ] {
            let json = serde_json::to_string(&Reject::of(&error).unwrap()).unwrap();
            let read: Reject = serde_json::from_str(&json).unwrap();
            assert_eq!(LoadError::from(read).to_string(), error.to_string());
        }
        let first = names(60_000).collect();
        let error = LoadError::from(Reject::ForbiddenImports { first, more: 5 }).to_string();
        assert!(error.contains("import-7 and 59997 more;"), "{error}");
    }
}
