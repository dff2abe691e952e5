//! Guests that mean harm: each ends in its own fault, within its limits, and harms nobody else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test that cannot go on stops, and knows its numbers"
)]

mod support;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use phasemeter_rules::digest::Digest;
use phasemeter_rules::fault::Fault;
use phasemeter_rules::host::{Candidate, Host, Options};
use phasemeter_rules::limits::Limits;
use phasemeter_rules::policy::{Policy, Usage};
use support::{evil, says, texts};

/// What asking a policy once came to.
fn ask(policy: &Policy) -> (Result<(), Fault>, Usage) {
    if let Some(run) = policy.recommend(&support::window(1, 60)) {
        return (run.answer.map(drop), run.usage);
    }
    let run = policy.quote(&support::request()).expect("it is a pricer, then");
    (run.answer.map(drop), run.usage)
}

fn host(limits: Limits) -> Host {
    Host::new(Options { limits, ..Options::default() }).unwrap()
}

/// Scenario: every file of `tests/evil` is loaded and asked once.
/// Guarantee: it ends in the fault that the file names, when and with the words that it names.
#[test]
fn each_guest_ends_in_its_own_fault() {
    let usual = host(Limits::default());
    let deadline = Duration::from_millis(100);
    let endless = host(Limits { fuel: u64::MAX / 2, deadline, ..Limits::default() });
    let mut wrong = Vec::new();
    let all = texts(&support::home().join("tests/evil"));
    for (name, text) in &all {
        let host = if says(text, "limits") == Some("deadline") { &endless } else { &usual };
        let candidate = Candidate::new(name.clone(), support::policy(text));
        let mut started = Instant::now();
        let loaded = host.load(candidate);
        if loaded.is_ok() {
            started = Instant::now();
        }
        let (when, outcome) = match loaded {
            Ok(policy) => ("run", ask(&policy).0),
            Err(fault) => ("load", Err(fault)),
        };
        let took = started.elapsed();
        let (kind, words) = match &outcome {
            Ok(()) => ("none", String::new()),
            Err(fault) => (fault.kind(), fault.to_string()),
        };
        println!("{name:24} {when:5} {kind:24} {took:>10.1?}  {words:.100}");
        if Some(kind) != says(text, "fault")
            || when != says(text, "when").unwrap_or("run")
            || !words.to_lowercase().contains(&says(text, "says").unwrap_or("").to_lowercase())
        {
            wrong.push(format!("{name}: {when} {kind} {words}"));
        }
        assert!(words.len() < 2_000, "{name} writes too much of the report");
    }
    assert!(all.len() > 50, "the guests are gone");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Scenario: an endless loop with fuel without end.
/// Guarantee: the deadline ends it, and not before its time. How late is printed; the bound
/// is one that holds on a busy machine too.
#[test]
fn a_deadline_holds() {
    let deadline = Duration::from_millis(20);
    let host = host(Limits { fuel: u64::MAX / 2, deadline, ..Limits::default() });
    let policy = host.load(Candidate::new("loop", evil("loop-deadline"))).unwrap();
    let mut late: Vec<_> = (0..20)
        .map(|_| {
            let (answer, usage) = ask(&policy);
            assert!(matches!(answer, Err(Fault::Deadline { limit }) if limit == deadline));
            usage.time.checked_sub(deadline).expect("it had all its time")
        })
        .collect();
    late.sort();
    println!("killed {:?} late at the median, {:?} at most", late[10], late[19]);
    assert!(late[0] < deadline, "even the best of 20 was {:?} late", late[0]);
}

/// Scenario: a guest is asked twenty times, some of them by four threads at once.
/// Guarantee: the same verdict and the same fuel, every time.
#[test]
fn the_same_window_takes_the_same_fuel() {
    let host = host(Limits::default());
    for name in ["honest", "recursion", "memory-hog", "saving-nan", "string-utf8"] {
        let policy = host.load(Candidate::new(name, evil(name))).unwrap();
        let judge = || {
            let (answer, usage) = ask(&policy);
            (answer.err().map(|fault| fault.to_string()), usage.fuel, usage.memory)
        };
        let first = judge();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| (0..3).for_each(|_| assert_eq!(judge(), first, "{name}")));
            }
        });
    }
}

/// Scenario: a guest floods the log.
/// Guarantee: the first lines are kept, the others counted.
#[test]
fn a_log_is_bounded() {
    let policy = host(Limits::default()).load(Candidate::new("log", evil("log-flood"))).unwrap();
    let log = policy.recommend(&support::window(1, 0)).unwrap().log;
    assert_eq!((log.lines.len(), log.dropped), (32, 968));
}

/// Scenario: a component imports from WASI and never calls it; the operator allows stubs.
/// Guarantee: it is refused by default, and runs with stubs.
#[test]
fn foreign_imports_are_stubbed_where_the_operator_says_so() {
    let component = || {
        let mut encoder = wit_component::ComponentEncoder::default();
        encoder = encoder.module(&evil("import-wasi")).unwrap();
        Candidate::new("wasi", encoder.encode().unwrap())
    };
    let refused = host(Limits::default()).load(component()).unwrap_err();
    assert_eq!(refused.kind(), "load.forbidden_import");
    let stubbing = Host::new(Options { stub_imports: true, ..Options::default() }).unwrap();
    assert!(ask(&stubbing.load(component()).unwrap()).0.is_ok());
}

/// Scenario: a sound policy is cut off, one byte of it is changed, or noise stands in its place.
/// Guarantee: a fault of loading, or of limits; never a panic.
#[test]
fn what_is_no_policy_is_refused() {
    let host = host(Limits { fuel: 1_000_000, ..Limits::default() });
    let whole = evil("honest");
    let load = |bytes: &[u8]| host.load(Candidate::new("x", bytes.to_vec()));
    for end in (0..whole.len()).step_by(whole.len() / 64) {
        let fault = load(&whole[..end]).expect_err("half a policy was taken");
        assert!(fault.kind().starts_with("load."), "cut at {end}: {fault}");
    }
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise
    };
    for _ in 0..200 {
        let mut flipped = whole.clone();
        let at = random() as usize % flipped.len();
        flipped[at] ^= 1 << (random() % 8);
        // Some changes do no harm.
        let _ = load(&flipped);
        let junk: Vec<u8> = (0..256).map(|_| random() as u8).collect();
        assert_eq!(load(&junk).unwrap_err().kind(), "load.unreadable");
        let headed = [b"\0asm\x0d\0\x01\0".as_slice(), &junk].concat();
        assert!(load(&headed).unwrap_err().kind().starts_with("load."));
    }
}

/// Scenario: the file was swapped for another after it was locked.
/// Guarantee: it is refused by its digest, before anything of it is read.
#[test]
fn a_swapped_file_is_refused() {
    let candidate = Candidate {
        pinned: Some(Digest::of(&evil("honest"))),
        ..Candidate::new("honest", evil("loop-start"))
    };
    let host = host(Limits::default());
    assert_eq!(host.load(candidate.clone()).unwrap_err().kind(), "load.digest");
    let right = Candidate { bytes: Cow::Owned(evil("honest")), ..candidate };
    assert!(host.load(right).is_ok());
}
