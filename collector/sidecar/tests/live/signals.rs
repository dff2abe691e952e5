//! `phasemeter run` between its launcher and its command: signals, process groups and terminals.
//!
//! The command is this test's own executable, which reports each signal that it receives. All signals
//! are blocked for it, so that none is lost, and real-time signals are queued.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_process::{SignalSet, send};
use rustix::process::{Signal, setpgid};

use crate::run::{Running, phasemeter, started, with_command};
use crate::{Rig, TIMEOUT};

/// The test that is the command, and the variable that it requires.
const REPORTER: &str = "signals::report_signals";
pub(crate) const REPORT: &str = "PHASEMETER_TEST_REPORT_SIGNALS";

/// The values of [`REPORT`]: in the process group of the launcher, or in one of its own.
pub(crate) const SAME_GROUP: &str = "same group";
const OWN_GROUP: &str = "own group";

/// The last real-time signal, which ends the command. A process receives those with lower numbers
/// first.
pub(crate) const LAST: i32 = 64;

/// Signals that this test cannot send: a process cannot receive them (KILL, STOP), or not while others
/// are blocked (stops and faults). CHLD is not for the command.
const NOT_SENT: [Signal; 11] = [
    Signal::KILL,
    Signal::STOP,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::BUS,
    Signal::FPE,
    Signal::ILL,
    Signal::SEGV,
    Signal::TRAP,
    Signal::CHILD,
];

/// The command of the tests below.
#[test]
#[ignore = "started by other tests"]
fn report_signals() {
    let Ok(group) = env::var(REPORT) else { return };
    if group == OWN_GROUP {
        setpgid(None, None).unwrap();
    }
    println!("ready");
    loop {
        let number = SignalSet::all().receive().number;
        println!("signal {number}");
        if number == LAST {
            return;
        }
    }
}

/// The command that reports signals, as arguments of `phasemeter run`.
pub(crate) fn reporter() -> [String; 5] {
    let executable = env::current_exe().unwrap();
    let executable = executable.to_str().unwrap();
    [executable, "--ignored", "--exact", REPORTER, "--nocapture"].map(str::to_owned)
}

/// The output of a command, line by line.
pub(crate) struct Lines(pub(crate) Receiver<String>);

impl Lines {
    pub(crate) fn of(child: &mut Child) -> Self {
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = stdout.lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line)).ok();
        });
        Self(lines)
    }

    pub(crate) fn wait_for(&self, text: &str) {
        loop {
            let line = self.0.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|error| panic!("no `{text}`: {error}"));
            if line.trim_end().ends_with(text) {
                return;
            }
        }
    }

    /// The signals reported until the command ends.
    fn signals(&self) -> Vec<i32> {
        let number = |line: String| line.trim_end().strip_prefix("signal ")?.parse::<i32>().ok();
        let mut signals = Vec::new();
        loop {
            let line = self.0.recv_timeout(TIMEOUT);
            signals.extend(number(line.unwrap_or_else(|error| panic!("{signals:?}: {error}"))));
            if signals.last() == Some(&LAST) {
                return signals;
            }
        }
    }
}

/// Waits for a process to end.
pub(crate) fn wait(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(began.elapsed() < TIMEOUT, "it has not ended");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Standard signals and a few real-time signals, but the last one.
fn all_signals() -> Vec<i32> {
    let not_sent = NOT_SENT.map(Signal::as_raw);
    (1..=31).chain([34, 35, 50, LAST - 1]).filter(|signal| !not_sent.contains(signal)).collect()
}

#[test]
fn each_signal_reaches_command_once() {
    let rig = Rig::new("[[device]]");
    for group in [SAME_GROUP, OWN_GROUP] {
        let mut command = phasemeter(&rig, "-- env --block-signal");
        command.args(reporter()).env(REPORT, group).process_group(0).stdout(Stdio::piped());
        let mut run = Running(command.stderr(Stdio::null()).spawn().unwrap());
        let (pid, lines) = (run.0.id(), Lines::of(&mut run.0));
        lines.wait_for("ready");

        for signal in all_signals() {
            send(pid, signal).unwrap();
            lines.wait_for(&format!("signal {signal}"));
        }
        for signal in all_signals() {
            let signal = format!("-{signal}");
            let killed = Command::new("kill").args([&signal, "--", &format!("-{pid}")]).status();
            assert!(killed.unwrap().success());
        }
        // Its number is the highest, so it is the last that is forwarded and received.
        send(pid, LAST).unwrap();
        let mut received = lines.signals();
        received.sort_unstable();
        assert_eq!(received, [all_signals(), vec![LAST]].concat(), "{group}");
        assert_eq!(wait(&mut run.0), Some(0));
    }
}

/// The masks of `/proc/self/status`, without the two signals that the C library uses itself: starting a
/// thread resets them.
fn masks(status: &str) -> Vec<(String, u64)> {
    let mask = |line: &str| {
        let (name, mask) = line.split_once(":\t").unwrap();
        (name.to_owned(), u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31))
    };
    status.lines().map(mask).collect()
}

