//! Takes the values of GPUs from metrics requests.
//!
//! What Phasemeter sent is not metered again; its cost tells which time is billed elsewhere.

use std::collections::BTreeSet;
use std::time::Instant;

use phasemeter_attribution::directory::NamedBy;
use phasemeter_meter::holder::Holder;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::experiment::SERVICE_INSTANCE_ID;
use phasemeter_otlp::names::metric;
use phasemeter_otlp::{LogLimiter, Request};
use phasemeter_receiver::{NumberPoint, number_points};
use phasemeter_sources::mapping::{
    ArrivedAt, GpuId, Mapped, Mappings, Point, ReadingBuffer, RejectedPoint, UnitChecks,
    UnitNotice, Value,
};
use phasemeter_terminal::escape::clean;
use tracing::{info, warn};

use super::clock_check::{ClockCheck, FarFromClock};
use super::replicas::Replicas;
use super::sender_counts::SenderCounts;

/// The beginning of the names of Phasemeter's scopes.
pub(super) const OWN_SCOPE: &str = "phasemeter";

/// What other meters bill.
const COST: &str = metric::GPU_COST;

/// Attributes of the resource of a meter that name the host of its GPUs.
const HOSTS: [&str; 3] = ["host.name", "host.id", "k8s.node.name"];

/// GPUs that are billed elsewhere, by other means than passing metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    /// Their UUIDs, or their IDs as labels have them.
    pub gpus: BTreeSet<String>,
    /// The hosts all of whose GPUs are billed elsewhere.
    pub hosts: BTreeSet<String>,
    /// The gateways among which GPUs are divided.
    pub replicas: Replicas,
}

/// Takes values from requests.
#[derive(Debug)]
pub struct Intake {
    mappings: Mappings,
    units: UnitChecks,
    exclusions: Exclusions,
    /// The instance ID of the gateway's own metrics, which may come back.
    own_instance: String,
    clock: ClockCheck,
    /// Number of points that covered GPUs, by sender.
    covered_by: SenderCounts,
    /// Number of values whose time was billed before they arrived, by sender.
    late: SenderCounts,
    /// Limits messages about refused points, and about GPUs over the limit.
    refusals: LogLimiter<()>,
    over_limit: LogLimiter<()>,
    /// Number of GPUs for which there was no place, by sender.
    over_limit_by: SenderCounts,
    holders: Vec<SeenHolder>,
    meters: Vec<String>,
}

/// That a point of a GPU names its holder, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenHolder {
    /// The index of the GPU in the buffer.
    pub gpu: usize,
    /// The time of the point.
    pub at: Timestamp,
    /// What names it.
    pub by: NamedBy,
    /// The holder.
    pub holder: Option<Holder>,
}

impl Intake {
    /// Takes what `mappings` recognize, of at most `max_age`. `own_instance` is the instance ID of what this gateway
    /// sends.
    #[must_use]
    pub fn new(
        mappings: Mappings,
        exclusions: Exclusions,
        own_instance: String,
        max_age: Nanos,
    ) -> Self {
        Self {
            mappings,
            units: UnitChecks::default(),
            exclusions,
            own_instance,
            clock: ClockCheck::new(max_age),
            covered_by: SenderCounts::default(),
            late: SenderCounts::default(),
            refusals: LogLimiter::default(),
            over_limit: LogLimiter::default(),
            over_limit_by: SenderCounts::default(),
            holders: Vec::new(),
            meters: Vec::new(),
        }
    }

    /// The values that were dropped, since their time was far from this machine's clock.
    #[must_use]
    pub const fn far_from_clock(&self) -> &FarFromClock {
        self.clock.dropped()
    }

    /// The values that were dropped, since their time was billed before they arrived.
    #[must_use]
    pub const fn late(&self) -> &SenderCounts {
        &self.late
    }

    /// The GPUs for which there was no place.
    #[must_use]
    pub const fn over_limit_by(&self) -> &SenderCounts {
        &self.over_limit_by
    }

    /// The number of points by which each sender had GPUs exempted.
    #[must_use]
    pub const fn covered_by(&self) -> &SenderCounts {
        &self.covered_by
    }

    /// The holders that points of utilization and metrics of holders have named since the last call.
    pub fn take_holders(&mut self) -> Vec<SeenHolder> {
        std::mem::take(&mut self.holders)
    }

    /// The instance IDs of the meters whose costs were taken since the last call, in the order of the costs.
    pub fn take_meters(&mut self) -> Vec<String> {
        std::mem::take(&mut self.meters)
    }

