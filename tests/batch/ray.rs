//! A job of a real Ray: what it sets in the worker that has a GPU tells whose the GPU is.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fake_nvml::Fake;
use serde_json::Value;

use crate::{skip, wait, wait_for_end};

fn report(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Guarantee: the GPU of a worker is held by its job, which is an experiment of the run around it.
#[test]
fn job_of_a_worker_holds_its_gpu_and_is_an_experiment() {
    let Some(python) = env::var_os("RAY_PYTHON") else {
        skip("Ray");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let phasemeter = |command: &str, fake: &Fake| {
        let mut phasemeter = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        phasemeter.args(command.split(' ')).envs(fake.environment()).stdin(Stdio::null());
        phasemeter
    };

    // The run around the job.
    fs::create_dir(file("run")).unwrap();
    let fake = Fake::install(&file("run"), "[[device]]\n").unwrap();
    let mut run = phasemeter("run --price=3.6 --no-default-policies", &fake);
    run.arg("--report").arg(file("run.json")).arg("--").arg(&python);
    run.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/batch/ray_job.py"));
    run.arg(dir.path()).env("RAY_USAGE_STATS_ENABLED", "0");
    // A token would be written to the home directory.
    run.env("RAY_AUTH_MODE", "disabled");
    let mut run = run.spawn().unwrap();
    let worker: Value = wait("worker of Ray", || {
        assert_eq!(run.try_wait().unwrap(), None, "the job has ended");
        fs::read(file("worker.json")).ok().and_then(|text| serde_json::from_slice(&text).ok())
    });
    let job = worker["job"].as_str().unwrap();
    let own = usize::try_from(worker["gpus"][0].as_u64().unwrap()).unwrap();

    // The agent of the node, whose driver lists the worker on its GPU.
    let mut processes = [String::new(), String::new()];
    processes[own] = format!("{{ pid = {} }}", worker["pid"]);
    let device = |processes: &String| {
        format!(
            "[[device]]\n[[device.phase]]\nfor_ms = 600000\nutilization = 50\nprocesses = [{processes}]\n"
        )
    };
    fs::create_dir(file("agent")).unwrap();
    let fake = Fake::install(&file("agent"), &processes.each_ref().map(device).concat()).unwrap();
    let mut agent = phasemeter("agent --price=3.6 --no-default-policies --duration 5", &fake);
    agent.arg("--report").arg(file("agent.json")).arg("--socket").arg(file("agent.sock"));
    assert!(agent.status().unwrap().success());
    fs::write(file("done"), "").unwrap();
    assert!(wait_for_end("run of Ray", &mut run).success());

    let gpus = report(&file("agent.json"))["gpus"].as_array().unwrap().clone();
    let jobs = |gpu: &Value| -> Vec<Value> {
        gpu["holders"].as_array().unwrap().iter().map(|holder| holder["job"].clone()).collect()
    };
    assert_eq!(jobs(&gpus[own]), [job]);
    assert!(jobs(&gpus[1 - own]).is_empty(), "{:#}", gpus[1 - own]);
    let run = report(&file("run.json"));
    assert_eq!(run["experiment"]["attributes"]["ray.job.id"], job);
    let experiments = run["experiments"]["listed"].as_array().unwrap();
    assert_eq!(experiments[0]["id"], job, "{experiments:#?}");
}
