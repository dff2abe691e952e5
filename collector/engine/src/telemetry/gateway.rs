//! Metrics of the gateway: what it has received, meters and does not bill.
//!
//! Reads counts of the receiver and the gateway, which must not depend on it.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use phasemeter_otlp::names::{attribute, metric};
use phasemeter_receiver::ReceiverStats;

use crate::gateway::{GatewayStatus, SenderCounts};

pub(super) fn watch(meter: &Meter, receiver: Arc<ReceiverStats>, status: Arc<GatewayStatus>) {
    requests(meter, receiver);
    gpus(meter, Arc::clone(&status));
    values(meter, status);
}

fn requests(meter: &Meter, receiver: Arc<ReceiverStats>) {
    let outcomes = ["accepted", "postponed", "rejected"]
        .map(|outcome| [KeyValue::new(attribute::RECEIVER_OUTCOME, outcome)]);
    meter
        .u64_observable_counter(metric::RECEIVER_REQUESTS)
        .with_unit("{request}")
        .with_description("Requests that were received, by outcome")
        .with_callback(move |observer| {
            let counts = receiver.read();
            let counts = [counts.accepted, counts.postponed, counts.rejected];
            for (count, outcome) in counts.into_iter().zip(&outcomes) {
                observer.observe(count, outcome);
            }
        })
        .build();
}

fn gpus(meter: &Meter, status: Arc<GatewayStatus>) {
    let [metered, over_limit] =
        ["metered", "over_limit"].map(|state| [KeyValue::new(attribute::GATEWAY_GPU_STATE, state)]);
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    meter
        .i64_observable_up_down_counter(metric::GATEWAY_GPUS)
        .with_unit("{gpu}")
        .with_description("GPUs whose metrics were received, by what becomes of them")
        .with_callback(move |observer| {
            observer.observe(number(status.gpus()), &metered);
            observer.observe(number(status.gpus_over_limit()), &over_limit);
        })
        .build();
}

fn values(meter: &Meter, status: Arc<GatewayStatus>) {
    meter
        .u64_observable_counter(metric::GATEWAY_VALUES_DROPPED)
        .with_unit("{value}")
        .with_description("Values of GPUs and counters that are not metered, by reason and sender")
        .with_callback(move |observer| {
            let (dropped, by) = (status.dropped(), status.dropped_by());
            for (reason, count, senders) in [
                ("late", dropped.late, by.late),
                ("ahead", dropped.ahead, by.ahead),
                ("old", dropped.old, by.old),
                ("over_limit", dropped.over_limit, SenderCounts::default()),
            ] {
                let reason = KeyValue::new(attribute::GATEWAY_DROP_REASON, reason);
                let mut rest = count;
                for (sender, count) in senders.iter().filter(|(sender, _)| !sender.is_empty()) {
                    let sender = KeyValue::new(attribute::GATEWAY_SENDER, sender.to_owned());
                    observer.observe(count, &[reason.clone(), sender]);
                    rest = rest.saturating_sub(count);
                }
                observer.observe(rest, &[reason]);
            }
        })
        .build();
}
