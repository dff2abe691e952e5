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

use super::{MetricPipeline, policies};
use crate::policies::{GenerationHandle, PolicyManager};

/// How often it is looked whether anybody still counts for a generation that is over.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Tells of each generation of these policies.
pub(super) struct GenerationTelemetry(Arc<PolicyManager>);

/// A generation that is told of.
struct GenerationExport {
    provider: SdkMeterProvider,
    handle: GenerationHandle,
}

impl GenerationTelemetry {
    /// Begins with the one in use. `done` is dropped when the last was told of.
    pub(super) fn follow(
        policies: &Arc<PolicyManager>,
        pipeline: MetricPipeline,
        done: Sender<()>,
    ) -> io::Result<Self> {
        let begun = policies.subscribe();
        let follow = move || {
            follow(&begun, &pipeline);
            drop(done);
        };
        thread::Builder::new().name("generations".to_owned()).spawn(follow)?;
        Ok(Self(Arc::clone(policies)))
    }
}

/// The one in use is told of a last time.
impl Drop for GenerationTelemetry {
    fn drop(&mut self) {
        self.0.unsubscribe();
    }
}

fn follow(begun: &Receiver<GenerationHandle>, pipeline: &MetricPipeline) {
    let mut export: Option<GenerationExport> = None;
    for handle in begun {
        let before = export.replace(GenerationExport::begin(handle, pipeline));
        before.into_iter().for_each(GenerationExport::retire);
    }
    export.into_iter().for_each(GenerationExport::end);
}

impl GenerationExport {
    fn begin(handle: GenerationHandle, pipeline: &MetricPipeline) -> Self {
        let number = i64::try_from(handle.stats.generation).unwrap_or(i64::MAX);
        let provider = pipeline.provider([
            KeyValue::new("phasemeter.policy_set.generation", number),
            KeyValue::new("phasemeter.policy_set.digest", handle.stats.digest().to_string()),
        ]);
        policies::watch(&super::meter(&provider), &handle);
        Self { provider, handle }
    }

    /// Another has taken over: ends it when the last verdict is counted.
    fn retire(self) {
        while !self.handle.is_released() {
            thread::sleep(POLL_INTERVAL);
        }
        self.end();
    }

    /// Collects a last time. What cannot be sent then is lost, as is all that the SDK cannot send.
    fn end(self) {
        let _ = self.provider.shutdown();
    }
}
