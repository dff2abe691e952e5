//! What arrived of what was sent to a backend, in one line.

use std::fmt::{self, Display, Formatter};

use crate::otlp::client::{Account, BySignal, Config, Outcome, Signal};

/// What arrived of what was sent. Shown as one line, each signal with its target.
#[derive(Clone, Debug)]
pub struct Arrival {
    targets: BySignal<Option<String>>,
    outcome: Outcome,
}

impl Arrival {
    /// Of a client that is flushed.
    pub(super) fn new(config: &Config, outcome: Outcome) -> Self {
        let targets = BySignal::each(|signal| config.target(signal).map(ToString::to_string));
        Self { targets, outcome }
    }

    /// Whether all of it has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.outcome.all_sent()
    }

    fn tell(&self, signal: Signal, account: &Account, f: &mut Formatter<'_>) -> fmt::Result {
        let sent = account.sent.items;
        let lost = lost(account);
        let all = lost.iter().fold(sent, |all, (_, count)| all.saturating_add(*count));
        write!(f, "{sent} of {all} {} sent", signal.items())?;
        for (fate, count) in lost.iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {count} {fate}")?;
        }
        if let Some(target) = self.targets.of(signal) {
            write!(f, ", {target}")?;
        }
        match &account.last_error {
            Some(error) if sent < all => write!(f, ": {}", error.replace('\n', " ")),
            _ => Ok(()),
        }
    }
}

impl Display for Arrival {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let told = |account: &Account| *account != Account::default();
        let mut accounts = self.outcome.iter().filter(|(_, account)| told(account)).peekable();
        f.write_str(if accounts.peek().is_some() { "OTLP: " } else { "OTLP: nothing to send" })?;
        while let Some((signal, account)) = accounts.next() {
            self.tell(signal, account, f)?;
            if accounts.peek().is_some() {
                f.write_str("; ")?;
            }
        }
        Ok(())
    }
}

/// What did not arrive, by what became of it.
const fn lost(account: &Account) -> [(&'static str, u64); 4] {
    [
        ("refused", account.refused.items),
        ("rejected", account.rejected_partial),
        ("dropped", account.dropped_full.items),
        ("unsent", account.left_unsent.items),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::otlp::client::{Count, Destination};

    fn said(outcome: Outcome) -> String {
        let given = Destination::Given("http://collector:4318");
        let config = Config::read(given, |_| None).unwrap().unwrap();
        Arrival::new(&config, outcome).to_string()
    }

    fn count(items: u64) -> Count {
        Count { requests: 1, items, bytes: 100 * items }
    }

    #[test]
    fn what_arrived_is_counted_with_where_it_went() {
        let mut outcome = Outcome::default();
        assert_eq!(said(outcome.clone()), "OTLP: nothing to send");
        outcome.traces.sent = count(12);
        outcome.metrics.sent = count(340);
        outcome.metrics.last_error = Some("it was retried and all is well".to_owned());
        assert_eq!(
            said(outcome),
            "OTLP: 12 of 12 spans sent, http/protobuf to http://collector:4318/v1/traces; \
             340 of 340 data points sent, http/protobuf to http://collector:4318/v1/metrics"
        );
    }

    #[test]
    fn what_did_not_arrive_is_told_apart_with_the_last_error() {
        let mut outcome = Outcome::default();
        outcome.metrics = Account {
            sent: count(3),
            rejected_partial: 1,
            refused: count(20),
            dropped_full: count(300),
            left_unsent: count(4_000),
            last_error: Some("503 Service Unavailable:\nfull".to_owned()),
            ..Account::default()
        };
        assert_eq!(
            said(outcome),
            "OTLP: 3 of 4324 data points sent, 20 refused, 1 rejected, 300 dropped, 4000 unsent, \
             http/protobuf to http://collector:4318/v1/metrics: 503 Service Unavailable: full"
        );
    }
}
