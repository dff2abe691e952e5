//! Training by a real torchrun: two nodes on this machine, each with a run of its own, one of which fails once.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fake_nvml::Fake;
use serde_json::Value;

use crate::{skip, wait_for_end};

/// A GPU at work.
const DRIVER: &str = "[[device]]\n[[device.phase]]\nfor_ms = 600000\nutilization = 90\n";

/// A node of the training, and its report.
struct Node {
    child: Child,
    report: PathBuf,
    otlp: PathBuf,
}

/// Runs both nodes with these arguments of the program; they meet at a port of their own. Returns their reports and spans; `None` if there is no torchrun.
fn train(dir: &Path, port: u16, arguments: &str) -> Option<Vec<(Value, String)>> {
    let Some(python) = env::var_os("TORCH_PYTHON") else {
        skip("PyTorch");
        return None;
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/batch/train.py");
    let start = |node: usize| {
        let own = dir.join(node.to_string());
        fs::create_dir(&own).unwrap();
        let uuid = format!("GPU-00000000-0000-0000-0000-00000000000{node}");
        let script = DRIVER.replacen("[[device]]", &format!("[[device]]\nuuid = \"{uuid}\""), 1);
        let fake = Fake::install(&own, &script).unwrap();
        let [report, otlp] = ["report.json", "spans.json"].map(|name| own.join(name));
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        command.args("run --price=3.6 --no-default-policies".split(' '));
        command.arg("--report").arg(&report).arg("--otlp-file").arg(&otlp).arg("--").arg(&python);
        let options = "-m torch.distributed.run --nnodes=2 --nproc_per_node=1 --max_restarts=2 \
                       --rdzv_id=train-7 --rdzv_backend=c10d \
                       --monitor_interval=1 --redirects=1 --tee=1";
        // PyTorch 1.13 on Python 3.11 fails if nothing is redirected.
        command
            .args(options.split_whitespace())
            .arg("--rdzv_endpoint")
            .arg(format!("127.0.0.1:{port}"));
        command.arg("--log_dir").arg(own.join("log"));
        command.arg(&program).arg(dir);
        command.args(arguments.split_whitespace());
        command.envs(fake.environment()).env("OMP_NUM_THREADS", "1").stdin(Stdio::null());
        command.env("OTEL_RESOURCE_ATTRIBUTES", format!("host.name=node-{node}"));
        Node { child: command.spawn().unwrap(), report, otlp }
    };
    let nodes = [start(0), start(1)];
    let ended = nodes.map(|mut node| {
        assert!(wait_for_end("node of torchrun", &mut node.child).success());
        let report = serde_json::from_slice(&fs::read(&node.report).unwrap()).unwrap();
        (report, fs::read_to_string(&node.otlp).unwrap())
    });
    Some(ended.into())
}

/// The attempts to run the job: restarts, seconds and cost of each.
fn attempts(report: &Value) -> Vec<&Value> {
    let listed = report["experiments"]["listed"].as_array();
    listed.unwrap_or_else(|| panic!("{report:#}")).iter().collect()
}

/// An amount with nine decimals.
fn nano_usd(dollars: &Value) -> i64 {
    dollars.as_str().unwrap().replace('.', "").parse().unwrap()
}

fn restarts(report: &Value) -> Vec<&str> {
    let sentences = report["sampling"].as_array().unwrap().iter().filter_map(Value::as_str);
    sentences.filter(|sentence| sentence.contains("restarted")).collect()
}

/// Guarantee: the runs of two nodes have the ID of their job in common, by which one bill has both; each attempt is an
/// experiment with what it cost, also after its processes have overwritten their variables; what a restart lost is
/// stated, with its doubt.
#[test]
fn nodes_of_a_job_share_its_id_and_state_what_a_restart_lost() {
    let dir = tempfile::tempdir().unwrap();
    let Some(nodes) = train(dir.path(), 29_411, "") else { return };
    for (report, otlp) in &nodes {
        let attributes = &report["experiment"]["attributes"];
        assert_eq!(attributes["torchelastic.run.id"], "train-7", "{attributes:#}");
        let [first, second] = attempts(report)[..] else { panic!("{:#}", report["experiments"]) };
        let mut cost = nano_usd(&report["experiments"]["unattributed_usd"]);
        for attempt in [first, second] {
            assert_eq!(attempt["id"], "train-7");
            assert_eq!(attempt["tags"]["torchelastic.run.id"], "train-7");
            // Of eight at least, from when its processes were noticed.
            assert!(attempt["gpu_seconds"].as_f64().unwrap() >= 4.0, "{attempt:#}");
            cost += nano_usd(&attempt["cost_usd"]);
        }
        assert!(first["end"].as_str() <= second["start"].as_str());
        assert_eq!(cost, nano_usd(&report["gpus"][0]["cost_usd"]));
        let [restart] = restarts(report)[..] else { panic!("{:#}", report["sampling"]) };
        let start = "torchrun job train-7 restarted";
        assert!(restart.starts_with(start) && restart.contains("no checkpoint"), "{restart}");
        assert_eq!(otlp.matches("phasemeter.experiment.tag.torchelastic.run.id").count(), 2);
    }
    // Of the node whose rank failed. The other one's agent counts no restart.
    let counts = nodes.iter().map(|(report, _)| attempts(report)[1]["tags"]["restart"].as_str());
    let mut counts: Vec<_> = counts.collect();
    counts.sort_unstable();
    assert_eq!(counts, [Some("0"), Some("1")]);

    let mut bill = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    bill.args("bill --by job --format json".split(' '));
    bill.args([0, 1].map(|node| dir.path().join(format!("{node}/report.json"))));
    let output = bill.output().unwrap();
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [row] = &bill["rows"].as_array().unwrap()[..] else { panic!("{bill:#}") };
    assert!(row.to_string().contains("train-7"), "{row:#}");
}

/// Guarantee: of a job that reports checkpoints, only the work since the last one may be repeated.
#[test]
fn work_since_the_last_checkpoint_may_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let Some(nodes) = train(dir.path(), 29_412, "--checkpoints") else { return };
    for (report, _) in &nodes {
        let [restart] = restarts(report)[..] else { panic!("{:#}", report["sampling"]) };
        assert!(restart.contains("since the last checkpoint"), "{restart}");
    }
}
