//! The Python module of `otel-config/python`, and the wheel that has it and the binary.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Rig;
use crate::otlp::{self, Attributes};
use crate::python::python;
use crate::run::{PARENT, isolate, stderr};

const BINARY: &str = env!("CARGO_BIN_EXE_phasemeter");

pub(crate) const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../otel-config/python");

/// Two experiments, one in the given context; work, also of a forked process and after it; a report that the meter rejects.
const TRAINING: &str = "
import phasemeter
with phasemeter.experiment('first run', traceparent='CONTEXT', lr=0.1, note='two words'):
    for batch in range(10):
        phasemeter.work(samples=512, steps=1)
    phasemeter.checkpoint()
try:
    with phasemeter.experiment('second'):
        phasemeter.work(tokens=7)
        raise KeyError
except KeyError:
    pass
import os
if os.fork() == 0:
    with phasemeter.experiment('of a child'):
        phasemeter.work(tokens=5)
    raise SystemExit
os.wait()
phasemeter.work(tokens=2)
phasemeter.work(samples=0.5)
print(phasemeter.traceparent())
";

/// The module runs this without a meter, or with one at this path.
fn alone(python: &str, script: &str, socket: Option<&Path>) -> Output {
    let mut command = Command::new(python);
    command.args(["-c", script]).env("PYTHONPATH", DIRECTORY).env_remove("TRACEPARENT");
    match socket {
        Some(path) => command.env("PHASEMETER_SOCKET", path),
        None => command.env_remove("PHASEMETER_SOCKET"),
    };
    command.output().unwrap()
}

/// Scenario: `program` meters a program that uses the module, which `python` runs.
/// Guarantee: work, experiments, tags and context are in the report and the spans, the program gets the context of the
/// run, and what the meter rejects is logged.
fn assert_reports(program: &Path, python: &Path, module: Option<&str>) {
    let rig = Rig::new("[[device]]\n[[device.phase]]\nutilization = 50\n");
    let dir = tempfile::tempdir().unwrap();
    let [file, report] = ["otlp.json", "report.json"].map(|name| dir.path().join(name));
    let mut command = Command::new(program);
    isolate(&mut command, &rig);
    command.args(["run", "--otlp-file"]).arg(&file).arg("--report").arg(&report);
    command.envs(module.map(|directory| ("PYTHONPATH", directory)));
    command.arg("--").arg(python).args(["-c", &TRAINING.replace("CONTEXT", PARENT)]);
    let output = command.output().unwrap();
    let log = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{log}");
    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let counts = ["samples", "steps", "tokens"].map(|unit| &report["work"][unit]["count"]);
    assert_eq!(counts, [5120, 10, 14], "{}", report["work"]);
    assert!(log.contains("a report was rejected: error: invalid count"), "{log}");

    let captured = otlp::read(&fs::read_to_string(&file).unwrap());
    let spans: BTreeMap<_, (_, Attributes)> = captured
        .named("experiment")
        .into_iter()
        .map(|span| (span, otlp::attributes(&span.attributes)))
        .map(|(span, it)| (it["phasemeter.experiment.id"].clone(), (span, it)))
        .collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|it| format!("{it:02x}")).collect::<String>();
    let first = &spans["first-run"];
    assert!(PARENT.contains(&hex(&first.0.trace_id)));
    assert_eq!(first.1["phasemeter.experiment.tag.lr"], "0.1");
    assert_eq!(first.1["phasemeter.experiment.tag.note"], "two words");
    let second = &spans["second"].0;
    let parent = String::from_utf8(output.stdout).unwrap();
    let context = format!("-{}-{}-", hex(&second.trace_id), hex(&second.parent_span_id));
    assert!(parent.contains(&context), "{parent} without {context}");
    let listed = report["experiments"]["listed"].as_array().unwrap();
    let ids: Vec<_> = listed.iter().map(|experiment| &experiment["id"]).collect();
    assert_eq!(ids, ["first-run", "second", "of-a-child"]);
}

#[test]
fn module_reports_work_and_experiments() {
    let Some(python) = python() else { return };
    assert_reports(Path::new(BINARY), Path::new(python), Some(DIRECTORY));
}

/// Guarantee: without a meter, the module does nothing, and prints nothing.
#[test]
fn module_does_nothing_without_a_meter() {
    let Some(python) = python() else { return };
    let output = alone(python, TRAINING, None);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        (String::from_utf8_lossy(&output.stdout).as_ref(), stderr(&output).as_str()),
        ("None\n", "")
    );
}

/// Scenario: a meter that has ended, and one that reads nothing while megabytes are reported.
/// Guarantee: the program goes on within seconds, ends as without a meter, and the problem is logged.
#[test]
fn module_goes_on_without_its_meter() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let [ended, deaf] = ["ended", "deaf"].map(|name| dir.path().join(name));
    drop(UnixListener::bind(&ended).unwrap());
    let _listener = UnixListener::bind(&deaf).unwrap();
    let flood = "
import phasemeter
for batch in range(100_000):
    phasemeter.work(samples=batch)
print('trained')
";
    for socket in [&ended, &deaf] {
        let began = Instant::now();
        let output = alone(python, flood, Some(socket));
        let (status, log) = (output.status.code(), stderr(&output));
        assert_eq!(status, Some(0), "{log}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "trained\n");
        let problems =
            log.lines().filter(|line| line.starts_with("work is not reported from now on"));
        assert_eq!(problems.count(), 1, "{log}");
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }
}

/// Scenario: the wheel is built from the binary, and installed into a new environment without an index.
/// Guarantee: its program meters a run that uses its module, and its bill of materials is where installers look for it.
#[test]
fn wheel_meters_a_run() {
    if env::var_os("TEST_TOOLCHAINS").is_none_or(|path| path.is_empty()) {
        // Not by `eprintln!`: the test harness captures that.
        let skipped = b"\nSKIPPED: wheel (no toolchains): run `make test-backends`\n";
        io::stderr().write_all(skipped).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [files, wheels, environment] =
        ["files", "wheels", "venv"].map(|name| dir.path().join(name));
    fs::create_dir(&files).unwrap();
    let binary = files.join("phasemeter");
    succeed(Command::new("strip").arg("-o").arg(&binary).arg(BINARY));
    fs::write(files.join("phasemeter.cdx.json"), "{}").unwrap();
    succeed(Command::new(format!("{DIRECTORY}/build.sh")).arg(&binary).arg(&wheels));
    let wheel = only(&wheels);
    let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
    let expected = concat!("phasemeter-", env!("CARGO_PKG_VERSION"), "-py3-none-manylinux_2_");
    assert!(
        name.starts_with(expected) && name.ends_with(&format!("_{}.whl", env::consts::ARCH)),
        "{name}"
    );

    succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    let [python, pip, program] =
        ["python", "pip", "phasemeter"].map(|it| environment.join("bin").join(it));
    succeed(Command::new(pip).args(["install", "--quiet", "--no-index"]).arg(&wheel));
    assert_eq!(fs::read(&program).unwrap(), fs::read(&binary).unwrap());
    let listed = "from importlib.metadata import files; print(*files('phasemeter'))";
    let listed = succeed(Command::new(&python).args(["-c", listed]));
    assert!(listed.contains("dist-info/sboms/phasemeter.cdx.json"), "{listed}");
    assert_reports(&program, &python, None);
}

fn only(directory: &Path) -> PathBuf {
    let mut entries = fs::read_dir(directory).unwrap();
    let entry = entries.next().unwrap().unwrap();
    assert!(entries.next().is_none());
    entry.path()
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}
