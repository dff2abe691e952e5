//! Random trees of files as a policy directory: whatever is in it, reading it ends, and only what is
//! approved is in use.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests panic on failure and use small numbers"
)]

#[path = "../support/mod.rs"]
mod support;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use phasemeter_rules::generation::{Generation, Generations};
use phasemeter_rules::host::{Host, Options};
use phasemeter_rules::policy_dir;
use proptest::collection::vec;
use proptest::prelude::*;
use support::patient;
use tempfile::TempDir;
use tree::{approved, changes, key};

/// Artifacts of the policies, so that each is compiled once.
static CACHE: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// Checks that each active policy is approved by the files as they are now.
fn check(dir: &Path, generation: &Generation, newest: &mut BTreeMap<String, String>, signed: bool) {
    for policy in &generation.policies {
        let file = Path::new(policy.file());
        let name = file.file_name().unwrap().to_str().unwrap();
        let digest = policy.digest().to_string();
        assert!(approved(dir, name, &digest, signed), "{name} is not approved");
        if signed {
            let manifest = policy.manifest();
            let before = newest.insert(manifest.name.clone(), manifest.version.clone());
            assert!(before.is_none_or(|before| before <= manifest.version), "{name} is older");
        }
    }
    for rejection in &generation.rejected {
        assert!(rejection.to_string().len() < 2_000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn only_approved_policies_are_in_use_whatever_the_directory_contains(
        signed in any::<bool>(),
        steps in vec(changes(5), 1..6),
    ) {
        let keys = if signed { vec![key()] } else { Vec::new() };
        let cache = Some(CACHE.path().to_owned());
        let options = Options { limits: patient(), keys, cache, ..Options::default() };
        let generations = Generations::new(Arc::new(Host::new(options).unwrap()));
        let home = tempfile::tempdir().unwrap();
        let mut newest = BTreeMap::new();
        for changes in &steps {
            changes.apply(home.path());
            let generation = generations.reload(policy_dir::read(home.path()).unwrap());
            check(home.path(), &generation, &mut newest, signed);
        }
    }
}
