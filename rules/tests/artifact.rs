//! Compiling policies in a child process with limits, and the authenticated cache on disk.
//!
//! Has no test harness, because this program starts itself as the compiling child, and as a process
//! with a short address space.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests panic on failure and use small numbers"
)]

mod support;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use ed25519_dalek::{Signer, SigningKey};
use hmac::{Hmac, Mac};
use phasemeter_rules::artifact::{CacheStats, SignedArtifact};
use phasemeter_rules::compile::{Compiler, CompilerProcess, child_main};
use phasemeter_rules::confinement::confine;
use phasemeter_rules::host::{Approval, Candidate, Host, Options};
use rustix::process::{Resource, Rlimit, setrlimit};
use sha2::Sha256;
use support::{hostile, patient};

const TESTS: [(&str, fn()); 9] = [
    ("child_output_runs", child_output_runs),
    ("confined_process_reaches_nothing", confined_process_reaches_nothing),
    ("default_policies_are_compiled_in_confinement", default_policies_are_compiled_in_confinement),
    ("child_is_limited", child_is_limited),
    ("cache_hits_second_load", cache_hits_second_load),
    ("corrupt_artifact_is_recompiled", corrupt_artifact_is_recompiled),
    ("forged_artifact_in_shared_cache_is_not_run", forged_artifact_in_shared_cache_is_not_run),
    ("external_artifact_requires_signature", external_artifact_requires_signature),
    ("short_address_space_suffices", short_address_space_suffices),
];

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(command) if command == "compile-policy" => return child_main(args),
        Some(command) if command == "run-narrow" => {
            run_narrow();
            return ExitCode::SUCCESS;
        }
        Some(command) if command == "try-confined" || command == "try-unconfined" => {
            if command == "try-confined" {
                confine().unwrap();
            }
            attempts(Path::new(&args.next().unwrap()));
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    // A failing test panics, which ends the program.
    for (name, test) in TESTS {
        test();
        println!("test {name} ... ok");
    }
    println!("{} passed, 0 failed", TESTS.len());
    ExitCode::SUCCESS
}

fn child() -> CompilerProcess {
    CompilerProcess::current_program("compile-policy").unwrap()
}

fn host(compiler: Compiler, cache: Option<&Path>) -> Host {
    let cache = cache.map(Path::to_owned);
    Host::new(Options { limits: patient(), compiler, cache, ..Options::default() }).unwrap()
}

fn candidate() -> Candidate {
    Candidate::new("honest", hostile("honest"))
}

/// Loads and evaluates the candidate.
fn assert_works(host: &Host, candidate: Candidate) {
    let policy = host.load(candidate).unwrap();
    let evaluation = policy.recommend(&support::window(1, 60)).unwrap();
    assert_eq!(evaluation.result.unwrap().recommendations.len(), 1);
}

/// Guarantee: code compiled by the child runs in this process.
fn child_output_runs() {
    assert_works(&host(Compiler::Subprocess(child()), None), candidate());
}

/// What a compiler never needs: prints what of it is possible.
fn attempts(dir: &Path) {
    let file = dir.join("file");
    let attempts = [
        ("network", UdpSocket::bind("127.0.0.1:0").is_ok()),
        ("socket", UnixStream::pair().is_ok()),
        ("process", Command::new("/bin/sh").args(["-c", "exit"]).status().is_ok()),
        ("thread", thread::Builder::new().spawn(|| {}).is_ok()),
        ("signal", rustix::process::test_kill_process(rustix::process::getpid()).is_ok()),
        ("create", fs::write(dir.join("new"), "").is_ok()),
        ("write", OpenOptions::new().write(true).open(&file).is_ok()),
        ("read", fs::File::open(&file).is_ok()),
        ("remove", fs::remove_file(&file).is_ok()),
    ];
    let possible = attempts.into_iter().filter(|(_, possible)| *possible);
    println!("{}", possible.map(|(name, _)| name).collect::<Vec<_>>().join(" "));
}

/// Guarantee: a confined process opens no socket and no file, and starts nothing; one that is not can.
fn confined_process_reaches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let attempt = |command| {
        let mut program = Command::new(std::env::current_exe().unwrap());
        let out = program.arg(command).arg(dir.path()).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(attempt("try-confined"), "\n");
    let all = "network socket process thread signal create write read remove\n";
    assert_eq!(attempt("try-unconfined"), all);
}

/// Guarantee: the filter of the child refuses nothing that compiling needs.
fn default_policies_are_compiled_in_confinement() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wasm-rules/dist");
    let files = fs::read_dir(dist).unwrap().map(|entry| entry.unwrap().path());
    let policies: Vec<_> =
        files.filter(|it| it.extension().is_some_and(|it| it == "wasm")).collect();
    assert!(policies.len() > 10, "{policies:?}");
    for policy in policies {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["compile-policy", "wide", "no-stubs", "536870912", "60"]);
        let out = program.stdin(fs::File::open(&policy).unwrap()).output().unwrap();
        // A reason there would be one for missing confinement.
        let reason = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success() && reason.is_empty(), "{}: {reason}", policy.display());
        assert!(!out.stdout.is_empty());
    }
}

