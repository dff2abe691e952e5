//! A generation of policies is a resource of its own: its metrics begin with it, from zero, and end
//! with it.
//!
//! ```text
//! Policies ─each generation→ a thread → a provider, whose resource names it
//! ```
//!
//! One provider is there at a time, and for a moment the one before: what windows in flight still
//! count is told under the generation that judges them. Nobody waits for the thread. This room must
//! not know how a generation comes about.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::{Line, policies};
use crate::advice::{Policies, Watched};

/// How often it is looked whether anybody still counts for a generation that is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Tells of each generation of these policies.
pub(super) struct Generations(Arc<Policies>);

/// A generation that is told of.
struct Told {
    provider: SdkMeterProvider,
    watched: Watched,
}

impl Generations {
    /// Begins with the one in use. `done` is dropped when the last was told of.
    pub(super) fn follow(
        policies: &Arc<Policies>,
        line: Line,
        done: Sender<()>,
    ) -> io::Result<Self> {
        let begun = policies.watched();
        let follow = move || {
            follow(&begun, &line);
            drop(done);
        };
        thread::Builder::new().name("generations".to_owned()).spawn(follow)?;
        Ok(Self(Arc::clone(policies)))
    }
}

/// The one in use is told of a last time.
impl Drop for Generations {
    fn drop(&mut self) {
        self.0.unwatch();
    }
}

fn follow(begun: &Receiver<Watched>, line: &Line) {
    let mut told: Option<Told> = None;
    for watched in begun {
        let before = told.replace(Told::begin(watched, line));
        before.into_iter().for_each(Told::retire);
    }
    told.into_iter().for_each(Told::end);
}

impl Told {
    fn begin(watched: Watched, line: &Line) -> Self {
        let number = i64::try_from(watched.tallies.generation).unwrap_or(i64::MAX);
        let provider = line.provider([
            KeyValue::new("phasemeter.policy.generation", number),
            KeyValue::new("phasemeter.policies.digest", watched.tallies.digest().to_string()),
        ]);
        policies::watch(&super::meter(&provider), &watched);
        Self { provider, watched }
    }

    /// Another has taken over: ends it when the last verdict is counted.
    fn retire(self) {
        while !self.watched.is_over() {
            thread::sleep(LOOK_EVERY);
        }
        self.end();
    }

    /// Collects a last time. What cannot be sent then is lost, as is all that the SDK cannot send.
    fn end(self) {
        let _ = self.provider.shutdown();
    }
}
