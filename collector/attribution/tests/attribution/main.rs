//! Spans + unsampled + unattributed = bill, and each span has what hindsight gives it.

#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::float_cmp)]
#![allow(clippy::cast_sign_loss, clippy::unwrap_used, reason = "a test, with small numbers")]

mod examples;
mod hindsight;
mod script;

use phasemeter_attribution::{Limits, RejectReason, SpanCost};
use phasemeter_meter::units::Nanos;
use proptest::prelude::*;

use crate::hindsight::hindsight;
use crate::script::{LATENESS, SECONDS, Scripted, UNDIVIDED, bill, gpus, run, spans};

fn limits() -> Limits {
    Limits { allowed_lateness: Nanos::from_secs(LATENESS), ..Limits::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn spans_and_unattributed_sum_to_bill_and_match_hindsight(gpus in gpus(), spans in spans()) {
        let outcome = run(&gpus, &spans, limits());
        let mut sum: SpanCost = outcome.spans.values().copied().sum();
        prop_assert_eq!(sum, outcome.attributed);
        sum += outcome.unsampled;
        sum += outcome.unattributed;
        prop_assert_eq!(sum, bill(&gpus));
        prop_assert_eq!(outcome.left_unpriced, 0);
        for (reason, id) in &outcome.rejected {
            let is_expected = match reason {
                RejectReason::Duplicate => spans.iter().any(|span| span.id == *id && span.again),
                RejectReason::Late => true,
                RejectReason::NotEnded => spans.iter().any(|span| span.id == *id && !span.ends),
                RejectReason::NoDuration
                | RejectReason::InFuture
                | RejectReason::Full
                | RejectReason::TooLarge => false,
            };
            prop_assert!(is_expected, "span {}: {}", id, reason);
        }
        let (expected, [unsampled, unattributed]) = hindsight(&gpus, &spans);
        // A nano-dollar for each second, GPU and holder, and another for a nanosecond of time.
        let slack = 2.0 * (SECONDS as usize * gpus.len() * UNDIVIDED.len()) as f64;
        for span in &spans {
            let actual = outcome.spans.get(&span.id).map_or(0, |cost| cost.cost.0) as f64;
            let expected = expected.get(&span.id).copied().unwrap_or_default();
            prop_assert!((actual - expected).abs() <= slack, "span {}: {} ≠ {}", span.id, actual, expected);
        }
        for (actual, expected) in
            [(outcome.unsampled, unsampled), (outcome.unattributed, unattributed)]
        {
            let actual = actual.cost.0 as f64;
            prop_assert!((actual - expected).abs() <= slack * 25.0, "{actual} ≠ {expected}");
        }
    }

    /// Guarantee: spans of the only holder of a GPU have exactly what they have of a GPU that is not divided.
    #[test]
    fn exclusive_gpu_is_divided_as_one_without_holders(gpus in gpus(), spans in spans()) {
        let [undivided, exclusive] = [UNDIVIDED, [0, 1, 0, 0]].map(|parts| {
            let mut gpus = gpus.clone();
            gpus.iter_mut().for_each(|gpu| gpu.parts.fill(parts));
            let holder = (parts != UNDIVIDED).then_some(1);
            let spans: Vec<_> =
                spans.iter().map(|span| Scripted { holder, ..span.clone() }).collect();
            run(&gpus, &spans, limits())
        });
        prop_assert_eq!(undivided.spans, exclusive.spans);
        prop_assert_eq!(undivided.unattributed, exclusive.unattributed);
    }

    #[test]
    fn sums_are_exact_beyond_all_limits(gpus in gpus(), spans in spans()) {
        let limits = Limits {
            max_bytes: 6_000,
            max_wait: Nanos::from_secs(2),
            allowed_lateness: Nanos::from_secs(1),
            history: Nanos::from_secs(4),
            max_open_slices: 3,
        };
        let spans: Vec<_> = spans
            .into_iter()
            // Parents may form a circle.
            .map(|span| Scripted { parent: span.parent.map(|parent| parent ^ 1), ..span })
            .collect();
        let outcome = run(&gpus, &spans, limits);
        let mut sum: SpanCost = outcome.spans.values().copied().sum();
        sum += outcome.unsampled;
        sum += outcome.unattributed;
        prop_assert_eq!(sum, bill(&gpus));
    }
}
