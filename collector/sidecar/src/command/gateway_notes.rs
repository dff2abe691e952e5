//! What a gateway has not billed or not observed, and why: sentences of its report.
//!
//! Must not depend on how it meters.

use phasemeter_meter::units::Nanos;

use crate::gateway::{GatewaySummary, Pauses};

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
        let (is, pauses) = match count {
            0 => continue,
            1 => ("is", "1 pause between readings".to_owned()),
            _ => ("are", format!("{count} pauses between readings")),
        };
        sentences.push(format!("{pauses}, {} in all, {is} {account}", seconds(time)));
    }
    if billed_elsewhere > Nanos::ZERO {
        sentences.push(format!("{} billed by other meters", seconds(billed_elsewhere)));
    }
    if billed_twice > Nanos::ZERO {
        let time = seconds(billed_twice);
        sentences.push(format!("{time} billed twice: other meters reported after --hold"));
    }
    if ahead > 0 {
        let values = if ahead == 1 { "1 value".to_owned() } else { format!("{ahead} values") };
        sentences.push(format!("{values} over 5 min ahead of this machine's clock dropped"));
    }
    if late + dropped > 0 {
        sentences.push(format!("{} values arrived too late and were dropped", late + dropped));
    }
    sentences
}
