//! Metrics of policies: cost, errors and status, per generation.
//!
//! A generation is observed while it is active, and then until it was once observed after its last
//! evaluation: its sums are complete, and the number of series does not grow with the number of
//! reloads. Reads statistics; policies must not depend on it.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrumentBuilder, Meter};
use phasemeter_otlp::names::{attribute, metric};

use crate::policies::{GenerationHandle, PolicyStats};

/// The policy, or the file if it was rejected.
const NAME: &str = attribute::POLICY_NAME;

/// A value and its attributes.
type Point<T> = (T, Vec<KeyValue>);

/// The generations to observe.
#[derive(Clone)]
struct Generations(Arc<Mutex<Observed>>);

struct Observed {
    /// Generations that have begun since the last collection.
    begun: Receiver<GenerationHandle>,
    generations: Vec<Generation>,
}

/// One generation in the current collection.
#[derive(Clone)]
struct Generation {
    handle: GenerationHandle,
    /// Whether its last evaluation had ended when the collection began.
    is_final: bool,
}

impl Generations {
    /// Begins a collection: forgets the generations whose final values were in the previous one.
    fn begin_collection(&self) {
        let mut observed = self.lock();
        observed.generations.retain(|generation| !generation.is_final);
        while let Ok(handle) = observed.begun.try_recv() {
            observed.generations.push(Generation { handle, is_final: false });
        }
        for generation in &mut observed.generations {
            generation.is_final = generation.handle.is_released();
        }
    }

    /// The points of all generations.
    fn points<T>(&self, points: impl Fn(&Generation) -> Vec<Point<T>>) -> Vec<Point<T>> {
        let generations = self.lock().generations.clone();
        let each = generations.iter().flat_map(|generation| {
            let number = i64::try_from(generation.handle.stats.generation).unwrap_or(i64::MAX);
            let number = KeyValue::new(attribute::POLICY_SET_GENERATION, number);
            points(generation).into_iter().map(move |(value, mut attributes)| {
                attributes.push(number.clone());
                (value, attributes)
            })
        });
        each.collect()
    }

    fn lock(&self) -> MutexGuard<'_, Observed> {
        // A poisoned list is valid: a generation is at worst observed once more.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Observes the generations that `begun` receives, the active one first.
pub(super) fn watch(meter: &Meter, begun: Receiver<GenerationHandle>) {
    let observed = Observed { begun, generations: Vec::new() };
    let generations = &Generations(Arc::new(Mutex::new(observed)));
    let started = generations.clone();
    let runs = meter
        .u64_observable_counter(metric::POLICY_EVALUATIONS)
        .with_unit("{evaluation}")
        .with_description("Evaluations")
        // Callbacks run in the order in which they are registered.
        .with_callback(move |_| started.begin_collection());
    observe(runs, generations, |it| each(it, |stats| stats.evaluations)).build();
    let fuel = meter
        .u64_observable_counter(metric::POLICY_FUEL)
        .with_unit("{instruction}")
        .with_description("Fuel consumed");
    observe(fuel, generations, |it| each(it, |stats| stats.fuel)).build();
    let time = meter
        .f64_observable_counter(metric::POLICY_TIME)
        .with_unit("s")
        .with_description("Duration of evaluations");
    observe(time, generations, |it| each(it, |stats| stats.time.as_secs_f64())).build();
    let memory = meter
        .u64_observable_gauge(metric::POLICY_MEMORY)
        .with_unit("By")
        .with_description("Linear memory of the last evaluation");
    observe(memory, generations, |it| each(it, |stats| stats.memory as u64)).build();
    let errors = meter
        .u64_observable_counter(metric::POLICY_ERRORS)
        .with_unit("{error}")
        .with_description("Failed evaluations and rejected files, by kind of error");
    observe(errors, generations, error_points).build();
    let status = meter
        .i64_observable_up_down_counter(metric::POLICY_STATUS)
        .with_unit("1")
        .with_description("1 for the current state: active, failing or rejected");
    observe(status, generations, status_points).build();
}

/// An instrument whose points are computed at collection.
fn observe<'a, I, T: 'static>(
    instrument: AsyncInstrumentBuilder<'a, I, T>,
    generations: &Generations,
    points: impl Fn(&Generation) -> Vec<Point<T>> + Send + Sync + 'static,
) -> AsyncInstrumentBuilder<'a, I, T> {
    let generations = generations.clone();
    instrument.with_callback(move |observer| {
        for (value, attributes) in generations.points(&points) {
            observer.observe(value, &attributes);
        }
    })
}

/// One point per policy.
fn each<T>(generation: &Generation, value: impl Fn(&PolicyStats) -> T) -> Vec<Point<T>> {
    let stats = generation.handle.stats.all().into_iter();
    stats.map(|(name, stats)| (value(&stats), vec![KeyValue::new(NAME, name)])).collect()
}

fn error_points(generation: &Generation) -> Vec<Point<u64>> {
    let mut points = Vec::new();
    for (name, PolicyStats { errors, .. }) in generation.handle.stats.all() {
        for (kind, count) in errors {
            let kind = KeyValue::new("error.type", kind);
            points.push((count, vec![KeyValue::new(NAME, name.clone()), kind]));
        }
    }
    points
}

/// 1 for the current state of each policy; 0 once the generation is no longer in use.
fn status_points(generation: &Generation) -> Vec<Point<i64>> {
    let (stats, is) = (&generation.handle.stats, i64::from(!generation.is_final));
    let state = |state| KeyValue::new(attribute::POLICY_STATE, state);
    let digest = KeyValue::new(attribute::POLICY_SET_DIGEST, stats.digest().to_string());
    let all = stats.all();
    let active = stats.policies.iter().map(|policy| {
        let is_failing = all.get(&policy.name).is_some_and(|stats| stats.failing);
        let attributes = vec![
            KeyValue::new(NAME, policy.name.clone()),
            KeyValue::new(attribute::POLICY_VERSION, policy.version.clone()),
            KeyValue::new(attribute::POLICY_DIGEST, policy.digest.to_string()),
            digest.clone(),
            state(if is_failing { "failing" } else { "active" }),
        ];
        (is, attributes)
    });
    let rejected = stats.rejected().into_iter();
    let rejected = rejected.map(|file| (is, vec![KeyValue::new(NAME, file), state("rejected")]));
    active.chain(rejected).collect()
}
