//! What policies take and how they fail: a failing one is seen without reading logs.
//!
//! It looks at what is counted of them; they must not know of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use crate::advice::{Policies, Tally};

/// Which policy, or the file of what is none.
const NAME: &str = "phasemeter.policy.name";

pub(super) fn watch(meter: &Meter, policies: &Arc<Policies>) {
    counter(meter, policies, "phasemeter.policy.runs", "{run}", "Times it was asked", |it| it.runs);
    counter(meter, policies, "phasemeter.policy.fuel", "{instruction}", "Fuel of its runs", |it| {
        it.fuel
    });
    let shared = Arc::clone(policies);
    meter
        .f64_observable_counter("phasemeter.policy.time")
        .with_unit("s")
        .with_description("Wall clock of its runs")
        .with_callback(move |observer| {
            for (name, tally) in shared.tallies() {
                observer.observe(tally.time.as_secs_f64(), &[KeyValue::new(NAME, name)]);
            }
        })
        .build();
    let shared = Arc::clone(policies);
    meter
        .u64_observable_gauge("phasemeter.policy.memory")
        .with_unit("By")
        .with_description("Linear memory of its last run")
        .with_callback(move |observer| {
            for (name, tally) in shared.tallies() {
                observer.observe(tally.memory as u64, &[KeyValue::new(NAME, name)]);
            }
        })
        .build();
    faults(meter, policies);
    states(meter, policies);
}

fn counter(
    meter: &Meter,
    policies: &Arc<Policies>,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    count: fn(&Tally) -> u64,
) {
    let policies = Arc::clone(policies);
    meter
        .u64_observable_counter(name)
        .with_unit(unit)
        .with_description(description)
        .with_callback(move |observer| {
            for (name, tally) in policies.tallies() {
                observer.observe(count(&tally), &[KeyValue::new(NAME, name)]);
            }
        })
        .build();
}

fn faults(meter: &Meter, policies: &Arc<Policies>) {
    let policies = Arc::clone(policies);
    meter
        .u64_observable_counter("phasemeter.policy.faults")
        .with_unit("{fault}")
        .with_description("Verdicts and files that were lost, by the kind of fault")
        .with_callback(move |observer| {
            for (name, Tally { faults, .. }) in policies.tallies() {
                for (kind, count) in faults {
                    let kind = KeyValue::new("error.type", kind);
                    observer.observe(count, &[KeyValue::new(NAME, name.clone()), kind]);
                }
            }
        })
        .build();
}

/// The generation, and who is in it: 1 of each in the state that it is in.
fn states(meter: &Meter, policies: &Arc<Policies>) {
    let shared = Arc::clone(policies);
    meter
        .u64_observable_gauge("phasemeter.policy.generation")
        .with_unit("1")
        .with_description("How often the policies in use have changed")
        .with_callback(move |observer| observer.observe(shared.current().number, &[]))
        .build();
    let shared = Arc::clone(policies);
    meter
        .i64_observable_up_down_counter("phasemeter.policy.status")
        .with_unit("1")
        .with_description("1 in the state that it is in: in_use, failing or refused")
        .with_callback(move |observer| {
            let (generation, tallies) = (shared.current(), shared.tallies());
            for policy in &generation.policies {
                let manifest = policy.manifest();
                let state = if is_failing(&tallies, &manifest.name) { "failing" } else { "in_use" };
                let attributes = [
                    KeyValue::new(NAME, manifest.name.clone()),
                    KeyValue::new("phasemeter.policy.version", manifest.version.clone()),
                    KeyValue::new("phasemeter.policy.digest", policy.digest().to_string()),
                    KeyValue::new("phasemeter.policy.state", state),
                ];
                observer.observe(1, &attributes);
            }
            for rejection in &generation.rejected {
                let state = KeyValue::new("phasemeter.policy.state", "refused");
                observer.observe(1, &[KeyValue::new(NAME, rejection.file.clone()), state]);
            }
        })
        .build();
}

fn is_failing(tallies: &BTreeMap<String, Tally>, name: &str) -> bool {
    tallies.get(name).is_some_and(|tally| tally.failing)
}