/// Guarantee: a child that exceeds its memory or time limit fails with an error of its own, and so
/// does one that cannot start. An invalid file is reported as such.
fn child_is_limited() {
    let kind = |child: CompilerProcess, bytes: Vec<u8>| {
        let error =
            host(Compiler::Subprocess(child), None).load(Candidate::new("x", bytes)).unwrap_err();
        println!("  {error}");
        error.kind()
    };
    let heavy = heavy(200_000);
    let low_memory = CompilerProcess { memory: 24 << 20, ..child() };
    assert_eq!(kind(low_memory, heavy.clone()), "load.compile_limit");
    let no_time = CompilerProcess { time: Duration::ZERO, ..child() };
    assert_eq!(kind(no_time, heavy), "load.compile_limit");
    let missing = CompilerProcess { program: "/nowhere".into(), ..child() };
    assert_eq!(kind(missing, hostile("honest")), "load.compile_limit");
    let bad_args =
        CompilerProcess { args: vec![OsString::from("compile-policy"), "?".into()], ..child() };
    assert_eq!(kind(bad_args, hostile("honest")), "load.compile_limit");
    // Valid sections, and a function body that is not code.
    let mut invalid = b"\0asm\x0d\0\x01\0".to_vec();
    invalid.extend_from_slice(
        b"\x01\x17\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a\x03\x01\x01\xff",
    );
    assert_eq!(kind(child(), invalid), "load.unreadable");
    // A core module without metadata.
    assert_eq!(kind(child(), b"\0asm\x01\0\0\0".to_vec()), "load.not_a_policy");
    // 16 MiB suffice for a small policy.
    assert_works(
        &host(Compiler::Subprocess(CompilerProcess { memory: 16 << 20, ..child() }), None),
        candidate(),
    );
}

/// A policy with one very long function.
fn heavy(instructions: usize) -> Vec<u8> {
    let body = "(local.set 0 (i32.add (i32.mul (local.get 0) (local.get 0)) (i32.const 7)))\n"
        .repeat(instructions);
    support::policy(&format!("(func $heavy (param i32) (result i32)\n{body}(local.get 0))"))
}

/// Guarantee: the second load uses the cached artifact, and only this user can read the cache.
fn cache_hits_second_load() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("deep/aot");
    let host = host(Compiler::InProcess, Some(&dir));
    assert_works(&host, candidate());
    assert_eq!(host.cache_stats(), CacheStats { misses: 1, ..CacheStats::default() });
    assert_works(&host, candidate());
    assert_eq!(host.cache_stats(), CacheStats { hits: 1, misses: 1, ..CacheStats::default() });
    for entry in fs::read_dir(&dir).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
}

fn artifact(dir: &Path) -> PathBuf {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all = entries.filter(|path| path.extension().is_some_and(|end| end == "aot"));
    all.next().unwrap()
}