    /// Adds the values of a request to the buffer. It arrived `now` by the wall clock, and at `arrived`
    /// by one that never steps. A sender whose values contradict their mapping is logged, once per metric.
    pub fn take(
        &mut self,
        request: &Request,
        now: Timestamp,
        arrived: Nanos,
        buffer: &mut ReadingBuffer,
    ) {
        let Request::Metrics(request) = request else { return };
        let Self {
            mappings,
            units,
            exclusions,
            own_instance,
            clock,
            covered_by,
            late,
            refusals,
            over_limit,
            over_limit_by,
            holders,
            meters,
        } = self;
        let is_wanted = |scope: &str, metric: &str| match scope.starts_with(OWN_SCOPE) {
            true => metric == COST,
            false => mappings.has(metric),
        };
        number_points(request, is_wanted, |point| {
            let NumberPoint { metric, at, number, .. } = point;
            if point.scope.starts_with(OWN_SCOPE) {
                let host = HOSTS.iter().find_map(|label| point.label(label));
                let instance = point.resource_label(SERVICE_INSTANCE_ID);
                // Others of the list never bill a GPU of this one; if their lists differ, this one's decides here.
                let is_own = instance.is_some_and(|it| {
                    it == own_instance.as_str() || exclusions.replicas.is_other(it)
                });
                let sender = instance.or(host).unwrap_or_default();
                if !is_own && !number.is_nan() && clock.admits(metric, sender, at, now) {
                    if !cover(&point, host, sender, arrived, buffer) {
                        return;
                    }
                    covered_by.add(sender);
                    let is_new = |it: &&str| meters.last().is_none_or(|last| last != it);
                    meters.extend(instance.filter(is_new).map(str::to_owned));
                }
                return;
            }
            let label = |name: &str| point.label(name);
            let NumberPoint { instrument, start, .. } = point;
            let start = Some(start).filter(|start| *start > Timestamp::EPOCH);
            let point = Point { metric, label: &label, instrument, start, at, number };
            let Some(Mapped { value, notice }) = mappings.read(&point, units) else { return };
            match notice {
                Some(lifted @ UnitNotice::Lifted { .. }) => info!("{lifted}"),
                Some(notice) => warn!("{notice}"),
                None => {}
            }
            let sender = value.gpu.sender().map(str::to_owned).unwrap_or_default();
            if !clock.admits(metric, &sender, at, now) {
                return;
            }
            let host = value.gpu.host.as_ref();
            let is_excluded = exclusions.gpus.contains(value.gpu.id.id())
                || host.is_some_and(|host| exclusions.hosts.contains(host))
                || !exclusions.replicas.meters(&value.gpu.id.name());
            if !is_excluded {
                let is_utilization = value.quantity == Some(Quantity::Utilization);
                let by = match value.value {
                    Ok(Value::Holder(_)) => Some(NamedBy::Metrics),
                    _ => is_utilization.then_some(NamedBy::Labels),
                };
                let holder = value.gpu.holder.as_ref().filter(|_| by.is_some());
                let holder = holder.map(|labeled| labeled.key.holder.clone());
                let arrival = ArrivedAt { at: arrived, ahead: at.since(now) };
                let inserted = buffer.insert(value, arrival);
                if let Some(refusal) = inserted.refusal {
                    log_refusal(&refusal, refusals);
                }
                if let Some(gpu) = inserted.over_limit {
                    log_over_limit(&gpu, buffer, over_limit);
                    over_limit_by.add(&sender);
                }
                if inserted.is_late {
                    late.add(&sender);
                }
                let seen = inserted.buffer_index.zip(by);
                holders.extend(seen.map(|(gpu, by)| SeenHolder { gpu, at, by, holder }));
            }
        });
    }
}

/// Logs the first refusal of each sender, and some of the others.
fn log_refusal(refusal: &RejectedPoint, limiter: &mut LogLimiter<()>) {
    let suppressed = limiter.permit((), Instant::now());
    match suppressed.or(refusal.is_first.then_some(0)) {
        Some(0) => warn!("{refusal}"),
        Some(suppressed) => warn!("{refusal} ({suppressed} messages like this suppressed)"),
        None => {}
    }
}

/// Logs that a GPU is not metered, since it is over the limit. Repetitions are limited.
fn log_over_limit(gpu: &str, buffer: &ReadingBuffer, limiter: &mut LogLimiter<()>) {
    let text = || {
        let (gpu, metered) = (clean(gpu), buffer.identities().len());
        let why = match buffer.is_full() {
            true => "the limit".to_owned(),
            false => format!(
                "and the last places are for senders with fewer than {}",
                ReadingBuffer::MANY_OF_SENDER
            ),
        };
        format!("GPU {gpu} is not metered: {metered} others are, {why}; raise --max-gpus")
    };
    match limiter.permit((), Instant::now()) {
        Some(0) => warn!("{}", text()),
        Some(suppressed) => warn!("{} ({suppressed} messages like this suppressed)", text()),
        None => {}
    }
}

/// A meter on this host has billed a GPU from the start of the sum to the point. Returns false if it names none.
fn cover(
    point: &NumberPoint<'_>,
    host: Option<&str>,
    sender: &str,
    arrived: Nanos,
    buffer: &mut ReadingBuffer,
) -> bool {
    let Some(id) = point.label("hw.id") else { return false };
    let mut cover = |name: &str| buffer.cover(name, point.start, point.at, sender, arrived);
    // Another gateway qualifies the ID itself.
    cover(id);
    let id = GpuId::on_host(id.to_owned(), host.map(str::to_owned));
    if id.as_uuid().is_none() {
        cover(&id.name());
    }
    true
}

#[cfg(test)]
mod tests {
    /// The mapping of dcgm-exporter reads the labels that tell kinds of workload.
    #[test]
    fn labels_of_kinds_are_read() {
        let mapping = include_str!("../../../../otel-config/mappings/dcgm-exporter.toml");
        for key in phasemeter_rules::workload::label_keys() {
            assert!(mapping.contains(&format!("\"{key}\"")), "{key} is not read");
        }
    }
}
