//! Reloading policies while they are evaluated.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests panic on failure and use small numbers"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use phasemeter_rules::digest::Digest;
use phasemeter_rules::generation::Generations;
use phasemeter_rules::host::{Approval, Candidate, CandidateSource, Host, Options};
use phasemeter_rules::policy_dir;
use support::{patient, recommender};

fn generations(options: Options) -> Generations {
    let options = Options { limits: patient(), ..options };
    Generations::new(Arc::new(Host::new(options).unwrap()))
}

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Scenario: a thousand reloads alternate between two versions of two policies, while two threads
/// evaluate windows without pause.
/// Guarantee: every window is evaluated, with one version only; memory stays flat.
#[test]
fn thousand_reloads_lose_no_window() {
    let cache = tempfile::tempdir().unwrap();
    let generations =
        generations(Options { cache: Some(cache.path().join("aot")), ..Options::default() });
    let versions = ['1', '2'].map(|version| {
        ["alfa", "bravo"]
            .map(|name| Candidate::new(format!("{name}.wasm"), recommender(name, version)))
    });
    let load = |i: usize| {
        let generation =
            generations.reload(versions[i % 2].iter().cloned().map(CandidateSource::from));
        assert!(generation.rejected.is_empty(), "{:?}", generation.rejected);
        generation.number
    };
    load(0);
    let (over, evaluated) = (AtomicBool::new(false), AtomicU64::new(0));
    let window = support::window(1, 60);
    let mut baseline = 0;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let generation = generations.current();
                    let mut versions = BTreeSet::new();
                    for policy in &generation.policies {
                        versions.insert(policy.manifest().version.as_str());
                        assert!(policy.recommend(&window).unwrap().result.is_ok());
                    }
                    assert_eq!(versions.len(), 1, "generations are mixed");
                    assert_eq!(generation.policies.len(), 2, "a policy was lost");
                    evaluated.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for i in 1..=1_000 {
            assert_eq!(load(i), i as u64 + 1);
            if i == 200 {
                baseline = resident();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let grown = resident().saturating_sub(baseline);
    println!(
        "{} windows evaluated; memory grew by {grown} KiB in 800 reloads",
        evaluated.into_inner()
    );
    assert!(grown < 8 << 10, "memory grew by {grown} KiB");
}

/// Scenario: one of two policies in a directory is replaced by a broken file, then by a valid one.
/// Guarantee: the broken file is reported and the previous policy stays active; the other policy is
/// not affected.
#[test]
fn rejection_keeps_previous_policy() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(home.path().join(name), bytes).unwrap();
    let generations = generations(Options::default());
    let reload = || generations.reload(policy_dir::read(home.path()).unwrap());
    write("a.wasm", &recommender("alfa", '1'));
    write("b.wasm", &recommender("bravo", '1'));
    let first = reload();
    assert_eq!((first.number, first.policies.len(), first.rejected.len()), (1, 2, 0));

    write("a.wasm", b"broken");
    let second = reload();
    assert_eq!(second.number, 1, "the active policies have not changed");
    assert!(
        Arc::ptr_eq(&first.policies[0], &second.policies[0]),
        "the previous policy stays active"
    );
    let [rejection] = second.rejected.as_slice() else { panic!("{:?}", second.rejected) };
    assert!(rejection.file.ends_with("a.wasm"));
    assert_eq!(rejection.error.kind(), "load.unreadable");

    write("a.wasm", &recommender("alfa", '2'));
    write("b.json", br#"{"no": "such"}"#);
    let third = reload();
    assert_eq!(third.number, 2);
    assert_eq!(third.policies[0].manifest().version, "2");
    assert!(Arc::ptr_eq(&first.policies[1], &third.policies[1]), "its settings were invalid");
    assert_eq!(third.rejected[0].error.kind(), "settings");
    assert_eq!(first.policies[0].manifest().version, "1", "a held generation does not change");

    fs::remove_file(home.path().join("a.wasm")).unwrap();
    fs::remove_file(home.path().join("b.json")).unwrap();
    let fourth = reload();
    assert_eq!((fourth.number, fourth.policies.len(), fourth.rejected.len()), (3, 1, 0));
}

/// Scenario: a policy in a file has the name of an embedded one.
/// Guarantee: it replaces the embedded one.
#[test]
fn later_policy_replaces_same_name() {
    let bytes = recommender("alfa", '1');
    let digest = Digest::of(&bytes);
    let embedded = Candidate { embedded: Some(digest), ..Candidate::new("embedded", bytes) };
    let own = Candidate::new("own.wasm", recommender("alfa", '9'));
    let generation =
        generations(Options::default()).reload([embedded, own].map(CandidateSource::from));
    let [policy] = generation.policies.as_slice() else { panic!("{generation:?}") };
    assert_eq!(policy.manifest().version, "9");
}

/// Scenario: signing keys are configured.
/// Guarantee: a policy not signed by one of them is rejected; an embedded policy needs no signature.
#[test]
fn keys_reject_unsigned_policy() {
    use ed25519_dalek::{Signer, SigningKey};
    let key = SigningKey::from_bytes(&[7; 32]);
    let public: String =
        key.verifying_key().as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    let generations =
        generations(Options { keys: vec![public.parse().unwrap()], ..Options::default() });
    let plain = Candidate::new("a.wasm", recommender("alfa", '1'));
    let signature = Some(key.sign(&plain.bytes).to_bytes().to_vec());
    let signed = Approval { signature, ..Approval::default() };
    let swapped = Candidate { bytes: recommender("alfa", '2').into(), ..plain.clone() };
    for (candidate, kind) in [
        (plain.clone(), Some("load.signature")),
        (Candidate { approval: signed.clone(), ..plain.clone() }, None),
        (Candidate { approval: signed, ..swapped }, Some("load.signature")),
        (Candidate { embedded: Some(Digest::of(&plain.bytes)), ..plain }, None),
    ] {
        let generation = generations.reload([candidate.into()]);
        assert_eq!(generation.rejected.first().map(|rejection| rejection.error.kind()), kind);
    }
}
