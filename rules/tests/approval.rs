//! What a policy directory may activate: only what is approved now, by the lock file and by keys.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests panic on failure and use small numbers"
)]

mod support;

use std::fs;
use std::sync::Arc;

use phasemeter_rules::digest::Digest;
use phasemeter_rules::generation::Generations;
use phasemeter_rules::host::{Host, Options};
use phasemeter_rules::policy_dir::{self, LOCK};
use phasemeter_rules::signature::{SecretKey, Use};
use support::{KEY, OTHER_KEY, patient, policy, recommender};
use tempfile::TempDir;

/// A policy directory and what it has activated.
struct PolicyDir {
    dir: TempDir,
    generations: Generations,
    key: SecretKey,
}

/// The names and versions of the active policies, and the kinds of all rejections.
type Outcome = (Vec<String>, Vec<&'static str>);

impl PolicyDir {
    fn new(signed: bool) -> Self {
        let key: SecretKey = KEY.parse().unwrap();
        let keys = if signed { vec![key.public()] } else { Vec::new() };
        let options = Options { limits: patient(), keys, ..Options::default() };
        let generations = Generations::new(Arc::new(Host::new(options).unwrap()));
        Self { dir: tempfile::tempdir().unwrap(), generations, key }
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.dir.path().join(name), bytes).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.dir.path().join(name)).unwrap();
    }

    /// Writes a file with its signature.
    fn write_signed(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let used_as = if name.ends_with(".json") { Use::Settings(name) } else { Use::Policy };
        self.write(&format!("{name}.sig"), self.key.sign(used_as, bytes.as_ref()));
        self.write(name, bytes);
    }

    /// Writes a lock file that lists these files as they are.
    fn lock(&self, names: &[&str]) {
        let line = |name: &&str| {
            let digest = Digest::of(&fs::read(self.dir.path().join(name)).unwrap());
            format!("{digest}  {name}\n")
        };
        self.write(LOCK, names.iter().map(line).collect::<String>());
    }

    fn reload(&self) -> Outcome {
        let generation = self.generations.reload(policy_dir::read(self.dir.path()).unwrap());
        let active = generation.policies.iter().map(|policy| policy.manifest());
        let active = active.map(|manifest| format!("{} {}", manifest.name, manifest.version));
        let rejected = generation.rejected.iter().map(|rejection| rejection.error.kind());
        (active.collect(), rejected.collect())
    }
}

