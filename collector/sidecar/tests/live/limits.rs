//! The command runs within any limits of the system, and without parts of it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{self, Command, Stdio};

use rustix::process::getuid;
use serde_json::Value;

use crate::Rig;
use crate::command_first::{ENDPOINT, SCRIPT, TWO, assert_ran};
use crate::mock_backend::Unreachable;
use crate::run::{NO_POLICIES, assert_billed, with_command};

/// Scenario: neither /proc nor /sys is mounted.
#[test]
fn command_runs_without_proc() {
    let rig = Rig::new(TWO);
    let run = with_command(&rig, NO_POLICIES, SCRIPT);
    let mut command = Command::new("unshare");
    // Without the privileges of root, in a namespace that has them.
    let namespaces: &[&str] = match getuid().is_root() {
        true => &["--mount"],
        false => &["--user", "--map-root-user", "--mount"],
    };
    let script = "mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec \"$0\" \"$@\"";
    command.args(namespaces).args(["sh", "-c", script]);
    command.arg(run.get_program()).args(run.get_args()).stdin(Stdio::null());
    copy_environment(&run, &mut command);
    assert_ran(&command.output().unwrap());
}

/// Gives a command the environment of another one.
fn copy_environment(from: &Command, to: &mut Command) {
    for (name, value) in from.get_envs() {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

/// Starts a command with a limit of a user without other processes.
fn limited(command: &Command, limit: &str) -> Command {
    let mut limited = match getuid().is_root() {
        // Of root, they are not limited.
        true => {
            let user = format!("--reuid={}", 100_000 + process::id());
            let mut limited = Command::new("setpriv");
            limited.args([&user, "--clear-groups", "--"]);
            limited
        }
        // A namespace has a count of its own.
        false => {
            let mut limited = Command::new("unshare");
            limited.args(["--user", "--"]);
            limited
        }
    };
    limited.args(["prlimit", limit, "--"]);
    limited.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    copy_environment(command, &mut limited);
    limited
}

/// Lets other users read a directory, or also write it.
fn open(dir: &Path, mode: u32) {
    fs::set_permissions(dir, Permissions::from_mode(mode)).unwrap();
}

/// Scenario: the system allows any number of threads and processes, from this process alone up to all
/// that a run starts: discovery, policies, export, the receiver, the work socket, sampling and others;
/// and so with files.
/// Guarantee: the command runs and keeps its status.
#[test]
fn command_runs_with_any_number_of_threads_and_files() {
    let rig = Rig::new(TWO);
    open(rig.fake.script().parent().unwrap(), 0o755);
    let (dir, backend) = (tempfile::tempdir().unwrap(), Unreachable::reserve());
    open(dir.path(), 0o777);
    let policies = dir.path().join("policies");
    fs::create_dir(&policies).unwrap();
    fs::write(policies.join("alfa.wasm"), crate::policies::recommender("alfa", '1')).unwrap();
    let report = dir.path().join("report.json");
    let arguments = format!(
        "--receive --policies {} --policy-limit start_ms=200 --report {}",
        policies.display(),
        report.display()
    );
    let mut reported = 0;
    let processes = (1..=24).map(|count| format!("--nproc={count}"));
    let files = [4, 6, 8, 10, 12, 14, 16, 18, 19, 20, 21, 22, 23, 24, 26, 32];
    let files = files.map(|count| format!("--nofile={count}"));
    for limit in processes.chain(files) {
        let _ = fs::remove_file(&report);
        let mut run = with_command(&rig, &arguments, SCRIPT);
        run.env(ENDPOINT, format!("http://localhost:{}", backend.address.port()));
        run.env("XDG_CACHE_HOME", dir.path());
        let output = limited(&run, &limit).output().unwrap();
        eprintln!("with {limit}: {}", output.status);
        let log = assert_ran(&output);
        let is_replaced = log.contains("takes the place of this one, unmetered");
        let is_excused = log.contains("report.json: cannot be written");
        assert!(is_replaced || is_excused || report.exists(), "with {limit}: {log}");
        assert!(!(is_replaced && report.exists()), "with {limit}: {log}");
        if report.exists() {
            let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
            report["gpus"].as_array().unwrap().iter().for_each(assert_billed);
            reported += 1;
        }
        assert!(limit != "--nproc=1" || is_replaced, "{log}");
    }
    assert!(reported > 3, "{reported}");
}
