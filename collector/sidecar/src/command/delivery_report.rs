//! The outcome of delivery, as text.

use std::fmt::{self, Display, Formatter};

use phasemeter_otlp::delivery::{DeliveryCounts, Outcome};
use phasemeter_otlp::{BySignal, Signal};

/// The outcome of delivery; displays as one line.
#[derive(Clone, Debug)]
pub struct DeliveryReport {
    targets: BySignal<Option<String>>,
    outcome: Outcome,
}

impl DeliveryReport {
    /// `targets` are the destinations of `outcome`.
    pub(super) const fn new(targets: BySignal<Option<String>>, outcome: Outcome) -> Self {
        Self { targets, outcome }
    }

    /// Whether all data was accepted.
    pub(super) fn is_complete(&self) -> bool {
        self.outcome.all_sent()
    }

    /// That not all data was accepted, with the last error; `None` if all was.
    pub(super) fn loss(&self) -> Option<String> {
        let (mut sent, mut all, mut kept, mut last) = (0, 0, 0, None);
        for (_, counts) in self.outcome.iter() {
            let lost: u64 = counts.lost().iter().map(|count| count.items).sum();
            let lost = lost + counts.partially_rejected;
            kept += counts.kept.items;
            sent += counts.sent.items;
            all += counts.sent.items + lost;
            last = last.or(counts.last_error.as_ref().filter(|_| lost > 0));
        }
        let last = last.map(|error| format!("; last error: {error}")).unwrap_or_default();
        let lost = all - sent;
        let kept = match kept {
            0 => String::new(),
            kept => format!(", of which {kept} are kept for the next run"),
        };
        (lost > 0)
            .then(|| format!("not delivered: {lost} of {all} spans, points and events{kept}{last}"))
    }

    /// One sentence per signal with data.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> {
        let used = self.outcome.iter().filter(|(_, counts)| **counts != DeliveryCounts::default());
        used.filter_map(|(signal, counts)| {
            let target = self.targets.of(signal).as_deref()?;
            Some(format!("{}, {target}: {}", signal.name(), describe_outcome(signal, counts)))
        })
    }
}

impl Display for DeliveryReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sentences: Vec<_> = self.sentences().collect();
        match sentences.as_slice() {
            [] => f.write_str("OTLP: nothing to send"),
            sentences => write!(f, "OTLP: {}", sentences.join(" · ")),
        }
    }
}

/// The counts of one signal: those sent, and losses if any.
fn describe_outcome(signal: Signal, counts: &DeliveryCounts) -> String {
    let items = match signal {
        Signal::Traces => "spans",
        Signal::Metrics => "points",
        Signal::Logs => "events",
    };
    let lost = [
        (counts.partially_rejected + counts.rejected.items, "rejected"),
        (counts.dropped.items, "dropped (queue full)"),
        (counts.expired.items, "dropped (too old)"),
        (counts.unreadable.items, "lost on disk"),
        (counts.kept.items, "kept for the next run"),
        (counts.unsent.items.saturating_sub(counts.kept.items), "unsent"),
    ];
    let mut text = format!("{} {items} sent", counts.sent.items);
    for (count, how) in lost.iter().filter(|(count, _)| *count > 0) {
        text += &format!(", {count} {how}");
    }
    if let Some(error) = &counts.last_error {
        text += &format!("; last error: {error}");
    }
    text
}

#[cfg(test)]
mod tests {
    use phasemeter_otlp::delivery::Count;

    use super::*;

    #[test]
    fn report_displays_as_one_line() {
        let targets = BySignal::each(|signal| Some(format!("grpc to {}", signal.name())));
        let mut report = DeliveryReport { targets, outcome: Outcome::default() };
        assert_eq!(report.to_string(), "OTLP: nothing to send");
        let sent = |items| Count { requests: 1, items, bytes: 1 };
        report.outcome.traces.sent = sent(7);
        report.outcome.metrics.sent = sent(8);
        assert_eq!(
            report.to_string(),
            "OTLP: traces, grpc to traces: 7 spans sent · metrics, grpc to metrics: 8 points sent"
        );
        assert!(report.is_complete());
    }

    #[test]
    fn only_nonzero_losses_are_described() {
        let count = |items| Count { requests: 1, items, bytes: 1 };
        let mut counts = DeliveryCounts { sent: count(7), ..DeliveryCounts::default() };
        assert_eq!(describe_outcome(Signal::Traces, &counts), "7 spans sent");
        counts.unsent = count(3);
        counts.partially_rejected = 2;
        counts.last_error = Some("no route to host".to_owned());
        assert_eq!(
            describe_outcome(Signal::Metrics, &counts),
            "7 points sent, 2 rejected, 3 unsent; last error: no route to host"
        );
    }
}
