//! Metrics of policies: cost, errors and status.
//!
//! Reads the statistics of one generation; policies must not depend on it.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrumentBuilder, Meter};

use crate::policies::{GenerationHandle, PolicyStats};

/// The policy, or the file if it was rejected.
const NAME: &str = "phasemeter.policy.name";

/// A value and its attributes.
type Point<T> = (T, Vec<KeyValue>);

pub(super) fn watch(meter: &Meter, handle: &GenerationHandle) {
    let runs = meter
        .u64_observable_counter("phasemeter.policy.evaluations")
        .with_unit("{evaluation}")
        .with_description("Evaluations");
    observe(runs, handle, |it| each(it, |stats| stats.evaluations)).build();
    let fuel = meter
        .u64_observable_counter("phasemeter.policy.fuel")
        .with_unit("{instruction}")
        .with_description("Fuel consumed");
    observe(fuel, handle, |it| each(it, |stats| stats.fuel)).build();
    let time = meter
        .f64_observable_counter("phasemeter.policy.time")
        .with_unit("s")
        .with_description("Duration of evaluations");
    observe(time, handle, |it| each(it, |stats| stats.time.as_secs_f64())).build();
    let memory = meter
        .u64_observable_gauge("phasemeter.policy.memory")
        .with_unit("By")
        .with_description("Linear memory of the last evaluation");
    observe(memory, handle, |it| each(it, |stats| stats.memory as u64)).build();
    let errors = meter
        .u64_observable_counter("phasemeter.policy.errors")
        .with_unit("{error}")
        .with_description("Failed evaluations and rejected files, by kind of error");
    observe(errors, handle, error_points).build();
    let status = meter
        .i64_observable_up_down_counter("phasemeter.policy.status")
        .with_unit("1")
        .with_description("1 for the current state: active, failing or rejected");
    observe(status, handle, status_points).build();
}

/// An instrument whose points are computed at collection.
fn observe<'a, I, T: 'static>(
    instrument: AsyncInstrumentBuilder<'a, I, T>,
    handle: &GenerationHandle,
    points: impl Fn(&GenerationHandle) -> Vec<Point<T>> + Send + Sync + 'static,
) -> AsyncInstrumentBuilder<'a, I, T> {
    let handle = handle.clone();
    instrument.with_callback(move |observer| {
        for (value, attributes) in points(&handle) {
            observer.observe(value, &attributes);
        }
    })
}

/// One point per policy.
fn each<T>(handle: &GenerationHandle, value: impl Fn(&PolicyStats) -> T) -> Vec<Point<T>> {
    let stats = handle.stats.all().into_iter();
    stats.map(|(name, stats)| (value(&stats), vec![KeyValue::new(NAME, name)])).collect()
}

fn error_points(handle: &GenerationHandle) -> Vec<Point<u64>> {
    let mut points = Vec::new();
    for (name, PolicyStats { errors, .. }) in handle.stats.all() {
        for (kind, count) in errors {
            let kind = KeyValue::new("error.type", kind);
            points.push((count, vec![KeyValue::new(NAME, name.clone()), kind]));
        }
    }
    points
}

/// 1 for the current state of each policy; 0 once the generation is no longer in use.
fn status_points(handle: &GenerationHandle) -> Vec<Point<i64>> {
    let (stats, is) = (&handle.stats, i64::from(!handle.is_released()));
    let state = |state| KeyValue::new("phasemeter.policy.state", state);
    let all = stats.all();
    let active = stats.policies.iter().map(|policy| {
        let is_failing = all.get(&policy.name).is_some_and(|stats| stats.failing);
        let attributes = vec![
            KeyValue::new(NAME, policy.name.clone()),
            KeyValue::new("phasemeter.policy.version", policy.version.clone()),
            KeyValue::new("phasemeter.policy.digest", policy.digest.to_string()),
            state(if is_failing { "failing" } else { "active" }),
        ];
        (is, attributes)
    });
    let rejected = stats.rejected().into_iter();
    let rejected = rejected.map(|file| (is, vec![KeyValue::new(NAME, file), state("rejected")]));
    active.chain(rejected).collect()
}
