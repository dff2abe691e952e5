//! The container image for amd64 and arm64: one index, and the binary for arm64, which QEMU emulates.
//!
//! `make test-arm64` builds both and sets `PHASEMETER_IMAGE` to their directory, and `FAKE_NVML_ARM64` to the fake
//! driver's library for arm64.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Evaluations of policies may take as long as they do on a busy machine that emulates.
const UNHURRIED: &str = "deadline_ms=600000";

/// Where the image was built: its archive, and a directory with the files of each platform.
struct Image(PathBuf);

/// The image; `None` without one, and the test that calls this is reported as skipped.
fn image() -> Option<Image> {
    if let Some(dir) = env::var_os("PHASEMETER_IMAGE") {
        return Some(Image(dir.into()));
    }
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let skipped = format!("\nSKIPPED: {test} (no image): run `make test-arm64`\n");
    // Not captured, as what `println!` prints is.
    io::stdout().write_all(skipped.as_bytes()).unwrap();
    None
}

impl Image {
    fn root(&self, architecture: &str) -> PathBuf {
        self.0.join(architecture)
    }

    /// The binary for arm64, with the libraries of its image only, as this machine's own program.
    fn arm64(&self) -> Command {
        let root = self.root("arm64");
        let mut command = Command::new(repository("tests/image/emulate"));
        command.arg(&root).arg(root.join("usr/bin/phasemeter"));
        isolate(&mut command);
        command
    }
}

/// The binary that cargo built beside this test.
fn native() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    isolate(&mut command);
    command
}

