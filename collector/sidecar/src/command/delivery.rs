//! Delivery of OTLP requests to a backend.

use std::time::Duration;

use phasemeter_engine::telemetry::{ScrapeReader, Telemetry};
use phasemeter_environment::instance;
use phasemeter_environment::variables::Environment;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::delivery::{
    Client, Config, ConfigErrors, Destination, RequestSender, StorageKind,
};
use phasemeter_otlp::experiment::Attributes;
use phasemeter_otlp::{BySignal, Request, Signal};
use tracing::warn;

use super::data_dir::ExportOptions;
use super::delivery_report::DeliveryReport;
use super::error::CommandError;
use super::live_error::LiveError;
use super::optional::Optional;
use crate::variables::variable;
use phasemeter_cli::SendArgs;

/// Whether a command cannot do without export.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Export {
    /// It is what the command is for, or what an option requests.
    Required,
    /// It is metered anyway.
    Optional,
}

/// Why nothing is sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(super) enum NotSent {
    #[error("nothing was sent: OTEL_EXPORTER_OTLP_ENDPOINT is not set")]
    NoEndpoint,
    #[error("nothing was sent: every OTEL_…_EXPORTER is none")]
    NoExporter,
    #[error("nothing was sent: export could not be started; see the log")]
    NotStarted,
}

/// Sends requests until it is finished.
pub(super) struct Delivery {
    client: Client,
    config: Config,
}

impl Delivery {
    /// Starts delivery if the command line requests it.
    pub(super) fn open(send: &SendArgs) -> Result<Option<Self>, CommandError> {
        let destination = |endpoint: &Option<String>| match endpoint {
            Some(endpoint) => Self::start(Destination::Endpoint(endpoint), Export::Required, None),
            None => Self::start(Destination::Default, Export::Required, None),
        };
        let delivery = send.otlp.as_ref().map(destination).transpose()?;
        if let Some(None) = delivery {
            warn!("--otlp is ignored: every OTEL_…_EXPORTER is none");
        }
        Ok(delivery.flatten())
    }

    /// Starts delivery; `None` if there is no destination. Connects when the first request is sent. Of what
    /// is invalid the default is used, with a warning; what has none is an error if export is required, or if
    /// nothing is left.
    /// Requests are stored as `options` say; without them, they wait in memory.
    fn start(
        destination: Destination<'_>,
        export: Export,
        options: Option<&ExportOptions>,
    ) -> Result<Option<Self>, CommandError> {
        let look_up = |name: &str| match options {
            Some(options) => options.look_up(name),
            None => variable(name),
        };
        let (config, errors) = Config::read_usable(destination, look_up);
        let is_required = export == Export::Required || config.is_none();
        if is_required && errors.prevent_export() {
            return Err(LiveError::from(errors).into());
        }
        log(&errors);
        let Some(config) = config else { return Ok(None) };
        let mut targets = Signal::ALL.into_iter().filter_map(|signal| config.target(signal));
        if let Some(target) = targets.find(|target| target.exposes_headers()) {
            warn!(
                "headers, which may contain credentials, are sent unencrypted: {target}; use https"
            );
        }
        let storage = options.map(|options| options.storage(&config, StorageKind::Own));
        let storage = storage.transpose()?.flatten();
        let client = Client::start_with(&config, storage).map_err(LiveError::from)?;
        Ok(Some(Self { client, config }))
    }

    /// Starts the delivery of a live run to the destination of the environment.
    pub(super) fn of_environment(
        environment: &Environment,
        export: Export,
        options: &ExportOptions,
        optional: Optional,
    ) -> Result<Result<Self, NotSent>, CommandError> {
        let started = match Self::start(Destination::Environment, export, Some(options)) {
            Err(CommandError::Live(LiveError::Config(errors))) if export == Export::Optional => {
                log(&errors);
                None
            }
            started => optional.result(started)?,
        };
        Ok(match started {
            Some(Some(delivery)) => Ok(delivery),
            Some(None) if environment.exports_nothing => Err(NotSent::NoExporter),
            Some(None) => Err(NotSent::NoEndpoint),
            None => Err(NotSent::NotStarted),
        })
    }

    /// Sends metrics and spans later by a part of the export interval that depends on the instance, so that
    /// not all machines send at once.
    pub(super) fn spread(&self, instance: &str, every: Nanos) {
        self.client.set_send_offset(instance::send_offset(instance, every));
    }

    /// Makes space for the metrics of this many GPUs.
    pub(super) fn make_space_for(&self, gpus: usize) {
        self.client.make_space_for(gpus);
    }

    /// Enqueues requests without blocking.
    pub(super) fn sender(&self) -> RequestSender {
        self.client.sender()
    }

    /// Enqueues a request, blocking while the queue is full, unless the backend accepts nothing for
    /// `patience`.
    pub(super) fn send_waiting(&self, request: &Request, patience: Duration) {
        self.client.enqueue_waiting(request.encode(), patience);
    }

    /// Flushes the queue within `grace`, or until `is_cut`.
    pub(super) fn finish(self, grace: Duration, is_cut: impl Fn() -> bool) -> DeliveryReport {
        let Self { client, config } = self;
        let targets = BySignal::each(|signal| config.target(signal).map(ToString::to_string));
        DeliveryReport::new(targets, client.flush_unless(grace, is_cut))
    }
}

/// Starts exporting internal telemetry, including delivery counts, to the metrics destination, and to a reader for
/// Prometheus. `None` if there is neither, or if it cannot be started: a run does not depend on it.
pub(super) fn telemetry(
    delivery: Option<&Delivery>,
    every: Nanos,
    process: &Attributes,
    scraped: Option<&ScrapeReader>,
) -> Option<Telemetry> {
    match Telemetry::start(delivery.map(|it| &it.config), every, process, scraped) {
        Ok(telemetry) => {
            let telemetry = telemetry?;
            if let Some(Delivery { client, config }) = delivery {
                telemetry.watch_client(&client.stats(), config);
            }
            Some(telemetry)
        }
        Err(error) => {
            warn!("internal telemetry disabled: {error}");
            None
        }
    }
}

fn log(errors: &ConfigErrors) {
    for error in errors.as_slice() {
        warn!("{error}; {}", error.consequence());
    }
}
