//! Fresh evaluations of the default policies relative to those of an empty policy of their kind.
//!
//! All policies are evaluated in turn, so that a busy machine slows them alike.

use std::hint::black_box;
use std::time::{Duration, Instant};

use phasemeter_rules::host::{Candidate, Host};
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::quote::QuoteRequest;
use phasemeter_rules::window::Window;

use crate::{percentiles, support};

/// The most that an evaluation of a default policy may cost, relative to an empty one.
const BUDGET: f64 = 1.6;

/// Evaluations of each policy.
const ROUNDS: usize = 5_000;

/// What policies are evaluated on.
struct Inputs {
    window: Window,
    request: QuoteRequest,
}

impl Inputs {
    fn evaluate(&self, policy: &Policy) -> Usage {
        if policy.kind() == Kind::Pricer {
            let evaluation = policy.quote(&self.request).unwrap();
            black_box(evaluation.result.unwrap());
            return evaluation.usage;
        }
        let evaluation = policy.recommend(&self.window).unwrap();
        black_box(evaluation.result.unwrap());
        evaluation.usage
    }
}

/// Prints the table, and returns the policies that are over the budget.
pub(crate) fn compare(host: &Host, default_policies: &[(String, Vec<u8>)]) -> Vec<String> {
    let empty = [
        ("empty".to_owned(), support::empty_recommender()),
        // Returns no quote.
        ("empty pricer".to_owned(), support::hostile("honest-pricer")),
    ];
    let load = |(name, bytes): &(String, Vec<u8>)| {
        (name.clone(), host.load(Candidate::new(name, bytes.clone())).unwrap())
    };
    let mut policies: Vec<_> = empty.iter().chain(default_policies).map(load).collect();
    policies.sort_by_key(|(_, policy)| policy.kind() == Kind::Pricer);
    let inputs = Inputs { window: support::window(8, 600), request: support::request() };
    let mut times = vec![Vec::with_capacity(ROUNDS); policies.len()];
    for round in 0..ROUNDS + ROUNDS / 10 {
        for ((_, policy), times) in policies.iter().zip(&mut times) {
            let started = Instant::now();
            black_box(inputs.evaluate(policy));
            if round >= ROUNDS / 10 {
                times.push(started.elapsed());
            }
        }
    }
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = loads.split(' ').next().unwrap_or_default();
    println!("Evaluations on 8 GPUs × 600 points, or of a quote, in turn; load average {load}\n");
    println!("{:20} {:>10} {:>10} {:>10} {:>10}   budget", "", "fuel", "p50", "p99", "÷ empty");
    // The empty policy of the kind is the first of it.
    let mut reference: Option<(Kind, Duration)> = None;
    let mut over_budget = Vec::new();
    for ((name, policy), times) in policies.iter().zip(&mut times) {
        let [p50, p99] = percentiles(times);
        let (_, empty) = match reference {
            Some((kind, empty)) if kind == policy.kind() => (kind, empty),
            _ => *reference.insert((policy.kind(), p50)),
        };
        let ratio = p50.as_secs_f64() / empty.as_secs_f64();
        let fuel = inputs.evaluate(policy).fuel;
        let [p50, p99] = [p50, p99].map(|time| format!("{time:.1?}"));
        let over = if ratio > BUDGET { ", over it" } else { "" };
        if ratio > BUDGET {
            over_budget.push(format!("{name}: {ratio:.2} times an empty policy, over {BUDGET}"));
        }
        println!("{name:20} {fuel:>10} {p50:>10} {p99:>10} {ratio:>10.2}   {BUDGET}{over}");
    }
    over_budget
}