/// Without variables that would affect the binary.
fn isolate(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if ["OTEL_", "PHASEMETER_", "NVIDIA_", "CUDA_", "TRACE"]
            .iter()
            .any(|it| text.starts_with(it))
        {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[track_caller]
fn succeed(command: &mut Command) -> Vec<u8> {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    stdout
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn sha256(file: &Path) -> String {
    let digest = Sha256::digest(fs::read(file).unwrap());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The only element.
fn only(list: &Value) -> &Value {
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 1, "{list:#?}");
    &list[0]
}

/// Guarantee: the archive has one index of two platforms, whose blobs have their digests and lengths; each platform has
/// labels, a binary of its architecture, the bill of materials of that binary, and entries for scanners.
#[test]
fn index_has_both_platforms() {
    let Some(image) = image() else { return };
    let dir = tempfile::tempdir().unwrap();
    let unpack = |archive: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        succeed(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(to));
    };
    let layout = dir.path().join("layout");
    unpack(&image.0.join("phasemeter.tar"), &layout);
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let file = layout.join("blobs/sha256").join(digest);
        assert_eq!(
            (sha256(&file).as_str(), &descriptor["size"]),
            (digest, &file.metadata().unwrap().len().into())
        );
        file
    };
    let index = json(&blob(only(&json(&layout.join("index.json"))["manifests"])));
    // The field `e_machine` of ELF.
    let mut platforms = BTreeMap::from([("amd64", 0x3e_u8), ("arm64", 0xb7)]);
    for descriptor in index["manifests"].as_array().unwrap() {
        let architecture = descriptor["platform"]["architecture"].as_str().unwrap();
        let machine = platforms.remove(architecture).unwrap();
        assert_eq!(descriptor["platform"]["os"], "linux");
        let manifest = json(&blob(descriptor));
        let config = json(&blob(&manifest["config"]));
        assert_eq!(config["architecture"], architecture);
        let labels = config["config"]["Labels"].as_object().unwrap();
        assert_eq!(labels["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
        assert!(labels["org.opencontainers.image.revision"].as_str().unwrap().len() >= 40);

        let root = dir.path().join(architecture);
        unpack(&blob(only(&manifest["layers"])), &root);
        let binary = root.join("usr/bin/phasemeter");
        assert_eq!(fs::read(&binary).unwrap()[18], machine);
        let documents = root.join("usr/share/doc/phasemeter");
        let materials = json(&documents.join("phasemeter.cdx.json"));
        let crates = materials["components"].as_array().unwrap();
        assert!(crates.iter().any(|it| it["name"] == "wasmtime"), "{} crates", crates.len());
        let provenance = json(&documents.join("phasemeter.provenance.json"));
        for (subject, file) in provenance["subject"]
            .as_array()
            .unwrap()
            .iter()
            .zip([&binary, &documents.join("phasemeter.cdx.json")])
        {
            assert_eq!(subject["digest"]["sha256"], sha256(file), "{}", file.display());
        }
        let packages = root.join("var/lib/dpkg/status.d");
        let entry = fs::read_to_string(packages.join("libc6")).unwrap();
        assert!(entry.contains(&format!("\nArchitecture: {architecture}\n")), "{entry}");
    }
    assert!(platforms.is_empty(), "missing: {platforms:?}");
}

/// Guarantee: on arm64, the demo prints the same bytes as on this machine, and its report is the same: phases, dollars
/// and the recommendations of the default policies, which are interpreted on both.
#[test]
fn demo_prints_the_same_on_arm64() {
    let Some(image) = image() else { return };
    let dir = tempfile::tempdir().unwrap();
    let demo = |mut command: Command, name: &str| {
        let file = dir.path().join(name);
        let text =
            succeed(command.args(["demo", "--policy-limit", UNHURRIED, "--report"]).arg(&file));
        (String::from_utf8(text).unwrap(), json(&file))
    };
    let (expected, report) = demo(native(), "native");
    let (text, emulated) = demo(image.arm64(), "arm64");
    assert_same_text(&text, &expected);
    assert_eq!(emulated, report);
    let recommendations = report["recommendations"].as_array().unwrap();
    assert!(recommendations.len() > 5, "{recommendations:#?}");
}

#[track_caller]
fn assert_same_text(text: &str, expected: &str) {
    for (line, expected) in text.lines().zip(expected.lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(text, expected);
}

/// Scenario: a policy of a user, in a file.
/// Guarantee: on arm64 it is compiled to code of that processor and executed, or interpreted, and prints what it prints
/// here, compiled and interpreted.
#[test]
fn policy_prints_the_same_on_arm64() {
    let Some(image) = image() else { return };
    let dir = tempfile::tempdir().unwrap();
    let log = repository("tests/fixtures/exercises/training.csv");
    let policy = dir.path().join("measure.wasm");
    fs::copy(repository("wasm-rules/dist/measure.wasm"), &policy).unwrap();
    let mut outputs = Vec::new();
    for options in [&[][..], &["--interpreter"]] {
        for mut command in [native(), image.arm64()] {
            command.args(["policy", "run", "--limit", UNHURRIED]).args(options);
            outputs.push(
                String::from_utf8(succeed(command.arg("--log").arg(&log).arg(&policy))).unwrap(),
            );
        }
    }
    assert!(outputs[0].lines().count() > 3, "{}", outputs[0]);
    assert!(outputs.iter().all(|output| *output == outputs[0]), "{outputs:#?}");

    succeed(image.arm64().args(["policy", "compile"]).arg(&policy));
    let compiled = fs::read(policy.with_extension("aot")).unwrap();
    let elf = compiled.windows(4).position(|bytes| bytes == b"\x7fELF").unwrap();
    assert_eq!(compiled[elf + 18], 0xb7);
}

/// Scenario: on arm64, `run` meters two GPUs of the driver's library until utilization is exported.
/// Guarantee: the command runs and keeps its status, and the report bills both GPUs, which were observed.
#[test]
fn run_meters_gpus_on_arm64() {
    let Some(image) = image() else { return };
    let dir = tempfile::tempdir().unwrap();
    let [library, script, report, exported] =
        ["libnvidia-ml.so.1", "script.toml", "report.json", "otlp.json"]
            .map(|it| dir.path().join(it));
    fs::copy(env::var_os("FAKE_NVML_ARM64").unwrap(), library).unwrap();
    let device = "[[device]]\n[[device.phase]]\nutilization = 50\n";
    fs::write(&script, device.repeat(2)).unwrap();
    let until_exported = format!(
        "n=0; until grep -qs hw.gpu.utilization {} || [ $n = 600 ]; do sleep 0.2; n=$((n+1)); done; exit 7",
        exported.display()
    );
    let mut command = image.arm64();
    command.arg("run").arg("--price=3.6").arg("--report").arg(&report);
    command.arg("--otlp-file").arg(&exported).args(["--", "sh", "-c", &until_exported]);
    command.env("LD_LIBRARY_PATH", dir.path()).env("RUNTIME_DIRECTORY", dir.path());
    command.env("FAKE_NVML_SCRIPT", &script).env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{log}");
    let report = json(&report);
    let gpus = report["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 2, "{log}");
    let mut bill = 0.0;
    for gpu in gpus {
        let observed =
            gpu["span_seconds"].as_f64().unwrap() - gpu["unobserved_seconds"].as_f64().unwrap();
        assert!(observed > 0.0, "{gpu:#}");
        bill += gpu["cost_usd"].as_str().unwrap().parse::<f64>().unwrap();
    }
    let total: f64 = report["cost"]["total_usd"].as_str().unwrap().parse().unwrap();
    assert!(bill > 0.0 && (bill - total).abs() < 1e-9, "{bill} of {total}");
}
