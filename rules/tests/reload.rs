//! Policies are swapped while they are used.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test that cannot go on stops, and knows its numbers"
)]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use phasemeter_rules::folder;
use phasemeter_rules::generation::Generations;
use phasemeter_rules::host::{Candidate, Host, Options};
use support::named;

fn generations(options: Options) -> Generations {
    Generations::new(Arc::new(Host::new(options).unwrap()))
}

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Scenario: a thousand reloads, each of two policies to their other version, while two threads
/// judge windows without a pause.
/// Guarantee: every window is judged, by one version only; memory stays flat.
#[test]
fn a_thousand_reloads_lose_no_window() {
    let cache = tempfile::tempdir().unwrap();
    let generations =
        generations(Options { cache: Some(cache.path().join("aot")), ..Options::default() });
    let versions = ['1', '2'].map(|version| {
        ["alfa", "bravo"].map(|name| Candidate::new(format!("{name}.wasm"), named(name, version)))
    });
    let load = |i: usize| {
        let generation = generations.reload(versions[i % 2].iter().cloned().map(Ok).collect());
        assert!(generation.rejected.is_empty(), "{:?}", generation.rejected);
        generation.number
    };
    load(0);
    let (over, judged) = (AtomicBool::new(false), AtomicU64::new(0));
    let window = support::window(1, 60);
    let mut settled = 0;
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let generation = generations.current();
                    let mut versions = BTreeSet::new();
                    for policy in &generation.policies {
                        versions.insert(policy.manifest().version.as_str());
                        assert!(policy.recommend(&window).unwrap().answer.is_ok());
                    }
                    assert_eq!(versions.len(), 1, "a mix of generations");
                    assert_eq!(generation.policies.len(), 2, "a policy was lost");
                    judged.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for i in 1..=1_000 {
            assert_eq!(load(i), i as u64 + 1);
            if i == 200 {
                settled = resident();
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let grown = resident().saturating_sub(settled);
    println!("{} windows judged; {grown} KiB grown in 800 reloads", judged.into_inner());
    assert!(grown < 8 << 10, "memory grew by {grown} KiB");
}

/// Scenario: of two policies in a folder one is replaced by something broken, then mended.
/// Guarantee: the broken one is reported and the one before stays; the other one is untouched.
#[test]
fn what_is_rejected_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(home.path().join(name), bytes).unwrap();
    let generations = generations(Options::default());
    let reload = || generations.reload(folder::read(home.path()).unwrap());
    write("a.wasm", &named("alfa", '1'));
    write("b.wasm", &named("bravo", '1'));
    let first = reload();
    assert_eq!((first.number, first.policies.len(), first.rejected.len()), (1, 2, 0));

    write("a.wasm", b"broken");
    let second = reload();
    assert_eq!(second.number, 1, "nothing that is in use has changed");
    assert!(Arc::ptr_eq(&first.policies[0], &second.policies[0]), "the last good one stays");
    let [rejection] = second.rejected.as_slice() else { panic!("{:?}", second.rejected) };
    assert!(rejection.file.ends_with("a.wasm"));
    assert_eq!(rejection.fault.kind(), "load.unreadable");

    write("a.wasm", &named("alfa", '2'));
    write("b.json", br#"{"no": "such"}"#);
    let third = reload();
    assert_eq!(third.number, 2);
    assert_eq!(third.policies[0].manifest().version, "2");
    assert!(Arc::ptr_eq(&first.policies[1], &third.policies[1]), "settings were wrong");
    assert_eq!(third.rejected[0].fault.kind(), "settings");
    assert_eq!(first.policies[0].manifest().version, "1", "who holds the first keeps it whole");

    fs::remove_file(home.path().join("a.wasm")).unwrap();
    fs::remove_file(home.path().join("b.json")).unwrap();
    let fourth = reload();
    assert_eq!((fourth.number, fourth.policies.len(), fourth.rejected.len()), (3, 1, 0));
}

/// Scenario: a file has the name of a policy that is part of the program.
/// Guarantee: it replaces that one.
#[test]
fn of_two_policies_of_a_name_the_later_is_used() {
    let embedded = Candidate { embedded: true, ..Candidate::new("embedded", named("alfa", '1')) };
    let own = Candidate::new("own.wasm", named("alfa", '9'));
    let generation = generations(Options::default()).reload(vec![Ok(embedded), Ok(own)]);
    let [policy] = generation.policies.as_slice() else { panic!("{generation:?}") };
    assert_eq!(policy.manifest().version, "9");
}

/// Scenario: keys are configured.
/// Guarantee: what none of them signed is refused; what is part of the program needs no signature.
#[test]
fn with_keys_only_what_is_signed_is_taken() {
    use ed25519_dalek::{Signer, SigningKey};
    let key = SigningKey::from_bytes(&[7; 32]);
    let public: String =
        key.verifying_key().as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    let generations =
        generations(Options { keys: vec![public.parse().unwrap()], ..Options::default() });
    let plain = Candidate::new("a.wasm", named("alfa", '1'));
    let signature = Some(key.sign(&plain.bytes).to_bytes().to_vec());
    let swapped = Candidate { bytes: named("alfa", '2').into(), ..plain.clone() };
    for (candidate, kind) in [
        (plain.clone(), Some("load.signature")),
        (Candidate { signature: signature.clone(), ..plain.clone() }, None),
        (Candidate { signature, ..swapped }, Some("load.signature")),
        (Candidate { embedded: true, ..plain }, None),
    ] {
        let generation = generations.reload(vec![Ok(candidate)]);
        assert_eq!(generation.rejected.first().map(|rejection| rejection.fault.kind()), kind);
    }
}
