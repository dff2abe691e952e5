//! OTLP to where the environment says, and what became of it.
//!
//! Nothing here waits but the end, and that not for long. This room must not know what is sent.

use std::time::Duration;

use super::Failure;
use crate::otlp::Request;
use crate::otlp::client::{Account, BySignal, Client, Config, Destination, Signal};

/// What is not sent this long after the end stays unsent.
const GRACE: Duration = Duration::from_secs(5);

/// What is said where the environment names no endpoint.
const NOWHERE: &str = "nothing was sent: OTEL_EXPORTER_OTLP_ENDPOINT is not set";

/// Sends until it is finished.
pub(super) struct Delivery {
    client: Client,
    targets: BySignal<Option<String>>,
}

impl Delivery {
    /// Starts; `None` where the environment names no endpoint.
    pub(super) fn start() -> Result<Option<Self>, Failure> {
        let environment = |name: &str| std::env::var(name).ok();
        let Some(config) = Config::read(Destination::Environment, environment)? else {
            return Ok(None);
        };
        let targets = BySignal::each(|signal| config.target(signal).map(ToString::to_string));
        Ok(Some(Self { client: Client::start(&config)?, targets }))
    }

    /// Hands a request over.
    pub(super) fn send(&self, request: &Request) {
        self.client.enqueue(request.encode());
    }

    /// Sends what is left, and says in sentences what became of everything.
    pub(super) fn finish(delivery: Option<Self>) -> Vec<String> {
        let Some(Self { client, targets }) = delivery else { return vec![NOWHERE.to_owned()] };
        let outcome = client.flush(GRACE);
        let used = outcome.iter().filter(|(_, account)| **account != Account::default());
        let told = used.filter_map(|(signal, account)| {
            let target = targets.of(signal).as_deref()?;
            Some(format!("{}, {target}: {}", signal.name(), fate(signal, account)))
        });
        told.collect()
    }
}

/// What became of one signal's data: what was sent always, the rest where there is any.
fn fate(signal: Signal, account: &Account) -> String {
    let items = match signal {
        Signal::Traces => "spans",
        Signal::Metrics => "points",
        Signal::Logs => "events",
    };
    let lost = [
        (account.rejected_partial + account.refused.items, "refused"),
        (account.dropped_full.items, "dropped from a full queue"),
        (account.left_unsent.items, "left unsent"),
    ];
    let mut said = format!("{} {items} sent", account.sent.items);
    for (count, how) in lost.iter().filter(|(count, _)| *count > 0) {
        said += &format!(", {count} {how}");
    }
    if let Some(error) = &account.last_error {
        said += &format!("; the last error: {error}");
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::client::Count;

    #[test]
    fn what_was_lost_is_said_and_what_was_not_is_not() {
        let count = |items| Count { requests: 1, items, bytes: 1 };
        let mut account = Account { sent: count(7), ..Account::default() };
        assert_eq!(fate(Signal::Traces, &account), "7 spans sent");
        account.left_unsent = count(3);
        account.rejected_partial = 2;
        account.last_error = Some("no route to host".to_owned());
        assert_eq!(
            fate(Signal::Metrics, &account),
            "7 points sent, 2 refused, 3 left unsent; the last error: no route to host"
        );
    }
}
