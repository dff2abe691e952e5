//! What a gateway has not billed or not observed, and why: sentences of its report.
//!
//! Must not depend on how it meters.

use phasemeter_meter::units::Nanos;
use phasemeter_rules::text::clean;

use crate::gateway::{GatewaySummary, Pauses};

/// Maximum number of senders that are named.
const MAX_NAMES: usize = 4;

/// What was not billed or not observed, and why.
pub(super) fn sentences(summary: &GatewaySummary, dropped: u64, ahead: u64) -> Vec<String> {
    let GatewaySummary { started, unobserved, absent, billed_elsewhere, billed_twice, late } =
        *summary;
    let seconds = |time: Nanos| format!("{:.1} s", time.as_secs_f64());
    let mut sentences = Vec::new();
    if started > 0 {
        let are_billed = match started {
            1 => "1 GPU is billed from its first reading on".to_owned(),
            _ => format!("{started} GPUs are billed from their first readings on"),
        };
        sentences.push(format!(
            "{are_billed}; whether an earlier gateway left a gap before is unknown without its --state"
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
    if ahead > 0 {
        let values = counted(ahead, "value");
        sentences.push(format!("{values} over 5 min ahead of this machine's clock dropped"));
    }
    if late + dropped > 0 {
        let values = counted(late + dropped, "value");
        sentences.push(format!("{values} dropped: too late, or of too many GPUs or counters"));
    }
    sentences
}

/// The senders of the cost by which GPUs were exempted, each with the number of its points: those with the most.
pub(super) fn covered_by<'a>(senders: impl Iterator<Item = (&'a str, u64)>) -> Option<String> {
    let mut senders: Vec<_> = senders.collect();
    senders.sort_by_key(|(_, points)| std::cmp::Reverse(*points));
    let count = |points: u64| counted(points, "point");
    let name = |(sender, points): &(&str, u64)| match *sender {
        "" => format!("others ({})", count(*points)),
        sender => format!("{} ({})", clean(sender), count(*points)),
    };
    let more = match senders.len().saturating_sub(MAX_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> = senders.iter().take(MAX_NAMES).map(name).collect();
    let named = named.join(", ");
    (!named.is_empty())
        .then(|| format!("time billed by other meters is as reported by {named}{more}"))
}

/// A number of things, whose plural ends in s.
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_of_coverage_are_named_by_their_points() {
        let of = |senders: &[(&'static str, u64)]| covered_by(senders.iter().copied());
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
