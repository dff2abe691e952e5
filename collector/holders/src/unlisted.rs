//! MIG instances that a source names and the driver has not listed yet: it lists them every 10 s only.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::units::{Nanos, Timestamp};

use crate::assignments::Problem;
use crate::claims::Unresolved;

/// How long a MIG instance is awaited before its GPU is reported without its holder. Shorter than the allowed lateness
/// of live meters, so that a grant still counts from when it was first seen.
const AWAITED_FOR: Nanos = Nanos::from_secs(12);

/// The instances that are named and not listed, since when.
#[derive(Debug, Default)]
pub(crate) struct Unlisted(BTreeMap<String, Timestamp>);

impl Unlisted {
    /// Takes the problems of a poll, and removes those that may pass. Returns whether an instance is awaited.
    pub(crate) fn update(&mut self, now: Timestamp, problems: &mut BTreeSet<Problem>) -> bool {
        let named: BTreeSet<&String> = problems.iter().filter_map(instance).collect();
        self.0.retain(|device, _| named.contains(device));
        for device in named {
            self.0.entry(device.clone()).or_insert(now);
        }
        let is_awaited = |device: &String| {
            self.0.get(device).is_some_and(|since| now.since(*since) < AWAITED_FOR)
        };
        let before = problems.len();
        problems.retain(|problem| !instance(problem).is_some_and(is_awaited));
        problems.len() < before
    }
}

/// The MIG instance that a problem is about.
fn instance(problem: &Problem) -> Option<&String> {
    match problem {
        Problem::UnknownDevice { device }
            if device.starts_with("MIG-") || device.contains("/gi") =>
        {
            Some(device)
        }
        Problem::Unresolved {
            device,
            reason: Unresolved::NoInstance(_) | Unresolved::Ambiguous(_),
        } => Some(device),
        _ => None,
    }
}
