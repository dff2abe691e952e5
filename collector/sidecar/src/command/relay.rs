//! Receives OTLP and forwards it to the backend of the environment.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use phasemeter_engine::gateway::{Forwarder, Metered, Replicas, SpanCosts, Unplaced};
use phasemeter_files::read_text;
use phasemeter_otlp::delivery::{Batching, Client, Config, Destination, StorageKind};
use phasemeter_otlp::encode::has_span_costs;
use phasemeter_otlp::{BySignal, Signal};
use phasemeter_receiver::{
    BearerToken, Limits, ListenAddress, Receiver, ReceiverConfig, ReceiverStats, server_tls,
};
use phasemeter_rules::cgroup;
use phasemeter_work::mapping::WorkMappings;
use tracing::info;

use super::data_dir::ExportOptions;
use super::delivery_report::DeliveryReport;
use super::error::CommandError;
use super::live_error::LiveError;
use super::live_sink::Divert;
use super::mappings;
use super::optional::Optional;
use phasemeter_cli::{ReceiveArgs, RequestSizeArgs, SpanArgs, WorkMappingArgs, WorkloadArgs};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Variables of the backend that a command does not inherit.
const REMOVED: [&str; 6] = [
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
];

/// A receiver, and the delivery of what it receives.
pub(super) struct Relay {
    receiver: Receiver,
    forwarder: Forwarder,
    targets: BySignal<Option<String>>,
    /// The text of the token for the command, if only the command may send.
    command_token: Option<String>,
}

impl Relay {
    /// Starts receiving. What is metered arrives in the channel.
    pub(super) fn start(
        config: ReceiverConfig,
        spans: &SpanArgs,
        replicas: Replicas,
        options: &ExportOptions,
        optional: Optional,
    ) -> Result<(Self, mpsc::Receiver<Metered>), CommandError> {
        let environment = |name: &str| options.look_up(name);
        let (upstream, errors) = Config::read_usable(Destination::Environment, environment);
        let is_invalid = errors.prevent_export();
        let Some(mut upstream) = upstream.filter(|_| optional.0 || !is_invalid) else {
            let none = if is_invalid { errors.into() } else { LiveError::NoUpstream };
            return Err(none.into());
        };
        // It must never drop what was accepted: requests in memory and spans that wait are limited, and what is
        // stored makes space for more only while the disk has some.
        upstream.queue_bytes = u64::MAX;
        upstream.batching = Batching::PASS_THROUGH;
        let has_token = config.token.is_some();
        let (receiver, received) = Receiver::start(config).map_err(LiveError::from)?;
        for signal in Signal::ALL {
            let target = upstream.target(signal);
            let own = target.filter(|target| receiver.addresses().iter().any(|it| is(it, target)));
            if let Some(target) = own {
                return Err(LiveError::Loop { endpoint: target.to_string() }.into());
            }
        }
        let targets = BySignal::each(|signal| upstream.target(signal).map(ToString::to_string));
        let storage = options.storage(&upstream, StorageKind::PassedOn)?;
        let client = Client::start_with(&upstream, storage).map_err(LiveError::from)?;
        let failed = CommandError::system("cannot start a thread");
        let (forwarder, metered) =
            Forwarder::start(received, client, spans.filter(), replicas).map_err(failed)?;
        for address in receiver.addresses() {
            info!(%address, "receiving OTLP on {address} from {}", senders(address, has_token));
        }
        Ok((Self { receiver, forwarder, targets, command_token: None }, metered))
    }

    /// The variables of a command whose telemetry is received. One without a value is removed: its
    /// credentials are for the backend, and its endpoint would be preferred.
    pub(super) fn command_env(&self) -> Vec<(&'static str, Option<String>)> {
        let endpoint = self.receiver.addresses().first().map(ListenAddress::endpoint);
        // Values are percent-encoded, as in W3C Baggage.
        let headers = self.command_token.as_ref().map(|it| format!("authorization=Bearer%20{it}"));
        let own = [(ENDPOINT, endpoint), (HEADERS, headers)];
        own.into_iter().chain(REMOVED.map(|variable| (variable, None))).collect()
    }

    /// What prices the spans of the options, if there are any. They leave behind what is forwarded, and so
    /// do their costs.
    /// `instance`: the instance ID of what this meter sends.
    pub(super) fn span_costs(
        &self,
        spans: &SpanArgs,
        unplaced: Unplaced,
        instance: String,
    ) -> Option<SpanCosts> {
        let is_priced = !spans.filter().is_empty();
        let sender = || self.forwarder.sender();
        is_priced.then(|| SpanCosts::new(spans.limits(), unplaced, sender(), instance))
    }

    /// The addresses that it receives on.
    pub(super) fn addresses(&self) -> Vec<String> {
        self.receiver.addresses().iter().map(ToString::to_string).collect()
    }

    /// Its counts, for internal telemetry.
    pub(super) fn stats(&self) -> Arc<ReceiverStats> {
        self.receiver.stats_handle()
    }

    /// Stops receiving. Then the channel of what is metered is closed.
    pub(super) fn stop(&mut self) {
        self.receiver.stop();
    }

