//! OTLP to a backend, and what became of it.
//!
//! This room must not know what is sent, nor where requests come from.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::Request;
use phasemeter_otlp::delivery::{Client, Config, DeliveryCounts, Destination, Outcome};
use phasemeter_otlp::experiment::Attributes;
use phasemeter_otlp::{BySignal, Signal};
use tracing::warn;

use super::Failure;
use crate::telemetry::Telemetry;

/// Sends until it is finished.
pub(super) struct Delivery {
    client: Client,
    config: Config,
}

impl Delivery {
    /// Starts; `None` where there is nowhere to send to. Nothing is connected before there is
    /// something to send.
    pub(super) fn start(destination: Destination<'_>) -> Result<Option<Self>, Failure> {
        let environment = |name: &str| std::env::var(name).ok();
        let Some(config) = Config::read(destination, environment)? else {
            return Ok(None);
        };
        Ok(Some(Self { client: Client::start(&config)?, config }))
    }

    /// Begins to tell to where metrics go what the sidecar says of itself, and what becomes of what
    /// is sent. `None` where metrics go nowhere, or it cannot be begun: nothing depends on it.
    pub(super) fn telemetry(&self, every: Nanos, host: &Attributes) -> Option<Telemetry> {
        match Telemetry::start(&self.config, every, host) {
            Ok(telemetry) => {
                let telemetry = telemetry?;
                telemetry.watch_client(&self.client.stats(), &self.config);
                Some(telemetry)
            }
            Err(error) => {
                warn!("self-telemetry is left out: {error}");
                None
            }
        }
    }

    /// Hands a request over, and never waits.
    pub(super) fn send(&self, request: &Request) {
        self.client.enqueue(request.encode());
    }

    /// Hands a request over when there is room for it, unless the backend takes nothing for as long
    /// as `patience`.
    pub(super) fn send_waiting(&self, request: &Request, patience: Duration) {
        self.client.enqueue_waiting(request.encode(), patience);
    }

    /// Sends what it can of what is left, within `grace`.
    pub(super) fn finish(self, grace: Duration) -> Arrival {
        let Self { client, config } = self;
        let targets = BySignal::each(|signal| config.target(signal).map(ToString::to_string));
        Arrival { targets, outcome: client.flush(grace) }
    }
}

/// What became of all that was sent. Shown as one line.
#[derive(Clone, Debug)]
pub struct Arrival {
    targets: BySignal<Option<String>>,
    outcome: Outcome,
}

impl Arrival {
    /// Whether all of it was accepted.
    pub(super) fn is_complete(&self) -> bool {
        self.outcome.all_sent()
    }

    /// What became of each signal that there was anything of.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> {
        let used =
            self.outcome.iter().filter(|(_, account)| **account != DeliveryCounts::default());
        used.filter_map(|(signal, account)| {
            let target = self.targets.of(signal).as_deref()?;
            Some(format!("{}, {target}: {}", signal.name(), fate(signal, account)))
        })
    }
}

impl Display for Arrival {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sentences: Vec<_> = self.sentences().collect();
        match sentences.as_slice() {
            [] => f.write_str("OTLP: nothing to send"),
            sentences => write!(f, "OTLP: {}", sentences.join(" · ")),
        }
    }
}

/// What became of one signal's data: what was sent always, the rest where there is any.
fn fate(signal: Signal, account: &DeliveryCounts) -> String {
    let items = match signal {
        Signal::Traces => "spans",
        Signal::Metrics => "points",
        Signal::Logs => "events",
    };
    let lost = [
        (account.partially_rejected + account.refused.items, "rejected"),
        (account.dropped.items, "dropped (queue full)"),
        (account.unsent.items, "unsent"),
    ];
    let mut said = format!("{} {items} sent", account.sent.items);
    for (count, how) in lost.iter().filter(|(count, _)| *count > 0) {
        said += &format!(", {count} {how}");
    }
    if let Some(error) = &account.last_error {
        said += &format!("; last error: {error}");
    }
    said
}

#[cfg(test)]
mod tests {
    use phasemeter_otlp::delivery::Count;

    use super::*;

    #[test]
    fn all_of_it_is_one_line() {
        let targets = BySignal::each(|signal| Some(format!("grpc to {}", signal.name())));
        let mut arrival = Arrival { targets, outcome: Outcome::default() };
        assert_eq!(arrival.to_string(), "OTLP: nothing to send");
        let sent = |items| Count { requests: 1, items, bytes: 1 };
        arrival.outcome.traces.sent = sent(7);
        arrival.outcome.metrics.sent = sent(8);
        assert_eq!(
            arrival.to_string(),
            "OTLP: traces, grpc to traces: 7 spans sent · metrics, grpc to metrics: 8 points sent"
        );
        assert!(arrival.is_complete());
    }

    #[test]
    fn what_was_lost_is_said_and_what_was_not_is_not() {
        let count = |items| Count { requests: 1, items, bytes: 1 };
        let mut account = DeliveryCounts { sent: count(7), ..DeliveryCounts::default() };
        assert_eq!(fate(Signal::Traces, &account), "7 spans sent");
        account.unsent = count(3);
        account.partially_rejected = 2;
        account.last_error = Some("no route to host".to_owned());
        assert_eq!(
            fate(Signal::Metrics, &account),
            "7 points sent, 2 rejected, 3 unsent; last error: no route to host"
        );
    }
}
