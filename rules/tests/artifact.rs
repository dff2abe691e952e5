//! Compiled policies: in a child with limits, on disk where nobody can poison them.
//!
//! Without the usual harness: this program is its own compiling child, and its own process whose
//! address space is short.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test that cannot go on stops, and knows its numbers"
)]

mod support;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use ed25519_dalek::{Signer, SigningKey};
use phasemeter_rules::artifact::{CacheStats, SignedArtifact};
use phasemeter_rules::compile::{Child, Compiler, child_main};
use phasemeter_rules::host::{Candidate, Host, Options};
use rustix::process::{Resource, Rlimit, setrlimit};
use support::evil;

const TESTS: [(&str, fn()); 6] = [
    ("a_child_compiles", a_child_compiles),
    ("a_child_has_limits", a_child_has_limits),
    ("a_cache_is_hit", a_cache_is_hit),
    ("a_poisoned_artifact_is_never_run", a_poisoned_artifact_is_never_run),
    ("an_artifact_from_elsewhere_is_signed", an_artifact_from_elsewhere_is_signed),
    ("a_short_address_space_is_enough", a_short_address_space_is_enough),
];

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(command) if command == "compile-policy" => return child_main(args),
        Some(command) if command == "run-narrow" => {
            run_narrow();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    // A test that fails panics, and that is the end.
    for (name, test) in TESTS {
        test();
        println!("test {name} ... ok");
    }
    println!("{} passed, 0 failed", TESTS.len());
    ExitCode::SUCCESS
}

fn child() -> Child {
    Child::of_this_program("compile-policy").unwrap()
}

fn host(compiler: Compiler, cache: Option<&Path>) -> Host {
    let cache = cache.map(Path::to_owned);
    Host::new(Options { compiler, cache, ..Options::default() }).unwrap()
}

fn candidate() -> Candidate {
    Candidate::new("honest", evil("honest"))
}

/// Loads the honest policy and asks it.
fn works(host: &Host, candidate: Candidate) {
    let policy = host.load(candidate).unwrap();
    let run = policy.recommend(&support::window(1, 60)).unwrap();
    assert_eq!(run.answer.unwrap().len(), 1);
}

/// Guarantee: what a child compiles runs here.
fn a_child_compiles() {
    works(&host(Compiler::Child(child()), None), candidate());
}

/// Guarantee: a child that needs more than its memory, or its time, ends alone, by a fault of its
/// own; one that finds the file broken says so.
fn a_child_has_limits() {
    let kind = |child: Child, bytes: Vec<u8>| {
        let fault =
            host(Compiler::Child(child), None).load(Candidate::new("x", bytes)).unwrap_err();
        println!("  {fault}");
        fault.kind()
    };
    let heavy = heavy(200_000);
    let poor = Child { memory: 24 << 20, ..child() };
    assert_eq!(kind(poor, heavy.clone()), "load.compile_limit");
    let hurried = Child { time: Duration::ZERO, ..child() };
    assert_eq!(kind(hurried, heavy), "load.compile_limit");
    let gone = Child { program: "/nowhere".into(), ..child() };
    assert_eq!(kind(gone, evil("honest")), "load.compile_limit");
    let mute = Child { args: vec![OsString::from("compile-policy"), "?".into()], ..child() };
    assert_eq!(kind(mute, evil("honest")), "load.compile_limit");
    // Whole sections, and a function body that is no code.
    let mut invalid = b"\0asm\x0d\0\x01\0".to_vec();
    invalid.extend_from_slice(
        b"\x01\x17\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a\x03\x01\x01\xff",
    );
    assert_eq!(kind(child(), invalid), "load.unreadable");
    // A core module without metadata.
    assert_eq!(kind(child(), b"\0asm\x01\0\0\0".to_vec()), "load.not_a_policy");
    // A small one fits beside a sidecar.
    works(&host(Compiler::Child(Child { memory: 16 << 20, ..child() }), None), candidate());
}

/// A policy with one function of many instructions.
fn heavy(instructions: usize) -> Vec<u8> {
    let body = "(local.set 0 (i32.add (i32.mul (local.get 0) (local.get 0)) (i32.const 7)))\n"
        .repeat(instructions);
    support::policy(&format!("(func $heavy (param i32) (result i32)\n{body}(local.get 0))"))
}

