//! Compiling: the one heavy thing, done in a process of its own that may fail.
//!
//! A policy of an interpreted language takes seconds and hundreds of megabytes to compile, and a
//! hostile one may aim at the compiler. So the sidecar runs itself again with a hidden command,
//! whose body is [`child_main`]: it limits its own memory and time before it reads a byte, takes a
//! policy on its standard input and gives machine code on its standard output. This room must
//! not know where either comes from or goes to.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::binary::componentize;
use crate::cgroup;
use crate::engine::{self, Layout};
use crate::fault::{CompileFault, LoadFault, WORDS, plain};

/// What stays free in the control group while a child compiles: room for the sidecar's own work.
const KEPT_FREE: u64 = 16 << 20;

/// The exit codes of the child, after sysexits.h.
const MISUSED: u8 = 64;
const UNREADABLE: u8 = 65;
const GAVE_UP: u8 = 70;
const NOT_A_POLICY: u8 = 76;

/// Where policies are compiled.
#[derive(Clone, Debug)]
pub enum Compiler {
    /// In this process, without limits: for a command line, where nothing else suffers.
    Here,
    /// In a child.
    Child(Child),
}

/// How a compiling child is started, and its limits.
#[derive(Clone, Debug)]
pub struct Child {
    /// A program that calls [`child_main`] with the arguments after `args`.
    pub program: PathBuf,
    /// What makes it do so.
    pub args: Vec<OsString>,
    /// Bytes it may write to. 512 MiB is enough for any language tried: Python takes 400. Where
    /// the control group leaves less than this and 16 MiB, that is the limit.
    pub memory: u64,
    /// Processor time it may take, in whole seconds.
    pub time: Duration,
}

impl Child {
    /// This very program, with a command that leads to [`child_main`].
    ///
    /// # Errors
    /// Where the system does not say which program this is.
    pub fn of_this_program(command: &str) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            args: vec![command.into()],
            memory: 512 << 20,
            time: Duration::from_secs(60),
        })
    }

    fn compile(&self, policy: &[u8], layout: Layout) -> Result<Vec<u8>, LoadFault> {
        let free = cgroup::free().map_or(u64::MAX, |free| free.saturating_sub(KEPT_FREE));
        let memory = self.memory.min(free);
        let out = self.run(policy, layout, memory).map_err(CompileFault::Run)?;
        let code = out.status.code().and_then(|code| u8::try_from(code).ok());
        match code {
            Some(0) => Ok(out.stdout),
            Some(UNREADABLE) => Err(LoadFault::Unreadable(said(&out.stderr))),
            Some(NOT_A_POLICY) => Err(LoadFault::NotAPolicy(said(&out.stderr))),
            // Its memory limit ends it with an abort, its time limit and the kernel with a kill.
            _ if out.status.signal().is_some() || code == Some(GAVE_UP) => {
                Err(CompileFault::Limit { memory, time: self.time }.into())
            }
            _ => {
                let error = format!("it ended with {}: {}", out.status, said(&out.stderr));
                Err(CompileFault::Run(io::Error::other(error)).into())
            }
        }
    }

    fn run(&self, policy: &[u8], layout: Layout, memory: u64) -> io::Result<std::process::Output> {
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .args([layout.name(), &memory.to_string(), &self.time.as_secs().to_string()])
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        thread::scope(|scope| {
            // A child that dies early closes the pipe; how it died says more than that.
            scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(policy)));
            child.wait_with_output()
        })
    }
}

/// The end of what a child wrote.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    plain(text.trim(), WORDS)
}

impl Compiler {
    /// Machine code of a policy, for engines of this layout.
    pub(crate) fn compile(&self, policy: &[u8], layout: Layout) -> Result<Vec<u8>, LoadFault> {
        match self {
            Self::Here => machine_code(policy, layout),
            Self::Child(child) => child.compile(policy, layout),
        }
    }
}

/// Everything that may run out of memory, of time, or into a bug of a compiler.
fn machine_code(policy: &[u8], layout: Layout) -> Result<Vec<u8>, LoadFault> {
    let component = componentize(policy)?;
    let engine = engine::compiler(layout);
    engine.and_then(|engine| engine.precompile_component(&component)).map_err(|error| {
        if error.is::<wasmtime::OutOfMemory>() || error.is::<io::Error>() {
            CompileFault::Run(io::ErrorKind::OutOfMemory.into()).into()
        } else {
            LoadFault::Unreadable(plain(&format!("{error:#}"), WORDS))
        }
    })
}

/// The body of the hidden command of a program that is its own compiling [`Child`].
///
/// `args` are those after the command: the layout, the memory in bytes and the time in seconds.
/// It compiles what is on standard input to standard output.
#[must_use]
pub fn child_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<_> = args.into_iter().filter_map(|arg| arg.into_string().ok()).collect();
    let [layout, memory, seconds] = args.as_slice() else { return MISUSED.into() };
    let (Some(layout), Ok(memory), Ok(seconds)) =
        (Layout::named(layout), memory.parse(), seconds.parse())
    else {
        return MISUSED.into();
    };
    let (code, said) = match serve(layout, memory, seconds) {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(LoadFault::Unreadable(why))) => (UNREADABLE, why),
        Ok(Err(LoadFault::NotAPolicy(why))) => (NOT_A_POLICY, why),
        Ok(Err(other)) => (GAVE_UP, other.to_string()),
        Err(error) => (GAVE_UP, error.to_string()),
    };
    // Nobody is left to tell if this fails.
    let _ = io::stderr().write_all(said.as_bytes());
    code.into()
}

fn serve(layout: Layout, memory: u64, seconds: u64) -> io::Result<Result<(), LoadFault>> {
    limit(memory, seconds)?;
    let mut policy = Vec::new();
    io::stdin().lock().read_to_end(&mut policy)?;
    match machine_code(&policy, layout) {
        Ok(code) => io::stdout().lock().write_all(&code).map(Ok),
        Err(fault) => Ok(Err(fault)),
    }
}

/// Limits this process, for good. `Data` counts what can be written to, not what is only reserved.
fn limit(memory: u64, seconds: u64) -> io::Result<()> {
    let hard = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    setrlimit(Resource::Core, hard(0))?;
    setrlimit(Resource::Cpu, hard(seconds))?;
    setrlimit(Resource::Data, hard(memory))?;
    Ok(())
}