fn outcome(active: &[&str], rejected: &[&'static str]) -> Outcome {
    (active.iter().map(|&text| text.to_owned()).collect(), rejected.to_vec())
}

/// A recommender with one setting, `k`.
fn with_setting(name: &str) -> Vec<u8> {
    let schema = r#"{"type": "object", "properties": {"k": {"type": "number"}}}"#;
    let (size, text) = (schema.len(), schema.replace('"', "\\22"));
    let name_size = name.len();
    policy(&format!(
        r#"(data (i32.const 512) "{name}")
        (data (i32.const 600) "1")
        (data (i32.const 700) "{text}")
        (data (i32.const 1024)
          "\00\02\00\00\{name_size:02x}\00\00\00" "\58\02\00\00\01\00\00\00"
          "\58\02\00\00\01\00\00\00" "\bc\02\00\00\{size:02x}\00\00\00")
        (func (export "phasemeter:policy/policy@0.1.0#describe") (result i32)
          (i32.const 1024))"#
    ))
}

/// Scenario: the line of an active policy is removed from the lock file, then the file is replaced
/// and locked as what it is.
#[test]
fn policy_removed_from_lock_is_no_longer_used() {
    let dir = PolicyDir::new(false);
    dir.write("a.wasm", recommender("alfa", '1'));
    dir.write("b.wasm", recommender("bravo", '1'));
    dir.lock(&["a.wasm", "b.wasm"]);
    assert_eq!(dir.reload(), outcome(&["alfa 1", "bravo 1"], &[]));
    dir.lock(&["b.wasm"]);
    assert_eq!(dir.reload(), outcome(&["bravo 1"], &["load.digest"]));

    // The previous version stays in use while it is locked.
    dir.write("b.wasm", b"broken");
    assert_eq!(dir.reload(), outcome(&["bravo 1"], &["load.digest", "load.digest"]));
    dir.lock(&["b.wasm"]);
    assert_eq!(dir.reload(), outcome(&[], &["load.digest", "load.unreadable"]));
}

/// Scenario: the directory itself is deleted, and put back.
/// Guarantee: nothing of it stays in use meanwhile.
#[test]
fn deleted_directory_revokes_all_policies() {
    for signed in [false, true] {
        let dir = PolicyDir::new(signed);
        dir.write_signed("a.wasm", recommender("alfa", '1'));
        assert_eq!(dir.reload(), outcome(&["alfa 1"], &[]));
        let aside = dir.dir.path().with_extension("aside");
        fs::rename(dir.dir.path(), &aside).unwrap();
        assert_eq!(dir.reload(), outcome(&[], &["load.unreadable"]));
        fs::rename(&aside, dir.dir.path()).unwrap();
        assert_eq!(dir.reload(), outcome(&["alfa 1"], &[]));
    }
}

/// Scenario: a lock file becomes invalid.
/// Guarantee: it locks nothing.
#[test]
fn invalid_lock_revokes_all_policies() {
    let dir = PolicyDir::new(false);
    dir.write("a.wasm", recommender("alfa", '1'));
    dir.lock(&["a.wasm"]);
    assert_eq!(dir.reload(), outcome(&["alfa 1"], &[]));
    dir.write(LOCK, "not a lock file");
    assert_eq!(dir.reload(), outcome(&[], &["load.digest"]));
}

/// Scenario: the signature of an active policy is removed or replaced by one of another key.
#[test]
fn policy_whose_signature_is_withdrawn_is_no_longer_used() {
    let dir = PolicyDir::new(true);
    for withdraw in [
        |dir: &PolicyDir| dir.remove("a.wasm.sig"),
        |dir: &PolicyDir| {
            let other: SecretKey = OTHER_KEY.parse().unwrap();
            dir.write("a.wasm.sig", other.sign(Use::Policy, &recommender("alfa", '1')));
        },
        |dir: &PolicyDir| {
            dir.remove("a.wasm.sig");
            fs::create_dir(dir.dir.path().join("a.wasm.sig")).unwrap();
        },
    ] {
        dir.write_signed("a.wasm", recommender("alfa", '1'));
        assert_eq!(dir.reload(), outcome(&["alfa 1"], &[]));
        withdraw(&dir);
        let (active, rejected) = dir.reload();
        assert_eq!((active, rejected.len()), (vec![], 1), "{rejected:?}");
    }
}

/// Scenario: an active policy is replaced by a file that cannot be used, or cannot be read.
/// Guarantee: it stays in use if its own signature is still there.
#[test]
fn signed_policy_stays_in_use_if_its_file_becomes_unusable() {
    let dir = PolicyDir::new(true);
    dir.write_signed("a.wasm", recommender("alfa", '1'));
    assert_eq!(dir.reload(), outcome(&["alfa 1"], &[]));
    dir.write("a.wasm", recommender("alfa", '2'));
    assert_eq!(dir.reload(), outcome(&["alfa 1"], &["load.signature"]));
    dir.remove("a.wasm");
    fs::create_dir(dir.dir.path().join("a.wasm")).unwrap();
    assert_eq!(dir.reload(), outcome(&["alfa 1"], &["load.unreadable"]));
}

/// Guarantee: with keys, a settings file counts only with its own signature; one of another file, or of
/// the same bytes as a policy, does not count.
#[test]
fn settings_require_signature_of_their_own() {
    let dir = PolicyDir::new(true);
    dir.write_signed("a.wasm", with_setting("alfa"));
    dir.write("a.json", r#"{"k": 1}"#);
    assert_eq!(dir.reload(), outcome(&[], &["load.signature"]));
    dir.write("a.json.sig", dir.key.sign(Use::Settings("b.json"), br#"{"k": 1}"#));
    assert_eq!(dir.reload(), outcome(&[], &["load.signature"]));
    dir.write("a.json.sig", dir.key.sign(Use::Policy, br#"{"k": 1}"#));
    assert_eq!(dir.reload(), outcome(&[], &["load.signature"]));
    dir.write_signed("a.json", r#"{"k": 1}"#);
    assert_eq!(dir.reload(), outcome(&["alfa 1"], &[]));

    // Unsigned settings change nothing while the signature of the previous ones is there.
    dir.write("a.json", r#"{"k": 2}"#);
    assert_eq!(dir.reload(), outcome(&["alfa 1"], &["load.signature"]));
    dir.remove("a.json.sig");
    assert_eq!(dir.reload(), outcome(&[], &["load.signature"]));
}

/// Guarantee: with a lock file, settings are those that it lists, even if there should be none.
#[test]
fn settings_are_those_of_the_lock() {
    let dir = PolicyDir::new(false);
    dir.write("a.wasm", with_setting("alfa"));
    dir.write("a.json", r#"{"k": 1}"#);
    dir.lock(&["a.wasm"]);
    assert_eq!(dir.reload(), outcome(&[], &["load.digest"]));
    dir.lock(&["a.wasm", "a.json"]);
    assert_eq!(dir.reload(), outcome(&["alfa 1"], &[]));
    dir.write("a.json", r#"{"k": 2}"#);
    assert_eq!(dir.reload(), outcome(&["alfa 1"], &["load.digest"]));
    dir.remove("a.json");
    assert_eq!(dir.reload(), outcome(&["alfa 1"], &["load.digest"]));
}

/// Scenario: an older signed version is added in a file that is loaded later, then it replaces the newer
/// one.
/// Guarantee: with keys, it is never used; without keys, the last file is.
#[test]
fn older_signed_version_is_rejected() {
    let dir = PolicyDir::new(true);
    dir.write_signed("a.wasm", recommender("alfa", '2'));
    assert_eq!(dir.reload(), outcome(&["alfa 2"], &[]));
    dir.write_signed("b.wasm", recommender("alfa", '1'));
    assert_eq!(dir.reload(), outcome(&["alfa 2"], &["load.older_version"]));
    dir.write_signed("a.wasm", recommender("alfa", '1'));
    let rejected = ["load.older_version", "load.older_version"];
    assert_eq!(dir.reload(), outcome(&[], &rejected));
    assert_eq!(dir.reload(), outcome(&[], &rejected), "not forgotten");
    dir.write_signed("a.wasm", recommender("alfa", '3'));
    assert_eq!(dir.reload(), outcome(&["alfa 3"], &["load.older_version"]));

    let unsigned = PolicyDir::new(false);
    unsigned.write("a.wasm", recommender("alfa", '2'));
    unsigned.write("b.wasm", recommender("alfa", '1'));
    assert_eq!(unsigned.reload(), outcome(&["alfa 1"], &[]));
}
