//! Hostile guests: each ends in its own error, within its limits, and affects nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests panic on failure and use small numbers"
)]

mod support;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use phasemeter_rules::digest::Digest;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::host::{Approval, Candidate, Host, Locked, Options};
use phasemeter_rules::limits::Limits;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::quote::QuoteRequest;
use support::{header, hostile, patient, wat_files};

/// Evaluates a policy once, on the input of its kind.
fn evaluate(policy: &Policy) -> (Result<(), PolicyError>, Usage) {
    if let Some(evaluation) = policy.recommend(&support::window(1, 60)) {
        return (evaluation.result.map(drop), evaluation.usage);
    }
    let evaluation = policy.quote(&support::request()).expect("a policy that is not a pricer");
    (evaluation.result.map(drop), evaluation.usage)
}

fn host(limits: Limits) -> Host {
    Host::new(Options { limits, ..Options::default() }).unwrap()
}

/// Whether policies run as native code or are interpreted.
#[derive(Clone, Copy)]
enum Execution {
    Native,
    Interpreted,
}

/// Scenario: every file of `tests/hostile` is loaded and evaluated once.
/// Guarantee: it ends with the error, at the step and with the message in its header.
#[test]
fn hostile_guest_ends_in_its_error() {
    evaluate_hostile_guests(Execution::Native);
}

/// Guarantee: fuel, deadline, memory and output are limited in the interpreter too.
#[test]
fn hostile_guest_ends_in_its_error_if_interpreted() {
    evaluate_hostile_guests(Execution::Interpreted);
}

fn evaluate_hostile_guests(execution: Execution) {
    let interpreter = matches!(execution, Execution::Interpreted);
    let host = |limits| Host::new(Options { limits, interpreter, ..Options::default() }).unwrap();
    let by_fuel = host(patient());
    // Long enough for a busy machine to load a guest.
    let deadline = Duration::from_secs(1);
    let by_deadline = host(Limits { fuel: u64::MAX / 2, deadline, ..Limits::default() });
    let mut wrong = Vec::new();
    let mut all = wat_files(&support::home().join("tests/hostile"));
    if interpreter {
        // Interpreted loops take long to run out of fuel; one is enough.
        let enough = ["loop-recommend", "loop-deadline"];
        all.retain(|(name, _)| !name.starts_with("loop-") || enough.contains(&name.as_str()));
    }
    for (name, text) in &all {
        let host = if header(text, "limits") == Some("deadline") { &by_deadline } else { &by_fuel };
        let candidate = Candidate::new(name.clone(), support::policy(text));
        let mut started = Instant::now();
        let loaded = host.load(candidate);
        if loaded.is_ok() {
            started = Instant::now();
        }
        let (step, outcome) = match loaded {
            Ok(policy) => ("run", evaluate(&policy).0),
            Err(error) => ("load", Err(error)),
        };
        let took = started.elapsed();
        let (kind, message) = match &outcome {
            Ok(()) => ("none", String::new()),
            Err(error) => (error.kind(), error.to_string()),
        };
        println!("{name:24} {step:5} {kind:24} {took:>10.1?}  {message:.100}");
        let expected = header(text, "message").unwrap_or("").to_lowercase();
        if Some(kind) != header(text, "error")
            || step != header(text, "when").unwrap_or("run")
            || !message.to_lowercase().contains(&expected)
        {
            wrong.push(format!("{name}: {step} {kind} {message}"));
        }
        assert!(message.len() < 2_000, "{name}: message of {} bytes", message.len());
    }
    assert!(all.len() > 50, "only {} guests found", all.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Scenario: an endless loop with practically unlimited fuel.
/// Guarantee: it is stopped by the deadline, and not before it. The delay is printed; its bound also
/// holds on a busy machine.
#[test]
fn deadline_stops_endless_loop() {
    let deadline = Duration::from_millis(20);
    let host = host(Limits { fuel: u64::MAX / 2, deadline, ..Limits::default() });
    // On a busy machine loading may exceed this short deadline.
    let load = || host.load(Candidate::new("loop", hostile("loop-deadline")));
    let policy = (0..100).find_map(|_| load().ok()).expect("the guest loads");
    let mut delays: Vec<_> = (0..20)
        .map(|_| {
            let (result, usage) = evaluate(&policy);
            assert!(matches!(result, Err(PolicyError::Deadline { limit }) if limit == deadline));
            usage.time.checked_sub(deadline).expect("stopped before its deadline")
        })
        .collect();
    delays.sort();
    println!("stopped {:?} late at the median, {:?} at most", delays[10], delays[19]);
    assert!(delays[0] < deadline, "even the best of 20 was {:?} late", delays[0]);
}

/// Scenario: a guest is evaluated repeatedly, by several threads at once.
/// Guarantee: the same result and the same fuel every time.
#[test]
fn concurrent_evaluations_are_deterministic() {
    let host = host(patient());
    for name in ["honest", "recursion", "memory-hog", "saving-nan", "string-utf8"] {
        let policy = host.load(Candidate::new(name, hostile(name))).unwrap();
        let outcome = || {
            let (result, usage) = evaluate(&policy);
            (result.err().map(|error| error.to_string()), usage.fuel, usage.memory)
        };
        let first = outcome();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| (0..3).for_each(|_| assert_eq!(outcome(), first, "{name}")));
            }
        });
    }
}

