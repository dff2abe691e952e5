//! Metrics of policy generations, each of which is a separate resource with sums that start at zero.
//!
//! ```text
//! PolicyManager ─GenerationHandle→ thread → provider per generation
//! ```
//!
//! There is one provider at a time, and briefly the previous one: evaluations in progress are recorded
//! for the generation that performs them. Must not depend on how a generation is loaded.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::{MetricPipeline, policies};
use crate::policies::{GenerationHandle, PolicyManager};

/// How often a replaced generation is checked for remaining leases.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Exports each generation of these policies, until dropped.
pub(super) struct GenerationTelemetry(Arc<PolicyManager>);

/// A generation that is being exported.
struct GenerationExport {
    provider: SdkMeterProvider,
    handle: GenerationHandle,
}

impl GenerationTelemetry {
    /// Starts with the active generation. `done` is dropped after the last export.
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

/// Exports the active generation a last time.
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

    /// Ends the export of a replaced generation after its last evaluation is recorded.
    fn retire(self) {
        while !self.handle.is_released() {
            thread::sleep(POLL_INTERVAL);
        }
        self.end();
    }

    /// Collects a last time. Data that cannot be exported is lost, as with any SDK export.
    fn end(self) {
        let _ = self.provider.shutdown();
    }
}
