//! Internal telemetry: metrics of the sidecar itself, exported by the OpenTelemetry SDK.
//!
//! ```text
//! statistics → observable instruments → SDK ─┬→ opentelemetry-otlp, on its own runtime
//!                                             └→ `/metrics`, if there is an address for it
//! ```
//!
//! The sampler, the pipeline and policies count in atomics, which the SDK's thread reads at each
//! collection, so that none of them waits for an export. The target is that of the GPU metrics, with a
//! separate exporter, so that delivery statistics cover GPU data only.

mod delivery;
mod exporter;
mod gateway;
mod histogram_bridge;
mod policies;
mod process;
mod sampling;
mod scrape;

use std::future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::resource::{ResourceDetector, TelemetryResourceDetector};
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::{Config, Stats, Target};
use phasemeter_otlp::encode::SCHEMA;
use phasemeter_otlp::experiment::Attributes;
use phasemeter_otlp::names::SCHEMA_URL;
use phasemeter_receiver::ReceiverStats;
use tokio::runtime;

use self::exporter::Exporter;
pub use self::scrape::ScrapeReader;
use crate::gateway::GatewayStatus;
use crate::policies::PolicyManager;
use crate::sampler::StatsHandle;

/// The sidecar's own metrics.
pub struct Telemetry {
    provider: SdkMeterProvider,
    meter: Meter,
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
    /// Starts exporting to the target of metrics at the given interval, and to a reader that collects on demand;
    /// `None` if there is neither. `process` is the resource of this process.
    ///
    /// # Errors
    /// Returns an error if an exporter or its thread cannot be created.
    pub fn start(
        config: Option<&Config>,
        every: Nanos,
        process: &Attributes,
        scraped: Option<&ScrapeReader>,
    ) -> Result<Option<Self>, TelemetryError> {
        let target = config.and_then(|config| config.target(Signal::Metrics));
        if target.is_none() && scraped.is_none() {
            return Ok(None);
        }
        let attributes =
            process.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let mut builder = SdkMeterProvider::builder()
            .with_resource(Resource::builder_empty().with_schema_url(attributes, SCHEMA).build());
        if let Some(target) = target {
            builder = builder.with_reader(push(target, every)?);
        }
        if let Some(scraped) = scraped {
            builder = builder.with_reader(scraped.clone());
        }
        let provider = builder.build();
        let meter = meter(&provider);
        process::watch(&meter);
        Ok(Some(Self { provider, meter }))
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

    /// Exports what a gateway has received, meters and does not bill.
    pub fn watch_gateway(&self, receiver: Arc<ReceiverStats>, status: Arc<GatewayStatus>) {
        gateway::watch(&self.meter, receiver, status);
    }

    /// Exports the cost and errors of policies, per generation.
    pub fn watch_policies(&self, policies: &PolicyManager) {
        policies::watch(&self.meter, policies.subscribe());
    }

    /// Collects and exports a last time, for at most `grace`.
    pub fn finish(self, grace: Duration) {
        let Self { provider, .. } = self;
        let (done, ended) = mpsc::channel::<()>();
        // The SDK may block for longer than `grace`, so it runs on a detached thread.
        let last = thread::Builder::new().name("telemetry-end".to_owned()).spawn(move || {
            // If the last collection fails, earlier exports remain valid.
            let _ = provider.shutdown();
            drop(done);
        });
        if last.is_ok() {
            // Nothing is ever sent: this returns once the thread ends.
            let _ = ended.recv_timeout(grace);
        }
    }
}

/// A reader that exports to this target, with its own thread.
fn push(target: &Target, every: Nanos) -> Result<PeriodicReader<Exporter>, TelemetryError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let inside = runtime.enter();
    let exporter = target.metric_exporter()?;
    drop(inside);
    let exporter = Exporter::new(exporter, runtime.handle().clone(), target.to_string());
    // Until the end of the process: the SDK's thread polls an export beyond any deadline, and an export panics
    // if its runtime has ended.
    thread::Builder::new()
        .name("telemetry".to_owned())
        .spawn(move || runtime.block_on(future::pending::<()>()))?;
    let every = Duration::from_nanos(every.0);
    Ok(PeriodicReader::builder(exporter).with_interval(every).build())
}

fn meter(provider: &SdkMeterProvider) -> Meter {
    let scope = InstrumentationScope::builder(phasemeter_environment::NAME)
        .with_schema_url(SCHEMA_URL)
        .with_version(env!("CARGO_PKG_VERSION"));
    provider.meter_with_scope(scope.build())
}

/// The resource attributes that name the SDK.
#[must_use]
pub fn sdk_attributes() -> Attributes {
    let detected = TelemetryResourceDetector.detect();
    detected.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}