/// Scenario: a pricer loops endlessly if it is queried for an offer.
/// Guarantee: it is stopped, and its next evaluation, for GPUs in use, is not affected.
#[test]
fn pricer_hostile_to_offers_still_answers_for_gpus_in_use() {
    let policy = host(patient()).load(Candidate::new("offer", hostile("quote-offer"))).unwrap();
    let quote = |is_offer| {
        let request = QuoteRequest { is_offer, ..support::request() };
        policy.quote(&request).unwrap().result
    };
    for _ in 0..2 {
        assert_eq!(quote(true).unwrap_err().kind(), "out_of_fuel");
        assert!(quote(false).unwrap().is_none());
    }
}

/// Scenario: a guest logs a thousand lines.
/// Guarantee: the first 32 are kept, the others counted.
#[test]
fn log_is_bounded() {
    let policy = host(patient()).load(Candidate::new("log", hostile("log-flood"))).unwrap();
    let log = policy.recommend(&support::window(1, 0)).unwrap().log;
    assert_eq!((log.lines.len(), log.dropped), (32, 968));
}

/// Scenario: a component imports from WASI but never calls it.
/// Guarantee: it is rejected by default, and runs if the operator allows stubs.
#[test]
fn disallowed_imports_are_stubbed_on_request() {
    let component = || {
        let mut encoder = wit_component::ComponentEncoder::default();
        encoder = encoder.module(&hostile("import-wasi")).unwrap();
        Candidate::new("wasi", encoder.encode().unwrap())
    };
    let error = host(patient()).load(component()).unwrap_err();
    assert_eq!(error.kind(), "load.forbidden_import");
    let options = Options { limits: patient(), stub_imports: true, ..Options::default() };
    let stubbing = Host::new(options).unwrap();
    assert!(evaluate(&stubbing.load(component()).unwrap()).0.is_ok());
}

/// Scenario: a valid policy is truncated, has a bit flipped, or is replaced by random bytes.
/// Guarantee: an error, never a panic.
#[test]
fn corrupt_file_is_rejected() {
    let host = host(Limits { fuel: 1_000_000, ..patient() });
    let whole = hostile("honest");
    let load = |bytes: &[u8]| host.load(Candidate::new("x", bytes.to_vec()));
    for end in (0..whole.len()).step_by(whole.len() / 64) {
        let error = load(&whole[..end]).expect_err("a truncated policy was loaded");
        assert!(error.kind().starts_with("load."), "cut at {end}: {error}");
    }
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..200 {
        let mut flipped = whole.clone();
        let at = random() as usize % flipped.len();
        flipped[at] ^= 1 << (random() % 8);
        // Some changes leave it valid.
        let _ = load(&flipped);
        let junk: Vec<u8> = (0..256).map(|_| random() as u8).collect();
        assert_eq!(load(&junk).unwrap_err().kind(), "load.unreadable");
        let with_header = [b"\0asm\x0d\0\x01\0".as_slice(), &junk].concat();
        assert!(load(&with_header).unwrap_err().kind().starts_with("load."));
    }
}

/// Scenario: a locked file is replaced by another.
/// Guarantee: it is rejected by its digest, before it is parsed.
#[test]
fn pinned_digest_rejects_replaced_file() {
    let policy = Some(Digest::of(&hostile("honest")));
    let locked = Some(Locked { policy, settings: None });
    let candidate = Candidate {
        approval: Approval { locked, ..Approval::default() },
        ..Candidate::new("honest", hostile("loop-start"))
    };
    let host = host(patient());
    assert_eq!(host.load(candidate.clone()).unwrap_err().kind(), "load.digest");
    let pinned = Candidate { bytes: Cow::Owned(hostile("honest")), ..candidate };
    assert!(host.load(pinned).is_ok());
}
