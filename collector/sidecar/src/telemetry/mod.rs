//! Internal telemetry: metrics of the sidecar itself, exported by the OpenTelemetry SDK.
//!
//! ```text
//! statistics → observable instruments → SDK → opentelemetry-otlp, on its own runtime
//! ```
//!
//! The sampler, the pipeline and policies count in atomics, which the SDK's thread reads at each
//! collection, so that none of them waits for an export. The target is that of the GPU metrics, with a
//! separate exporter, so that delivery statistics cover GPU data only. Each policy generation is a
//! separate resource on the same exporter. Must not depend on readings.

mod delivery;
mod exporter;
mod generations;
mod histogram_bridge;
mod policies;
mod process;
mod sampling;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::{Config, Stats};
use phasemeter_otlp::encode::SCHEMA;
use phasemeter_otlp::experiment::Attributes;
use tokio::runtime;
use tokio::sync::oneshot;
use tracing::warn;

use self::exporter::Exporter;
use self::generations::GenerationTelemetry;
use crate::policies::PolicyManager;
use crate::sampler::StatsHandle;

/// The sidecar's own metrics. If dropped without [`Telemetry::finish`], they stop at once.
pub struct Telemetry {
    pipeline: MetricPipeline,
    provider: SdkMeterProvider,
    meter: Meter,
    policies: Option<GenerationTelemetry>,
    /// Each exporting thread drops its clone after its last export, which closes `ended`.
    done: Sender<()>,
    ended: Receiver<()>,
    /// Keeps the exporter's runtime alive.
    _runtime: oneshot::Sender<()>,
}

/// The exporter, interval and resource shared by all providers.
#[derive(Clone)]
struct MetricPipeline {
    exporter: Exporter,
    every: Duration,
    /// The resource of the sidecar.
    resource: Resource,
}

/// Why internal telemetry cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A thread or runtime cannot be created.
    #[error("cannot start a thread: {0}; raise the limits of processes and open files")]
    Thread(#[from] io::Error),
    /// The SDK rejects the configuration.
    #[error(transparent)]
    Exporter(#[from] ExporterBuildError),
}

impl Telemetry {
    /// Starts exporting to the target of metrics at the given interval; `None` if metrics have no
    /// target. `host` describes the machine.
    ///
    /// # Errors
    /// Returns an error if the exporter or its thread cannot be created.
    pub fn start(
        config: &Config,
        every: Nanos,
        host: &Attributes,
    ) -> Result<Option<Self>, TelemetryError> {
        let Some(target) = config.target(Signal::Metrics) else { return Ok(None) };
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = runtime.enter();
        let exporter = target.metric_exporter()?;
        drop(inside);
        let exporter = Exporter::new(exporter, runtime.handle().clone(), target.to_string());
        let (running, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || runtime.block_on(ended))?;
        let every = Duration::from_nanos(every.0);
        let pipeline = MetricPipeline { exporter, every, resource: resource(host) };
        let provider = pipeline.provider([]);
        let meter = meter(&provider);
        process::watch(&meter);
        let (done, ended) = mpsc::channel();
        Ok(Some(Self { pipeline, provider, meter, policies: None, done, ended, _runtime: running }))
    }

    /// The meter, for further instruments. Callbacks run on the SDK's thread.
    #[must_use]
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Exports the punctuality of a sampler and the cost of its calls. `late` is the number of
    /// readings behind the watermark.
    pub fn watch_sampler(&self, sampler: StatsHandle, late: Arc<AtomicU64>) {
        sampling::watch(&self.meter, sampler, late);
    }

    /// Exports the delivery statistics of a client with this configuration.
    pub fn watch_client(&self, stats: &Stats, config: &Config) {
        delivery::watch(&self.meter, stats, config);
    }

    /// Exports the cost and errors of policies, one generation after another.
    pub fn watch_policies(&mut self, policies: &Arc<PolicyManager>) {
        match GenerationTelemetry::follow(policies, self.pipeline.clone(), self.done.clone()) {
            Ok(generations) => self.policies = Some(generations),
            Err(error) => warn!("internal telemetry, policies: cannot start a thread: {error}"),
        }
    }

    /// Collects and exports a last time, for at most `grace`.
    pub fn finish(self, grace: Duration) {
        let Self { provider, policies, done, ended, _runtime, .. } = self;
        // The SDK may block for longer than `grace`, so it runs on a detached thread.
        let last = thread::Builder::new().name("telemetry-end".to_owned()).spawn(move || {
            // If the last collection fails, earlier exports remain valid.
            let _ = provider.shutdown();
            drop(done);
        });
        drop(policies);
        if last.is_ok() {
            // Nothing is ever sent: this returns once all senders are dropped.
            let _ = ended.recv_timeout(grace);
        }
    }
}

impl MetricPipeline {
    /// Creates a provider with the sidecar's resource and further attributes.
    fn provider<const N: usize>(&self, more: [KeyValue; N]) -> SdkMeterProvider {
        let sidecar = self.resource.iter();
        let sidecar = sidecar.map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let resource = Resource::builder_empty().with_schema_url(sidecar.chain(more), SCHEMA);
        let reader = PeriodicReader::builder(self.exporter.clone()).with_interval(self.every);
        SdkMeterProvider::builder()
            .with_resource(resource.build())
            .with_reader(reader.build())
            .build()
    }
}

fn meter(provider: &SdkMeterProvider) -> Meter {
    let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
        .with_version(env!("CARGO_PKG_VERSION"));
    provider.meter_with_scope(scope.build())
}

/// The resource of the sidecar on this machine; not that of the workload, which the environment
/// describes.
fn resource(host: &Attributes) -> Resource {
    let host = host.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(host)
        .with_attributes([
            KeyValue::new("service.name", env!("CARGO_PKG_NAME")),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance()),
        ])
        .build()
}

/// A random UUID (version 4) per run, from the random keys of the standard library's hash maps.
fn instance() -> String {
    let random = || RandomState::new().hash_one(());
    let high = random() & !0xf000 | 0x4000;
    let low = random() & !(0b11 << 62) | 1 << 63;
    let (a, b, c, d) = (high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48);
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{:012x}", low & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_id_is_a_random_uuid() {
        let uuid = instance();
        let groups: Vec<_> = uuid.split('-').collect();
        assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(uuid.chars().all(|c| c == '-' || c.is_ascii_hexdigit()));
        assert!(
            groups[2].starts_with('4') && groups[3].starts_with(['8', '9', 'a', 'b']),
            "{uuid}"
        );
        assert_ne!(uuid, instance());
    }

    #[test]
    fn resource_is_not_the_workload() {
        let host = [("host.name", "node-7"), ("service.name", "trainer")];
        let host = host.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let resource = resource(&host.into());
        let value = |key: &'static str| resource.get(&key.into()).map(|value| value.to_string());
        assert_eq!(value("service.name").as_deref(), Some("phasemeter"));
        assert_eq!(value("host.name").as_deref(), Some("node-7"));
    }
}