/// Guarantee: what was compiled once is loaded from the cache, which only its user can read.
fn a_cache_is_hit() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("deep/aot");
    let host = host(Compiler::Here, Some(&folder));
    works(&host, candidate());
    assert_eq!(host.cache_stats(), CacheStats { misses: 1, ..CacheStats::default() });
    works(&host, candidate());
    assert_eq!(host.cache_stats(), CacheStats { hits: 1, misses: 1, ..CacheStats::default() });
    for entry in fs::read_dir(&folder).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
}

fn artifact(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all = entries.filter(|path| path.extension().is_some_and(|end| end == "aot"));
    all.next().unwrap()
}

/// Guarantee: an artifact that was changed anywhere, cut, or put in the place of another is not
/// run: it is counted, and compiled anew. So is one whose key others could have read.
fn a_poisoned_artifact_is_never_run() {
    let home = tempfile::tempdir().unwrap();
    let host = || host(Compiler::Here, Some(home.path()));
    works(&host(), candidate());
    let path = artifact(home.path());
    let good = fs::read(&path).unwrap();
    let poison = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let host = host();
        works(&host, candidate());
        let poisoned = CacheStats { misses: 1, poisoned: 1, ..CacheStats::default() };
        assert_eq!(host.cache_stats(), poisoned);
        assert_eq!(fs::read(&path).unwrap(), good, "it was compiled anew");
    };
    for at in [0, 31, 32, 48, 80, good.len() / 2, good.len() - 1] {
        let mut flipped = good.clone();
        flipped[at] ^= 1;
        poison(&flipped);
    }
    poison(&good[..good.len() / 2]);
    poison(b"");
    poison(&[0; 4096]);

    // That of another policy, sealed by this very cache, under the name of this one.
    let other = host();
    other.load(Candidate::new("other", evil("saving-nan"))).unwrap();
    let entries = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().path());
    let theirs =
        entries.into_iter().find(|p| *p != path && p.extension().is_some_and(|e| e == "aot"));
    poison(&fs::read(theirs.unwrap()).unwrap());

    // A key that others could read seals nothing.
    let key = home.path().join("key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let host = host();
    works(&host, candidate());
    assert_eq!(host.cache_stats().poisoned, 1);
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Guarantee: an artifact that was made elsewhere is run if someone trusted signed it, and it is
/// of this policy; else it is compiled here. No compiler is needed for one that is.
fn an_artifact_from_elsewhere_is_signed() {
    let key = SigningKey::from_bytes(&[7; 32]);
    let sign = |bytes: &[u8]| key.sign(bytes).to_bytes().to_vec();
    let public: String =
        key.verifying_key().as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    let nowhere = Compiler::Child(Child { program: "/nowhere".into(), ..child() });
    let home = tempfile::tempdir().unwrap();
    let host = Host::new(Options {
        keys: vec![public.parse().unwrap()],
        compiler: nowhere,
        cache: Some(home.path().to_owned()),
        ..Options::default()
    })
    .unwrap();
    let elsewhere = self::host(Compiler::Here, None);
    let signed = |bytes: Vec<u8>| {
        let signature = sign(&bytes);
        Some(SignedArtifact { bytes, signature })
    };
    let policy = Candidate { signature: Some(sign(&evil("honest"))), ..candidate() };
    let good = signed(elsewhere.compile(&evil("honest")).unwrap());
    works(&host, Candidate { artifact: good.clone(), ..policy.clone() });
    assert_eq!(host.cache_stats().poisoned, 0);

    let foreign = signed(elsewhere.compile(&evil("saving-nan")).unwrap());
    let mut forged = good;
    forged.as_mut().unwrap().bytes[100] ^= 1;
    for (index, artifact) in [foreign, forged].into_iter().enumerate() {
        let fault = host.load(Candidate { artifact, ..policy.clone() }).unwrap_err();
        assert_eq!(fault.kind(), "load.compile_limit", "it had to be compiled, and nothing could");
        assert_eq!(host.cache_stats().poisoned, index as u64 + 1);
    }
}

/// Guarantee: where addresses are short, policies still run.
fn a_short_address_space_is_enough() {
    let program = std::env::current_exe().unwrap();
    assert!(Command::new(program).arg("run-narrow").status().unwrap().success());
}

fn run_narrow() {
    let limit = Rlimit { current: Some(2 << 30), maximum: Some(2 << 30) };
    setrlimit(Resource::As, limit).unwrap();
    works(&host(Compiler::Here, None), candidate());
    let hog = host(Compiler::Here, None).load(Candidate::new("hog", evil("memory-hog"))).unwrap();
    let run = hog.recommend(&support::window(1, 0)).unwrap();
    assert_eq!(run.answer.unwrap_err().kind(), "memory");
}
