//! What a gateway has not billed or not observed, and why: sentences of its report.

use phasemeter_engine::gateway::{
    FarFromClock, GatewayCounts, GatewaySummary, Pauses, SenderCounts,
};
use phasemeter_meter::units::Nanos;
use phasemeter_sources::mapping::ReadingBuffer;

use super::listing::counted;
use super::senders::named;

/// Values that were not metered.
pub(super) struct Dropped {
    /// Those whose time was billed before they arrived.
    pub(super) late: SenderCounts,
    pub(super) far_from_clock: FarFromClock,
    /// Those of too many instants or counters.
    pub(super) excess: u64,
    /// Of GPUs over the limit, and how many are not over it.
    pub(super) counts: GatewayCounts,
    /// The senders of those GPUs.
    pub(super) over_limit_by: SenderCounts,
    /// Whether there are as many GPUs as the limit.
    pub(super) is_full: bool,
}

/// What was not billed or not observed, and why. `max_age`: that of values.
pub(super) fn sentences(
    summary: &GatewaySummary,
    dropped: &Dropped,
    max_age: Nanos,
) -> Vec<String> {
    let GatewaySummary { started, unobserved, absent, billed_elsewhere, billed_twice, late } =
        *summary;
    let Dropped { late: late_by, far_from_clock, excess, counts, over_limit_by, is_full } = dropped;
    let FarFromClock { ahead, old } = far_from_clock;
    let seconds = |time: Nanos| format!("{:.1} s", time.as_secs_f64());
    let mut sentences = Vec::new();
    if started > 0 {
        let are_billed = match started {
            1 => "1 GPU is billed from its first reading on".to_owned(),
            _ => format!("{started} GPUs are billed from their first readings on"),
        };
        sentences.push(format!(
            "{are_billed}; whether an earlier gateway left a gap before is unknown without its --data-dir"
        ));
    }
    for (Pauses { count, time }, account) in [(unobserved, "unobserved"), (absent, "not billed")] {
        if count > 0 {
            let (is, pauses) = (if count == 1 { "is" } else { "are" }, counted(count, "pause"));
            let time = seconds(time);
            sentences.push(format!("{pauses} between readings, {time} in all, {is} {account}"));
        }
    }
    if billed_elsewhere > Nanos::ZERO {
        sentences.push(format!("{} billed by other meters", seconds(billed_elsewhere)));
    }
    if billed_twice > Nanos::ZERO {
        let time = seconds(billed_twice);
        sentences.push(format!("{time} billed twice: other meters reported after --hold"));
    }
    let hours = max_age.as_secs_f64() / 3_600.0;
    for (senders, what) in [
        (ahead, "over 5 min ahead of this machine's clock dropped".to_owned()),
        (old, format!("over {hours} h (--max-age) behind this machine's clock dropped")),
        (late_by, "dropped: their time was billed before they arrived".to_owned()),
    ] {
        if let Some(named) = named(senders, "value") {
            sentences.push(format!("{} {what}; from {named}", counted(senders.total(), "value")));
        }
    }
    if late > 0 {
        sentences.push(format!("{} dropped: too late", counted(late, "reading")));
    }
    if *excess > 0 {
        let values = counted(*excess, "value");
        sentences.push(format!("{values} dropped: of too many instants or counters"));
    }
    let GatewayCounts { gpus, gpus_over_limit, dropped } = counts;
    if *gpus_over_limit > 0 {
        let (are, their) = match gpus_over_limit {
            1 => ("1 GPU is".to_owned(), "its"),
            several => (format!("{several} GPUs are"), "their"),
        };
        let values = counted(dropped.over_limit, "value");
        let limit = match is_full {
            true => format!("over the limit of {gpus}"),
            false => format!(
                "since {gpus} are and the last places are for senders with fewer than {}",
                ReadingBuffer::MANY_OF_SENDER
            ),
        };
        sentences.push(format!(
            "{are} not metered, {limit}, and {their} {values} dropped; raise --max-gpus"
        ));
        let named = named(over_limit_by, "GPU");
        sentences.extend(named.map(|named| format!("GPUs that are not metered are of {named}")));
    }
    sentences
}

/// The senders of the cost by which GPUs were exempted.
pub(super) fn covered_by(senders: &SenderCounts) -> Option<String> {
    let named = named(senders, "point")?;
    Some(format!("time billed by other meters is as reported by {named}"))
}

/// That each node may have another gateway.
pub(super) fn routed() -> String {
    "a host that is silent as a whole may have another gateway: such time is not billed here"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use phasemeter_terminal::escape::clean;

    use super::*;

    #[test]
    fn senders_of_coverage_are_named_by_their_points() {
        let of = |senders: &[(&str, u64)]| {
            let mut counts = SenderCounts::default();
            for (sender, count) in senders {
                (0..*count).for_each(|_| counts.add(sender));
            }
            covered_by(&counts)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[("", 2), ("agent\u{1b}[1m", 3), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]).unwrap(),
            format!(
                "time billed by other meters is as reported by {} (3 points), others (2 points), b (1 point), \
                 c (1 point) and 2 more",
                clean("agent\u{1b}[1m")
            )
        );
    }
}