    /// Delivers what was received, within `grace`, or until `is_cut`. Returns the outcome, in sentences.
    pub(super) fn finish(
        mut self,
        grace: Duration,
        is_cut: impl Fn() -> bool,
    ) -> (Vec<String>, Option<DeliveryReport>) {
        self.receiver.stop();
        let counts = self.receiver.stats();
        let mut sentences = vec![format!(
            "{} requests received, {} postponed, {} rejected",
            counts.accepted, counts.postponed, counts.rejected
        )];
        if counts.malformed_elements > 0 {
            sentences.push(format!("{} malformed elements removed", counts.malformed_elements));
        }
        let client = self.forwarder.finish();
        let report = client
            .map(|client| DeliveryReport::new(self.targets, client.flush_unless(grace, is_cut)));
        let passed = report.iter().flat_map(DeliveryReport::sentences);
        sentences.extend(passed.map(|sentence| format!("passed through: {sentence}")));
        (sentences, report)
    }
}

/// Sends the cost of spans behind them: none of it is dropped for something newer.
pub(super) fn divert(costs: &SpanCosts) -> Divert {
    let outgoing = costs.outgoing();
    Box::new(move |request| {
        let is_cost = has_span_costs(request);
        if is_cost {
            outgoing.send_request(request);
        }
        is_cost
    })
}

/// The configuration of a receiver by options.
pub(super) fn config(args: &ReceiveArgs) -> Result<ReceiverConfig, CommandError> {
    let tls = args.tls_certificate.as_deref().zip(args.tls_key.as_deref());
    let tls = tls.map(|(certificate, key)| server_tls(certificate, key));
    let token = args.token_file.as_deref().map(BearerToken::read);
    Ok(ReceiverConfig {
        listen: args.listen.clone(),
        tls: tls.transpose().map_err(LiveError::from)?,
        token: token.transpose().map_err(LiveError::from)?,
        limits: limits(args.size),
    })
}

/// The limits of a receiver in this process.
fn limits(size: RequestSizeArgs) -> Limits {
    let limits = size.limits(cgroup::limit());
    let bytes = limits.request_bytes;
    if bytes < size.limits(None).request_bytes {
        info!(
            bytes,
            "requests have {bytes} bytes at most, by the memory limit of the control group"
        );
    }
    limits
}

/// The mappings of work: those of Phasemeter, then the user's.
pub(super) fn work_mappings(args: &WorkMappingArgs) -> Result<WorkMappings, CommandError> {
    let invalid = |path: &Path| {
        let path = path.to_owned();
        move |source| LiveError::WorkMapping { path, source }
    };
    let built_in = Path::new("otel-config/mappings/work");
    let mut mappings = WorkMappings::built_in().map_err(invalid(built_in))?;
    for path in &args.work_mapping {
        let text = read_text(path, mappings::MAX_BYTES)
            .map_err(|source| LiveError::MappingFile { path: path.clone(), source })?;
        mappings.replace(WorkMappings::parse(&text).map_err(invalid(path))?);
    }
    Ok(mappings)
}

/// Receives the telemetry of a command, if its options request that: on a free port of the loopback address,
/// where only a client with the command's token may send, or on a given address. `None` if that is impossible
/// now and the command runs anyway.
pub(super) fn of_command(
    args: &WorkloadArgs,
    options: &ExportOptions,
    optional: Optional,
) -> Result<Option<(Relay, mpsc::Receiver<Metered>)>, CommandError> {
    let prices_spans = !args.spans.price_spans.is_empty();
    if prices_spans && args.command.is_empty() {
        return Err(LiveError::NoSpans.into());
    }
    let listen = match &args.receive {
        Some(listen) => listen.clone(),
        None if prices_spans => None,
        None => return Ok(None),
    };
    let limits = limits(args.request_size);
    let free = ListenAddress::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
    let generated = listen.is_none().then(BearerToken::generate).transpose();
    let (token, text) = generated.map_err(LiveError::from)?.unzip();
    let listen = vec![listen.unwrap_or(free)];
    let config = ReceiverConfig { listen, token, limits, ..ReceiverConfig::default() };
    let started = Relay::start(config, &args.spans, Replicas::default(), options, optional);
    let own = |(relay, metered)| (Relay { command_token: text, ..relay }, metered);
    optional.result(started.map(own))
}

/// Which clients may send to an address.
fn senders(address: &ListenAddress, has_token: bool) -> &'static str {
    match address {
        _ if has_token => "senders with the token",
        ListenAddress::Unix(_) => "this user",
        ListenAddress::Tcp(_) if address.is_remote() => "everyone who can connect",
        ListenAddress::Tcp(_) => "every user of this machine",
    }
}

/// Whether an endpoint is this address: what is forwarded would arrive again.
fn is(address: &ListenAddress, target: &phasemeter_otlp::delivery::Target) -> bool {
    let (server, port) = target.server();
    match address {
        ListenAddress::Tcp(address) => {
            let host = server.trim_matches(['[', ']']);
            let is_same = host.parse::<IpAddr>().is_ok_and(|host| host == address.ip());
            port == Some(address.port()) && (is_same || host == "localhost")
        }
        ListenAddress::Unix(path) => port.is_none() && server == path.display().to_string(),
    }
}
