//! Jobs of a real Slurm: `tests/batch/node` starts it, with the scripts of `otel-config/slurm`.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fake_nvml::Fake;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{skip, wait};

/// Two idle GPUs.
const DRIVER: &str = "[[device]]\n[[device]]\n";

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The node, of which one test at a time is the only user.
struct Node {
    dir: PathBuf,
    fake: Fake,
    _alone: MutexGuard<'static, ()>,
}

impl Node {
    /// `None` if there is none, and the test that calls this is reported as skipped.
    fn get() -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let Some(dir) = env::var_os("SLURM_NODE").map(PathBuf::from) else {
            skip("Slurm");
            return None;
        };
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // Readable by the user of the jobs, as the directory of a build need not be.
        let binary = dir.join("phasemeter");
        if !binary.exists() {
            fs::copy(env!("CARGO_BIN_EXE_phasemeter"), &binary).unwrap();
        }
        let fake = Fake::install(&dir, DRIVER).unwrap();
        Some(Self { dir, fake, _alone: alone })
    }

    fn job_file(&self, name: &str) -> PathBuf {
        self.dir.join("jobs").join(name)
    }

    /// A command of a user who may not do much, with the node's driver.
    fn user(&self, command: &str) -> Command {
        let mut user = Command::new("setpriv");
        user.args("--reuid nobody --regid nogroup --clear-groups --".split(' ')).arg(command);
        user.envs(self.fake.environment()).env("XDG_RUNTIME_DIR", "/nowhere");
        user.env("OTEL_RESOURCE_ATTRIBUTES", "team=nlp").env("TRACEPARENT", TRACEPARENT);
        user.current_dir(self.dir.join("jobs")).stdin(Stdio::null());
        user
    }

    /// Submits a batch script of this user; its output is the file `NAME.out`.
    fn batch(&self, name: &str, options: &str, script: &str) -> Command {
        let path = self.job_file(&format!("{name}.sh"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mut sbatch = self.user("sbatch");
        sbatch.args(["--parsable", "--account=physics", "--job-name", name]);
        sbatch.arg("--output").arg(self.job_file(&format!("{name}.out")));
        sbatch.args(options.split_whitespace()).arg(path);
        sbatch
    }

    fn output(&self, name: &str) -> String {
        fs::read_to_string(self.job_file(&format!("{name}.out"))).unwrap_or_default()
    }

    /// An agent that follows the jobs, and writes this report.
    fn agent(&self, report: &Path, otlp: &Path) -> Child {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        agent.args(
            "agent --price=3.6 --no-default-policies --slurm-jobs /run/phasemeter/jobs".split(' '),
        );
        agent.arg("--report").arg(report).arg("--otlp-file").arg(otlp);
        agent.arg("--socket").arg(self.dir.join("agent.sock"));
        agent.envs(self.fake.environment()).env_remove("OTEL_RESOURCE_ATTRIBUTES");
        let log = File::create(self.dir.join("agent.log")).unwrap();
        agent.stdin(Stdio::null()).stderr(log).spawn().unwrap()
    }

    fn log_of_agent(&self) -> String {
        fs::read_to_string(self.dir.join("agent.log")).unwrap()
    }

    /// Whether the node takes jobs.
    fn is_idle() -> bool {
        stdout(&Command::new("sinfo").args(["--noheader", "--format", "%T"]).output().unwrap())
            == "idle"
    }
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap().trim().to_owned()
}

/// The report, once it is there as a whole.
fn report(path: &Path) -> Value {
    wait("report", || serde_json::from_slice(&fs::read(path).ok()?).ok())
}

fn interrupt(mut child: Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Guarantee: a job holds its GPU from its prolog to its epilog, with its user, account and queue, and
/// no other GPU; its tasks have it in their resource, once, beside what the user gave.
#[test]
fn job_holds_its_gpu_from_prolog_to_epilog() {
    let Some(node) = Node::get() else { return };
    let [written, otlp] = ["agent.json", "agent.otlp"].map(|name| node.dir.join(name));
    let agent = node.agent(&written, &otlp);
    wait("agent meters", || node.log_of_agent().contains("metering all 2 GPUs").then_some(()));

    let script = "echo batch $OTEL_RESOURCE_ATTRIBUTES
        srun sh -c 'echo step $OTEL_RESOURCE_ATTRIBUTES; echo trace $TRACEPARENT'
        cat /run/phasemeter/jobs/$SLURM_JOB_ID
        sleep 4";
    let job = stdout(&node.batch("held", "--wait --gres=gpu:1", script).output().unwrap());
    let seen = node.output("held");
    let resource = format!(
        "team=nlp,slurm.job.id={job},slurm.job.user=nobody,slurm.job.account=physics,slurm.job.partition=gpus"
    );
    for line in [
        format!("batch {resource}"),
        format!("step {resource}"),
        format!("trace {TRACEPARENT}"),
        "SLURM_JOB_GPUS=0".to_owned(),
    ] {
        assert!(seen.lines().any(|seen| seen == line), "{line} in {seen}");
    }
    let file = Path::new("/run/phasemeter/jobs").join(&job);
    wait("epilog", || (!file.exists()).then_some(()));
    // The agent polls once per second.
    std::thread::sleep(std::time::Duration::from_secs(2));
    interrupt(agent);

    let report = report(&written);
    let gpus = report["gpus"].as_array().unwrap();
    let jobs = |gpu: &Value| -> Vec<Value> {
        let holders = gpu["holders"].as_array().cloned().unwrap_or_default();
        holders.into_iter().filter(|holder| holder["job"].is_string()).collect()
    };
    assert!(jobs(&gpus[1]).is_empty(), "{:#}", gpus[1]);
    let [holder] = &jobs(&gpus[0])[..] else { panic!("{:#}", gpus[0]) };
    let expected = [("job", &*job), ("user", "nobody"), ("project", "physics"), ("queue", "gpus")];
    for (name, value) in expected {
        assert_eq!(holder[name], value, "{holder:#}");
    }
    let held = holder["granted_seconds"].as_f64().unwrap();
    let whole = gpus[0]["span_seconds"].as_f64().unwrap();
    assert!((2.0..whole).contains(&held), "{held} of {whole} s");
    let exported = fs::read_to_string(&otlp).unwrap();
    let attribute = r#""phasemeter.allocation.job","value":{"stringValue":""#.to_owned() + &job;
    assert!(exported.contains(&attribute), "{attribute}");
    assert!(Node::is_idle());
}

/// Guarantee: a job that is cancelled in mid-run leaves its report, which names it, in the trace in which
/// it was submitted.
#[test]
fn job_that_is_cancelled_leaves_its_report() {
    let Some(node) = Node::get() else { return };
    let [written, otlp] = ["cancelled.json", "cancelled.otlp"].map(|name| node.job_file(name));
    let script = format!(
        "exec {} run --price=3.6 --no-default-policies --report {} --otlp-file {} -- sh -c 'echo begun; sleep 600'",
        node.dir.join("phasemeter").display(),
        written.display(),
        otlp.display(),
    );
    let job = stdout(&node.batch("cancelled", "--gres=gpu:1", &script).output().unwrap());
    wait("job begins", || node.output("cancelled").contains("begun").then_some(()));
    assert!(Command::new("scancel").arg(&job).status().unwrap().success());
    let report = report(&written);
    let attributes = &report["experiment"]["attributes"];
    for (name, value) in [
        ("slurm.job.id", &*job),
        ("slurm.job.name", "cancelled"),
        ("slurm.job.user", "nobody"),
        ("slurm.job.account", "physics"),
        ("slurm.job.partition", "gpus"),
        ("team", "nlp"),
    ] {
        assert_eq!(attributes[name], value, "{attributes:#}");
    }
    assert_eq!(report["gpus"].as_array().unwrap().len(), 1, "{:#}", report["gpus"]);
    let trace = TRACEPARENT.split('-').nth(1).unwrap();
    wait("spans", || fs::read_to_string(&otlp).ok()?.contains(trace).then_some(()));
    wait("node is idle", || Node::is_idle().then_some(()));
}

/// Scenario: as by `nsenter`, the leader of the process group is outside of the PID namespace, so that the group has no
/// ID in it.
/// Guarantee: a signal reaches the command, once.
#[test]
fn signal_is_forwarded_if_its_group_has_no_id() {
    let Some(node) = Node::get() else { return };
    let group = fs::read_to_string("/proc/self/stat").unwrap();
    let group = group.rsplit_once(')').unwrap().1.split_whitespace().nth(2).unwrap();
    assert_eq!(group, "0");
    let mut run = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    run.args("run --price=3.6 --no-default-policies -- sh -c".split(' '));
    run.arg("trap 'echo term' TERM; echo ready; while :; do sleep 0.1; done & wait; kill $!");
    run.envs(node.fake.environment()).stdin(Stdio::null());
    let output = node.job_file("signal.out");
    let mut run = run.stdout(File::create(&output).unwrap()).spawn().unwrap();
    let seen = || fs::read_to_string(&output).unwrap();
    wait("command", || seen().contains("ready").then_some(()));
    let pid = Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    wait("end", || run.try_wait().unwrap());
    assert_eq!(seen(), "ready\nterm\n");
}

/// Guarantee: a job runs to completion with its own status, and its node takes others, even if no driver
/// can be reached and the prolog cannot write its file.
#[test]
fn job_without_driver_and_job_files_runs_to_completion() {
    let Some(node) = Node::get() else { return };
    let jobs = Path::new("/run/phasemeter");
    let _ = fs::remove_dir_all(jobs);
    fs::write(jobs, "").unwrap();
    let script = format!(
        "LD_LIBRARY_PATH= {} run --no-default-policies -- sh -c 'echo done; exit 3'",
        node.dir.join("phasemeter").display()
    );
    let output = node.batch("plain", "--wait --gres=gpu:2", &script).output().unwrap();
    fs::remove_file(jobs).unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?} {}", node.output("plain"));
    assert!(node.output("plain").contains("done"));
    wait("node is idle", || Node::is_idle().then_some(()));
}