/// Guarantee: an artifact that was modified anywhere, truncated, or replaced by another is not run
/// but counted and compiled again; so is one authenticated by a key that other users could read.
fn corrupt_artifact_is_recompiled() {
    let home = tempfile::tempdir().unwrap();
    let host = || host(Compiler::InProcess, Some(home.path()));
    assert_works(&host(), candidate());
    let path = artifact(home.path());
    let good = fs::read(&path).unwrap();
    let corrupt = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let host = host();
        assert_works(&host, candidate());
        let expected = CacheStats { misses: 1, corrupt: 1, ..CacheStats::default() };
        assert_eq!(host.cache_stats(), expected);
        assert_eq!(fs::read(&path).unwrap(), good, "not compiled again");
    };
    for at in [0, 31, 32, 48, 80, good.len() / 2, good.len() - 1] {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        corrupt(&flipped);
    }
    corrupt(&good[..good.len() / 2]);
    corrupt(b"");
    corrupt(&[0; 4096]);

    // The artifact of another policy, from the same cache, under the name of this one.
    let other = host();
    other.load(Candidate::new("other", hostile("saving-nan"))).unwrap();
    let entries = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path());
    let other =
        entries.into_iter().find(|p| *p != path && p.extension().is_some_and(|e| e == "aot"));
    corrupt(&fs::read(other.unwrap()).unwrap());

    // A key that other users could read authenticates nothing.
    let key = home.path().join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let host = host();
    assert_works(&host, candidate());
    assert_eq!(host.cache_stats().corrupt, 1);
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Scenario: a cache has a MAC key that another user has written, and an artifact authenticated by it
/// with the code of another policy.
/// Guarantee: it is used only if no other user can change the directory; otherwise there is no cache,
/// and a reason.
fn forged_artifact_in_shared_cache_is_not_run() {
    let (home, code_home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cached = |home: &Path, name: &str| {
        let host = host(Compiler::InProcess, Some(home));
        host.load(Candidate::new(name, hostile(name))).unwrap();
        artifact(home)
    };
    let path = cached(home.path(), "honest");
    let code = fs::read(cached(code_home.path(), "saving-nan")).unwrap();
    // MAC, then magic and cache key, then code.
    let header = fs::read(&path).unwrap()[32..80].to_vec();
    let forged = [header.as_slice(), &code[80..]].concat();
    let key = home.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    let mac = <Hmac<Sha256> as Mac>::new_from_slice(&[7; 32]).unwrap().chain_update(&forged);
    fs::write(&path, [&mac.finalize().into_bytes()[..], &forged].concat()).unwrap();

    let evaluate = || {
        let host = host(Compiler::InProcess, Some(home.path()));
        let policy = host.load(candidate()).unwrap();
        let evaluation = policy.recommend(&support::window(1, 60)).unwrap();
        let error = host.cache_error().map(ToString::to_string).unwrap_or_default();
        (evaluation.result.err().map(|error| error.kind()), error, host.cache_stats())
    };
    let (kind, error, stats) = evaluate();
    assert_eq!((kind, error.as_str(), stats.hits), (Some("invalid"), "", 1), "the payload works");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (kind, error, stats) = evaluate();
    assert_eq!((kind, stats), (None, CacheStats::default()));
    assert!(error.contains("writable by other users"), "{error}");
}

/// Guarantee: an artifact compiled elsewhere is used, without a compiler, if a trusted key signed it
/// as machine code and it belongs to the policy; otherwise the policy is compiled here.
fn external_artifact_requires_signature() {
    let key = SigningKey::from_bytes(&[7; 32]);
    let sign = |bytes: &[u8]| key.sign(bytes).to_bytes().to_vec();
    let public: String =
        key.verifying_key().as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    let no_compiler =
        Compiler::Subprocess(CompilerProcess { program: "/nowhere".into(), ..child() });
    let home = tempfile::tempdir().unwrap();
    let host = Host::new(Options {
        limits: patient(),
        keys: vec![public.parse().unwrap()],
        compiler: no_compiler,
        cache: Some(home.path().to_owned()),
        ..Options::default()
    })
    .unwrap();
    let elsewhere = self::host(Compiler::InProcess, None);
    let signed = |bytes: Vec<u8>| {
        let signature = sign(&[b"phasemeter-aot-signature-1\0", &*bytes].concat());
        Some(SignedArtifact { bytes, signature })
    };
    let signature = Some(sign(&hostile("honest")));
    let approval = Approval { signature, ..Approval::default() };
    let policy = Candidate { approval, ..candidate() };
    let good = signed(elsewhere.compile(&hostile("honest")).unwrap());
    assert_works(&host, Candidate { artifact: good.clone(), ..policy.clone() });
    // So is bytecode, which a host that runs native code interprets.
    let interpreting = Options { limits: patient(), interpreter: true, ..Options::default() };
    let bytecode = Host::new(interpreting).unwrap().compile(&hostile("honest")).unwrap();
    assert_works(&host, Candidate { artifact: signed(bytecode), ..policy.clone() });
    assert_eq!(host.cache_stats().corrupt, 0);

    let foreign = signed(elsewhere.compile(&hostile("saving-nan")).unwrap());
    let mut forged = good.clone();
    forged.as_mut().unwrap().bytes[100] ^= 1;
    // Signed as a policy: by someone who did not see that it is machine code.
    let mut renamed = good;
    let renamed_bytes = renamed.as_ref().unwrap().bytes.clone();
    renamed.as_mut().unwrap().signature = sign(&renamed_bytes);
    for (index, artifact) in [foreign, forged, renamed].into_iter().enumerate() {
        let error = host.load(Candidate { artifact, ..policy.clone() }).unwrap_err();
        assert_eq!(error.kind(), "load.compile_limit", "not passed to the compiler");
        assert_eq!(host.cache_stats().corrupt, index as u64 + 1);
    }
}

/// Guarantee: policies run in an address space of 2 GiB.
fn short_address_space_suffices() {
    let program = std::env::current_exe().unwrap();
    assert!(Command::new(program).arg("run-narrow").status().unwrap().success());
}

fn run_narrow() {
    let limit = Rlimit { current: Some(2 << 30), maximum: Some(2 << 30) };
    setrlimit(Resource::As, limit).unwrap();
    assert_works(&host(Compiler::InProcess, None), candidate());
    let hog =
        host(Compiler::InProcess, None).load(Candidate::new("hog", hostile("memory-hog"))).unwrap();
    let evaluation = hog.recommend(&support::window(1, 0)).unwrap();
    assert_eq!(evaluation.result.unwrap_err().kind(), "memory");
}
