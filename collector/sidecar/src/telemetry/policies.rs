//! What policies take and how they fail: a failing one is seen without reading logs.
//!
//! It looks at what is counted of one generation; the policies must not know of it.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrumentBuilder, Meter};

use crate::advice::{Tally, Watched};

/// Which policy, or the file of what is none.
const NAME: &str = "phasemeter.policy.name";

/// A value, and what it is of.
type Point<T> = (T, Vec<KeyValue>);

pub(super) fn watch(meter: &Meter, watched: &Watched) {
    let runs = meter
        .u64_observable_counter("phasemeter.policy.runs")
        .with_unit("{run}")
        .with_description("Times it was asked");
    observe(runs, watched, |it| each(it, |tally| tally.runs)).build();
    let fuel = meter
        .u64_observable_counter("phasemeter.policy.fuel")
        .with_unit("{instruction}")
        .with_description("Fuel of its runs");
    observe(fuel, watched, |it| each(it, |tally| tally.fuel)).build();
    let time = meter
        .f64_observable_counter("phasemeter.policy.time")
        .with_unit("s")
        .with_description("Wall clock of its runs");
    observe(time, watched, |it| each(it, |tally| tally.time.as_secs_f64())).build();
    let memory = meter
        .u64_observable_gauge("phasemeter.policy.memory")
        .with_unit("By")
        .with_description("Linear memory of its last run");
    observe(memory, watched, |it| each(it, |tally| tally.memory as u64)).build();
    let faults = meter
        .u64_observable_counter("phasemeter.policy.faults")
        .with_unit("{fault}")
        .with_description("Verdicts and files that were lost, by the kind of fault");
    observe(faults, watched, of_faults).build();
    let status = meter
        .i64_observable_up_down_counter("phasemeter.policy.status")
        .with_unit("1")
        .with_description("1 in the state that it is in: in_use, failing or refused");
    observe(status, watched, of_status).build();
}

/// An instrument whose points are looked up when they are collected.
fn observe<'a, I, T: 'static>(
    instrument: AsyncInstrumentBuilder<'a, I, T>,
    watched: &Watched,
    points: impl Fn(&Watched) -> Vec<Point<T>> + Send + Sync + 'static,
) -> AsyncInstrumentBuilder<'a, I, T> {
    let watched = watched.clone();
    instrument.with_callback(move |observer| {
        for (value, attributes) in points(&watched) {
            observer.observe(value, &attributes);
        }
    })
}

/// A point a policy.
fn each<T>(watched: &Watched, value: impl Fn(&Tally) -> T) -> Vec<Point<T>> {
    let tallies = watched.tallies.all().into_iter();
    tallies.map(|(name, tally)| (value(&tally), vec![KeyValue::new(NAME, name)])).collect()
}

fn of_faults(watched: &Watched) -> Vec<Point<u64>> {
    let mut points = Vec::new();
    for (name, Tally { faults, .. }) in watched.tallies.all() {
        for (kind, count) in faults {
            let kind = KeyValue::new("error.type", kind);
            points.push((count, vec![KeyValue::new(NAME, name.clone()), kind]));
        }
    }
    points
}

/// 1 of each in the state that it is in; 0 when another generation has taken over.
fn of_status(watched: &Watched) -> Vec<Point<i64>> {
    let (tallies, is) = (&watched.tallies, i64::from(!watched.is_over()));
    let state = |state| KeyValue::new("phasemeter.policy.state", state);
    let all = tallies.all();
    let in_use = tallies.members.iter().map(|member| {
        let is_failing = all.get(&member.name).is_some_and(|tally| tally.failing);
        let attributes = vec![
            KeyValue::new(NAME, member.name.clone()),
            KeyValue::new("phasemeter.policy.version", member.version.clone()),
            KeyValue::new("phasemeter.policy.digest", member.digest.to_string()),
            state(if is_failing { "failing" } else { "in_use" }),
        ];
        (is, attributes)
    });
    let refused = tallies.refused().into_iter();
    let refused = refused.map(|file| (is, vec![KeyValue::new(NAME, file), state("refused")]));
    in_use.chain(refused).collect()
}