/// A process inherits what `env` blocks and ignores, however it is started.
#[test]
fn command_inherits_blocked_and_ignored_signals() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.json");
    let settings = [
        &["--default-signal", "--block-signal=CHLD,TERM,USR2,RTMIN"][..],
        &["--default-signal", "--ignore-signal=PIPE,HUP,USR1,CHLD,XFSZ"],
        &["--default-signal"],
    ];
    let own = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    for settings in settings {
        let direct = Command::new("env").args(settings).args(own).output().unwrap();
        let metered = phasemeter(&rig, &format!("--report {}", report.display()));
        let mut command = Command::new("env");
        command.args(settings).arg(metered.get_program()).args(metered.get_args());
        for (name, value) in metered.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.arg("--").args(own).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut run = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        let lines = Lines::of(&mut run.0);
        assert_eq!(wait(&mut run.0), Some(0));
        let inherited: Vec<_> = lines.0.iter().collect();
        let direct = masks(&String::from_utf8(direct.stdout).unwrap());
        assert_eq!(masks(&inherited.join("\n")), direct, "{settings:?}");
        assert_eq!(direct.len(), 2);
    }
}

/// A terminal with `phasemeter run` as the leader of its session.
fn in_terminal(rig: &Rig, arguments: &str, command: &[String], group: &str) -> Running {
    let metered = phasemeter(rig, arguments);
    let quoted = |word: &str| format!("'{word}'");
    let words = [metered.get_program()].into_iter().chain(metered.get_args());
    let words = words.map(|word| quoted(word.to_str().unwrap()));
    let words: Vec<_> = words.chain(command.iter().map(|word| quoted(word))).collect();
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--command", &format!("exec {}", words.join(" ")), "/dev/null"]);
    terminal.envs(rig.fake.environment()).env(REPORT, group).env("SHELL", "/bin/sh");
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    Running(terminal.spawn().unwrap())
}

#[test]
fn interrupt_of_terminal_reaches_command_once() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    for group in [SAME_GROUP, OWN_GROUP] {
        let report = dir.path().join(group.replace(' ', "-"));
        let command = ["--", "env", "--block-signal"].map(str::to_owned);
        let command = [&command[..], &reporter()].concat();
        let report_file = format!("--report {}", report.display());
        let mut terminal = in_terminal(&rig, &report_file, &command, group);
        let lines = Lines::of(&mut terminal.0);
        lines.wait_for("ready");
        let mut keyboard = terminal.0.stdin.take().unwrap();
        let metered = child_of(terminal.0.id());
        // Ctrl-C.
        keyboard.write_all(b"\x03").unwrap();
        lines.wait_for("signal 2");
        send(metered, LAST).unwrap();
        assert_eq!(lines.signals(), [LAST], "{group}");
        assert_eq!(wait(&mut terminal.0), Some(0));
        assert!(fs::metadata(&report).unwrap().len() > 0);
    }
}

/// The only child of a process.
fn child_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().unwrap_or_else(|error| panic!("{children:?}: {error}"))
}

#[test]
fn command_ends_when_its_terminal_hangs_up() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.json");
    let command = ["--", "sh", "-c", "echo ready; exec sleep 300"].map(str::to_owned);
    let report_file = format!("--report {}", report.display());
    let mut terminal = in_terminal(&rig, &report_file, &command, SAME_GROUP);
    Lines::of(&mut terminal.0).wait_for("ready");
    // It closes the terminal.
    drop(terminal);
    let began = Instant::now();
    while fs::metadata(&report).map_or(0, |file| file.len()) == 0 {
        assert!(began.elapsed() < TIMEOUT, "the run has not ended");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The launcher starts a child and becomes `phasemeter`, which then has a child that it did not start.
#[test]
fn children_of_launcher_are_reaped() {
    let rig = Rig::new("[[device]]");
    let metered = with_command(&rig, "", "while [ -e /proc/$OTHER ]; do sleep 0.05; done; exit 7");
    let mut command = Command::new("sh");
    // The child ends once its parent is another program.
    let child = "(while [ $(cat /proc/$$/comm) = sh ]; do sleep 0.05; done) &";
    command.args(["-c", &format!("{child} export OTHER=$!; exec \"$0\" \"$@\"")]);
    command.arg(metered.get_program()).args(metered.get_args()).envs(rig.fake.environment());
    let mut run = Running(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    assert_eq!(wait(&mut run.0), Some(7));
}

/// A driver that reports XIDs for a minute: the first after the first readings is logged. On a busy machine
/// these may take a while, and drivers report no earlier ones.
fn rig_with_xid() -> Rig {
    let xids = (1..=120).map(|number| format!("\n[[fault]]\nat_ms = {}\nxid = 79", 500 * number));
    Rig::new(&format!("[[device]]{}", xids.collect::<String>()))
}

#[test]
fn command_decides_how_signals_end_run() {
    let cases = [
        // Batch systems use it as a warning.
        (Signal::USR1, "trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done", 7),
        // The command ignores it and is waited for.
        (Signal::TERM, "trap '' TERM; echo ready; sleep 0.7; exit 5", 5),
        (Signal::TERM, "echo ready; exec sleep 60", 143),
    ];
    for (signal, script, status) in cases {
        let rig = rig_with_xid();
        let mut command = with_command(&rig, "", script);
        let (mut child, log) = started(command.stdout(Stdio::piped()));
        Lines::of(&mut child.0).wait_for("ready");
        log.wait_for("XID 79");
        send(child.0.id(), signal.as_raw()).unwrap();
        let report = log.rest();
        assert_eq!(child.0.wait().unwrap().code(), Some(status), "{script}: {report}");
        assert!(report.contains("Bill"), "{report}");
    }
}

#[test]
fn signal_ends_run_with_report() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let rig = rig_with_xid();
        let (mut child, log) = started(&mut phasemeter(&rig, ""));
        log.wait_for("XID 79");
        send(child.0.id(), signal.as_raw()).unwrap();
        let report = log.rest();
        assert_eq!(child.0.wait().unwrap().code(), Some(0), "{report}");
        assert!(report.contains("Bill"), "{report}");
    }
}
