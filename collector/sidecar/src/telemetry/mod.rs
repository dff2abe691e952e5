//! What the sidecar tells of itself: metrics by the OpenTelemetry SDK, and lines on standard error.
//!
//! ```text
//! gauges, accounts → observable instruments → the SDK → opentelemetry-otlp, on a runtime of its own
//! ```
//!
//! Whoever works counts, in atomics of its own; the SDK's thread looks at them when it is time to
//! export, so that neither the sampler nor the pipeline ever waits for it. It goes where the metrics
//! of the GPUs go, by an exporter of its own: what it sends is not counted as sent of the GPUs. Each
//! generation of policies is another resource than the sidecar, over the same exporter. This room
//! must not know what GPUs say.

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
use phasemeter_otlp::experiment::Attributes;
use tokio::runtime;
use tokio::sync::oneshot;
use tracing::warn;

use self::exporter::Exporter;
use self::generations::GenerationTelemetry;
use crate::policies::PolicyManager;
use crate::sampler::StatsHandle;

/// The sidecar's own metrics, while it runs. Dropped without [`Telemetry::finish`] it stops at once.
pub struct Telemetry {
    pipeline: MetricPipeline,
    provider: SdkMeterProvider,
    meter: Meter,
    policies: Option<GenerationTelemetry>,
    /// Dropped by each that has told all; then the other side knows.
    done: Sender<()>,
    ended: Receiver<()>,
    /// The runtime of the exporter runs until this is dropped.
    _runtime: oneshot::Sender<()>,
}

/// Where metrics go, and whose they are.
#[derive(Clone)]
struct MetricPipeline {
    exporter: Exporter,
    every: Duration,
    /// The sidecar.
    resource: Resource,
}

/// Why the sidecar cannot tell of itself.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The system has no thread or file left to give.
    #[error("no thread can be started for it: {0}; allow this user more processes and files")]
    Thread(#[from] io::Error),
    /// The SDK does not take what the environment says.
    #[error(transparent)]
    Exporter(#[from] ExporterBuildError),
}

impl Telemetry {
    /// Starts to export every so often to where metrics go; `None` where they go nowhere. `host`
    /// describes the machine.
    ///
    /// # Errors
    /// Where the exporter cannot be made, or has no thread to run on.
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

    /// Makes instruments, for whoever has more to tell. A callback runs on the SDK's thread.
    #[must_use]
    pub const fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Tells how a sampler keeps time and what its calls cost; `late`: how many readings came when
    /// their time was settled.
    pub fn watch_sampler(&self, sampler: StatsHandle, late: Arc<AtomicU64>) {
        sampling::watch(&self.meter, sampler, late);
    }

    /// Tells what becomes of the data that a client carries to where `config` says.
    pub fn watch_client(&self, stats: &Stats, config: &Config) {
        delivery::watch(&self.meter, stats, config);
    }

    /// Tells what policies take, and which of them fail, a generation after the other.
    pub fn watch_policies(&mut self, policies: &Arc<PolicyManager>) {
        match GenerationTelemetry::follow(policies, self.pipeline.clone(), self.done.clone()) {
            Ok(generations) => self.policies = Some(generations),
            Err(error) => warn!("internal telemetry, policies: no thread can be started: {error}"),
        }
    }

    /// Collects a last time, and sends within `grace` what it can.
    pub fn finish(self, grace: Duration) {
        let Self { provider, policies, done, ended, _runtime, .. } = self;
        // The SDK waits for a backend as long as it likes; on a thread that nobody waits for.
        let last = thread::Builder::new().name("telemetry-end".to_owned()).spawn(move || {
            // A last collection that failed leaves what was collected before it.
            let _ = provider.shutdown();
            drop(done);
        });
        drop(policies);
        if last.is_ok() {
            // Nothing is ever received: it ends when all are done.
            let _ = ended.recv_timeout(grace);
        }
    }
}

impl MetricPipeline {
    /// Begins to export under the sidecar's resource and what else tells it apart.
    fn provider<const N: usize>(&self, more: [KeyValue; N]) -> SdkMeterProvider {
        let sidecar = self.resource.iter();
        let sidecar = sidecar.map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let resource = Resource::builder_empty().with_attributes(sidecar.chain(more));
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

/// Who tells: the sidecar, not the workload that the environment describes, on this machine.
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

/// A random UUID (version 4), another for each run. The standard library keys its hash tables with
/// what the system has of randomness; more than that no name needs.
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
    fn an_instance_has_a_random_uuid() {
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
    fn the_sidecar_is_not_its_workload() {
        let host = [("host.name", "node-7"), ("service.name", "trainer")];
        let host = host.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let resource = resource(&host.into());
        let value = |key: &'static str| resource.get(&key.into()).map(|value| value.to_string());
        assert_eq!(value("service.name").as_deref(), Some("phasemeter"));
        assert_eq!(value("host.name").as_deref(), Some("node-7"));
    }
}
