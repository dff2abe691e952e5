//! Delivery of OTLP requests to a backend.

use std::time::Duration;

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::delivery::{Client, Config, Destination, Receipt};
use phasemeter_otlp::experiment::Attributes;
use phasemeter_otlp::{BySignal, EncodedRequest, Request, Signal};
use prometheus::Registry;
use tracing::warn;

use super::delivery_report::DeliveryReport;
use super::error::CommandError;
use super::live_error::LiveError;
use super::optional::Optional;
use crate::cli::SendArgs;
use crate::instance;
use crate::telemetry::Telemetry;

/// Whether a command cannot do without export.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Export {
    /// It is what the command is for, or what an option requests.
    Required,
    /// It is metered anyway.
    Optional,
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
            Some(endpoint) => Self::start(Destination::Endpoint(endpoint), Export::Required),
            None => Self::start(Destination::Default, Export::Required),
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
    pub(super) fn start(
        destination: Destination<'_>,
        export: Export,
    ) -> Result<Option<Self>, CommandError> {
        let (config, errors) = Config::read_usable(destination, |name| std::env::var(name).ok());
        let is_required = export == Export::Required || config.is_none();
        if is_required && errors.prevent_export() {
            return Err(LiveError::from(errors).into());
        }
        for error in errors.as_slice() {
            warn!("{error}; {}", error.consequence());
        }
        let Some(config) = config else { return Ok(None) };
        let mut targets = Signal::ALL.into_iter().filter_map(|signal| config.target(signal));
        if let Some(target) = targets.find(|target| target.exposes_headers()) {
            warn!(
                "headers, which may contain credentials, are sent unencrypted: {target}; use https"
            );
        }
        let client = Client::start(&config).map_err(LiveError::from)?;
        Ok(Some(Self { client, config }))
    }

    /// Starts the delivery of a run, which meters without it: `None` if it cannot be started, inside if there is
    /// no destination.
    pub(super) fn for_run(optional: Optional) -> Result<Option<Option<Self>>, CommandError> {
        match Self::start(Destination::Environment, Export::Optional) {
            Err(CommandError::Live(LiveError::Config(errors))) => {
                for error in errors.as_slice() {
                    warn!("{error}; {}", error.consequence());
                }
                Ok(None)
            }
            started => optional.result(started),
        }
    }

    /// Starts exporting internal telemetry, including delivery counts, to the metrics destination and to a
    /// registry. `None` if there is neither, or if it cannot be started: a run does not depend on it.
    pub(super) fn telemetry(
        &self,
        every: Nanos,
        process: &Attributes,
        registry: Option<&Registry>,
    ) -> Option<Telemetry> {
        match Telemetry::start(&self.config, every, process, registry) {
            Ok(telemetry) => {
                let telemetry = telemetry?;
                telemetry.watch_client(&self.client.stats(), &self.config);
                Some(telemetry)
            }
            Err(error) => {
                warn!("internal telemetry disabled: {error}");
                None
            }
        }
    }

    /// Sends metrics and spans later by a part of the export interval that depends on the instance, so that
    /// not all machines send at once.
    pub(super) fn spread(&self, instance: &str, every: Nanos) {
        self.client.set_send_offset(instance::send_offset(instance, every));
    }

    /// Enqueues an encoded request; never blocks. `None` if its signal is not exported.
    pub(super) fn send_encoded(&self, request: EncodedRequest) -> Option<Receipt> {
        self.client.enqueue_with_receipt(request)
    }

    /// Enqueues a request; never blocks.
    pub(super) fn send(&self, request: &Request) {
        self.client.enqueue(request.encode());
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
