//! What became of spans, for the report.

use phasemeter_engine::gateway::SpanSummary;
use phasemeter_meter::money::NanoUsd;
use phasemeter_otlp::encode::DividedCost;
use phasemeter_report::{Attribution, Usd};

use super::senders::named;

/// The section of the report.
pub(super) fn attribution(summary: &SpanSummary) -> Attribution {
    Attribution {
        priced: summary.priced,
        followed: summary.followed,
        unpriced: summary.without_time + summary.unplaced + summary.rejected.values().sum::<u64>(),
        of_unknown_sampling: summary.of_unknown_sampling,
        spans_usd: Usd(summary.divided.spans),
        unsampled_usd: Usd(summary.divided.unsampled),
        unattributed_usd: Usd(summary.divided.unattributed),
    }
}

/// What became of spans, in sentences.
pub(super) fn sentences(summary: &SpanSummary) -> Vec<String> {
    let SpanSummary {
        priced,
        followed,
        without_time,
        unplaced,
        exempt,
        unproved,
        rejected,
        of_unknown_sampling,
        divided: DividedCost { spans, unsampled, unattributed },
    } = summary;
    let mut sentences = vec![
        format!("{priced} spans left with their cost, the cost of {followed} followed"),
        format!("spans cost ${spans}; ${unattributed} of the bill is unattributed"),
    ];
    if *unsampled > NanoUsd::ZERO {
        sentences.push(format!("requests whose spans were not sampled cost ${unsampled}"));
    }
    if *of_unknown_sampling > 0 {
        sentences.push(format!(
            "{of_unknown_sampling} spans have no sampling threshold (ot=th: in tracestate): if only a part of the \
             requests was sampled, they also have the cost of the others; send all spans, or sample with a \
             consistent probability sampler"
        ));
    }
    for (senders, what) in [
        (exempt, "not priced: Phasemeter's, or priced by a meter whose cost passes here"),
        (unproved, "arrived with phasemeter.span.* of no such meter, which were removed"),
    ] {
        if let Some(named) = named(senders, "span") {
            sentences.push(format!("{} spans {what}; from {named}", senders.total()));
        }
    }
    if *without_time > 0 {
        sentences.push(format!("{without_time} spans had no GPU time of their own"));
    }
    if *unplaced > 0 {
        sentences.push(format!(
            "{unplaced} spans have no cost: their resource names no GPU, pod or host that is known"
        ));
    }
    let mut rejected: Vec<_> = rejected.iter().map(|(reason, n)| (reason.to_string(), n)).collect();
    rejected.sort_unstable();
    let rejected = rejected.into_iter();
    sentences.extend(rejected.map(|(reason, n)| format!("{n} spans have no cost: {reason}")));
    sentences
}
