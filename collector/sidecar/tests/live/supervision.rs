//! The command and signals do not depend on metering: not while its pipeline is stuck, nor after its end.
//!
//! The pipeline is stuck as soon as it exports much to a terminal that nothing reads.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_process::send;
use rustix::fs::OFlags;
use rustix::process::Signal;

use crate::run::{NO_POLICIES, Running, phasemeter, started_at, with_command};
use crate::signals::Lines;
use crate::{Rig, TIMEOUT};

/// A terminal that nothing reads, with the program that holds it.
struct StuckTerminal {
    _holder: Running,
    path: PathBuf,
}

impl StuckTerminal {
    fn open() -> Self {
        let mut holder = Command::new("script");
        holder.args(["--quiet", "--command", "tty; exec sleep 600", "/dev/null"]);
        holder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = Running(holder.env("SHELL", "/bin/sh").spawn().unwrap());
        let mut line = String::new();
        BufReader::new(holder.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let path = PathBuf::from(line.trim());
        send(holder.0.id(), Signal::STOP.as_raw()).unwrap();
        let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap();
        let mut terminal = OpenOptions::new().write(true).custom_flags(flags).open(&path).unwrap();
        loop {
            match terminal.write(&[b'x'; 512]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        Self { _holder: holder, path }
    }

    /// Exports to it.
    fn stuck(&self, rig: &Rig, with_command: impl FnOnce(&Rig, &str) -> Command) -> Command {
        with_command(rig, &format!("{NO_POLICIES} --otlp-file {}", self.path.display()))
    }
}

/// The time from the first of many events to the one after which the pipeline is stuck.
const EXPORTING: Duration = Duration::from_secs(1);

fn status(run: &mut Running, at_most: Duration) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = run.0.try_wait().unwrap() {
            return status;
        }
        assert!(began.elapsed() < at_most, "it has not ended");
        thread::sleep(Duration::from_millis(20));
    }
}

/// GPUs all of which report an error a second after the start.
fn rig() -> Rig {
    let gpus = "[[device]]\n".repeat(48);
    Rig::new(&format!("length_ms = 3600000\n{gpus}[[fault]]\nat_ms = 1000\nxid = 79"))
}

/// Guarantee: signals reach the command, its end is noticed, and the run ends with its status.
#[test]
fn signals_reach_command_while_the_pipeline_is_stuck() {
    let (rig, terminal) = (rig(), StuckTerminal::open());
    let script = "trap 'echo usr1' USR1; trap 'echo term; exit 7' TERM; echo ready
                  while :; do sleep 0.05; done";
    let mut command = terminal.stuck(&rig, |rig, arguments| with_command(rig, arguments, script));
    let (mut run, log) = started_at("metering all 48 GPUs", command.stdout(Stdio::piped()));
    let lines = Lines::of(&mut run.0);
    lines.wait_for("ready");
    log.wait_for("XID 79");
    thread::sleep(EXPORTING);
    for (signal, line) in [(Signal::USR1, "usr1"), (Signal::TERM, "term")] {
        send(run.0.id(), signal.as_raw()).unwrap();
        lines.wait_for(line);
    }
    assert_eq!(run.0.try_wait().unwrap(), None, "the pipeline is not stuck");
    // The end waits for metering for a while, and no longer if it is requested again.
    thread::sleep(Duration::from_secs(1));
    send(run.0.id(), Signal::TERM.as_raw()).unwrap();
    assert_eq!(status(&mut run, Duration::from_secs(30)).code(), Some(7));
}

#[test]
fn second_signal_ends_run_whose_pipeline_is_stuck() {
    let (rig, terminal) = (rig(), StuckTerminal::open());
    let mut command = terminal.stuck(&rig, phasemeter);
    let (mut run, log) = started_at("XID 79", &mut command);
    thread::sleep(EXPORTING);
    send(run.0.id(), Signal::TERM.as_raw()).unwrap();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(run.0.try_wait().unwrap(), None, "the pipeline is not stuck");
    send(run.0.id(), Signal::TERM.as_raw()).unwrap();
    let ended = status(&mut run, Duration::from_secs(30));
    assert_eq!(ended.signal(), Some(Signal::TERM.as_raw()));
    let rest = log.rest();
    assert!(rest.contains("metering did not end in time"), "{rest}");
}

/// Scenario: the process that meters is killed, by memory for example, or aborts.
/// Guarantee: the command runs on to its end, in the process group of the caller.
#[test]
fn command_outlives_the_process_that_meters() {
    let rig = rig();
    let dir = tempfile::tempdir().unwrap();
    for signal in [Signal::KILL, Signal::ILL] {
        let (group, done) = (dir.path().join("group"), dir.path().join("done"));
        let script = format!(
            "cut -d ' ' -f 5 /proc/$$/stat > {}; echo ready; sleep 1; echo done > {}",
            group.display(),
            done.display()
        );
        let mut command = with_command(&rig, NO_POLICIES, &script);
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut run = Running(command.spawn().unwrap());
        let pid = run.0.id();
        Lines::of(&mut run.0).wait_for("ready");
        send(pid, signal.as_raw()).unwrap();
        assert_eq!(status(&mut run, TIMEOUT).signal(), Some(signal.as_raw()));
        assert!(!done.exists(), "it has ended before");
        let began = Instant::now();
        while fs::read(&done).unwrap_or_default() != b"done\n" {
            assert!(began.elapsed() < TIMEOUT, "it did not outlive {signal:?}");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(fs::read_to_string(&group).unwrap().trim(), pid.to_string());
        fs::remove_file(&done).unwrap();
    }
}
