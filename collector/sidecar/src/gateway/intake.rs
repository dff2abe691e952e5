//! Takes the values of GPUs from metrics requests.
//!
//! What Phasemeter sent is not metered again; its cost tells which time is billed elsewhere. Must not
//! depend on what is done with readings.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use phasemeter_attribution::directory::Pod;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::experiment::SERVICE_INSTANCE_ID;
use phasemeter_otlp::names::metric;
use phasemeter_otlp::receiver::{NumberPoint, number_points};
use phasemeter_otlp::{LogLimiter, Request};
use phasemeter_sources::mapping::{
    GpuId, Inserted, Mapped, Mappings, PodLabels, Point, ReadingBuffer, RejectedPoint, UnitChecks,
    UnitNotice,
};
use tracing::{info, warn};

use super::clock_check::ClockCheck;
use super::replicas::Replicas;

/// The beginning of the names of Phasemeter's scopes.
pub(super) const OWN_SCOPE: &str = "phasemeter";

/// What other meters bill.
const COST: &str = metric::GPU_COST;

/// Attributes of the resource of a meter that name the host of its GPUs.
const HOSTS: [&str; 3] = ["host.name", "host.id", "k8s.node.name"];

/// Maximum number of senders of coverage that are counted by name; those of others are counted together.
const MAX_SENDERS: usize = 256;

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
    covered_by: BTreeMap<String, u64>,
    /// Limits messages about refused points.
    refusals: LogLimiter<()>,
    pods: Vec<SeenPod>,
}

/// That a point of a GPU names its pod, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPod {
    /// The index of the GPU in the buffer.
    pub gpu: usize,
    /// The time of the point.
    pub at: Timestamp,
    /// The pod.
    pub pod: Option<Pod>,
}

impl Intake {
    /// Takes what `mappings` recognize. `own_instance` is the instance ID of what this gateway sends.
    #[must_use]
    pub fn new(mappings: Mappings, exclusions: Exclusions, own_instance: String) -> Self {
        Self {
            mappings,
            units: UnitChecks::default(),
            exclusions,
            own_instance,
            clock: ClockCheck::default(),
            covered_by: BTreeMap::new(),
            refusals: LogLimiter::default(),
            pods: Vec::new(),
        }
    }

    /// Number of values that were dropped, since they were far ahead of this machine's clock.
    #[must_use]
    pub const fn ahead(&self) -> u64 {
        self.clock.dropped()
    }

    /// The number of points by which each sender had GPUs exempted; without a name, of all others.
    pub fn covered_by(&self) -> impl Iterator<Item = (&str, u64)> {
        self.covered_by.iter().map(|(sender, points)| (sender.as_str(), *points))
    }

    /// The pods that points of utilization have named since the last call.
    pub fn take_pods(&mut self) -> Vec<SeenPod> {
        std::mem::take(&mut self.pods)
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
        let Self { mappings, units, exclusions, own_instance, clock, covered_by, refusals, pods } =
            self;
        let is_wanted = |scope: &str, metric: &str| match scope.starts_with(OWN_SCOPE) {
            true => metric == COST,
            false => mappings.has(metric),
        };
        number_points(request, is_wanted, |point| {
            let NumberPoint { metric, at, number, .. } = point;
            if point.scope.starts_with(OWN_SCOPE) {
                let instance = point.resource_label(SERVICE_INSTANCE_ID);
                // Others of the list never bill a GPU of this one; if their lists differ, this one's decides here.
                let is_own = instance.is_some_and(|it| {
                    it == own_instance.as_str() || exclusions.replicas.is_other(it)
                });
                if !is_own && !number.is_nan() && clock.admits(metric, at, now) {
                    cover(&point, arrived, buffer, covered_by);
                }
                return;
            }
            if !clock.admits(metric, at, now) {
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
            let host = value.gpu.host.as_ref();
            let is_excluded = exclusions.gpus.contains(value.gpu.id.id())
                || host.is_some_and(|host| exclusions.hosts.contains(host))
                || !exclusions.replicas.meters(&value.gpu.id.name());
            if !is_excluded {
                let is_utilization = value.quantity == Some(Quantity::Utilization);
                let pod = value.gpu.pod.clone().filter(|_| is_utilization);
                let Inserted { gpu, refusal } = buffer.insert(value, arrived);
                if let Some(refusal) = refusal {
                    log_refusal(&refusal, refusals);
                }
                let pod =
                    pod.map(|PodLabels { uid, namespace, name }| Pod { uid, namespace, name });
                let gpu = gpu.filter(|_| is_utilization);
                pods.extend(gpu.map(|gpu| SeenPod { gpu, at, pod }));
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

/// Another meter has billed a GPU from the start of the sum to the point.
fn cover(
    point: &NumberPoint<'_>,
    arrived: Nanos,
    buffer: &mut ReadingBuffer,
    covered_by: &mut BTreeMap<String, u64>,
) {
    let Some(id) = point.label("hw.id") else { return };
    let host = HOSTS.iter().find_map(|label| point.label(label));
    let sender = point.resource_label(SERVICE_INSTANCE_ID).or(host).unwrap_or_default();
    let is_counted = covered_by.contains_key(sender) || covered_by.len() < MAX_SENDERS;
    let counted = if is_counted { sender } else { "" };
    *covered_by.entry(counted.to_owned()).or_default() += 1;
    let mut cover = |name: &str| buffer.cover(name, point.start, point.at, sender, arrived);
    // Another gateway qualifies the ID itself.
    cover(id);
    let id = GpuId::on_host(id.to_owned(), host.map(str::to_owned));
    if id.as_uuid().is_none() {
        cover(&id.name());
    }
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
