//! The holders of a GPU: what each used of it, what it was granted and did not use, and what that cost.
//!
//! With what is nobody's, they sum to the bill of the GPU.

use std::collections::BTreeMap;

use phasemeter_meter::accounts::Balance;
use phasemeter_meter::holder::{Container, Holder as MeterHolder, HolderAccount};
use phasemeter_meter::holder_details::HolderDetails as MeterDetails;
use phasemeter_meter::holders::{EarlierHolders, HolderAccounts};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::Nanos;
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_terminal::number::counted;
use serde::Serialize;

use super::input::GpuInput;
use super::value::{Seconds, Usd, Utc};

/// What has a GPU or a part of it, and what it pays: three accounts, which sum to its cost. Their time is that of the
/// GPU times the part that they have of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Holder {
    /// `NAMESPACE/POD`, `claim NAMESPACE/NAME`, `job ID`, `process group ID` or a given name. Containers of a
    /// pod have the same.
    pub name: String,
    /// Time of its grant before it first touched the GPU.
    pub never_touched_seconds: Seconds,
    /// What it is.
    #[serde(flatten)]
    pub identity: HolderIdentity,
    /// What is known of it besides.
    #[serde(flatten)]
    pub details: HolderDetails,
    /// Since when it held the GPU.
    pub start: Utc,
    /// The end of its last grant; `None` if it still has one.
    pub end: Option<Utc>,
    /// When it first touched the GPU; `None` if it never did.
    pub first_touch: Option<Utc>,
    /// How the GPU was divided among its holders for most of its time: `exclusive`, `by_use`, `by_grant` or `equal`.
    pub method: &'static str,
    /// What it was granted: its part of the GPU over time, used by it or not.
    pub granted_seconds: Seconds,
    /// Time that it used.
    pub used_seconds: Seconds,
    /// Time of its grant that it did not use, from its first touch on.
    pub granted_unused_seconds: Seconds,
    /// Cost of what it used.
    pub used_usd: Option<Usd>,
    /// Cost of what it was granted and did not use.
    pub granted_unused_usd: Option<Usd>,
    /// Cost of its grant before its first touch.
    pub never_touched_usd: Option<Usd>,
    /// The three together.
    pub cost_usd: Option<Usd>,
    /// Cost of observed time that it did not use.
    pub waste_usd: Option<Usd>,
    /// Its part of the energy of the GPU, which follows its part of the time; `None` if it was not measured.
    pub energy_joules: Option<f64>,
}

/// What a holder is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HolderIdentity {
    /// `container`, `claim`, `job`, `process_group` or `named`; `earlier`: those that ended first, if they are too many
    /// to be kept apart.
    pub kind: &'static str,
    /// Namespace of the pod or claim.
    pub namespace: Option<String>,
    /// Name of the pod.
    pub pod: Option<String>,
    /// Name of the container.
    pub container: Option<String>,
    /// UID of the pod.
    pub uid: Option<String>,
    /// ID of the job.
    pub job: Option<String>,
}

/// What is known of a holder besides. What is unknown is absent: only an agent that reads pods or jobs knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HolderDetails {
    /// The name of the workload that runs its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Its kind in Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_kind: Option<String>,
    /// The queue of its batch scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The user of its job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The project that pays for its job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Labels of its pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// What no holder was granted or used of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Nobody {
    /// Time.
    pub seconds: Seconds,
    /// Its cost.
    pub cost_usd: Option<Usd>,
    /// Cost of observed time that it did not use.
    pub waste_usd: Option<Usd>,
    /// Its part of the energy of the GPU, which follows its part of the time; `None` if it was not measured.
    pub energy_joules: Option<f64>,
}

impl Nobody {
    /// What no holder has of this GPU; `None` if no source ever named one.
    pub(super) fn of(gpu: &GpuInput<'_>) -> Option<Self> {
        let holders = gpu.holders();
        let total = Total::of(|account| holders.nobody(account));
        let usd = |amount| gpu.price.is_ok().then_some(Usd(amount));
        (!holders.is_empty()).then(|| Self {
            seconds: Seconds(total.time),
            cost_usd: usd(total.cost),
            waste_usd: usd(total.waste),
            energy_joules: energy(gpu, holders.nobody_joules()),
        })
    }
}

impl Holder {
    /// The holders of a GPU, in order.
    pub(super) fn all_of(gpu: &GpuInput<'_>, wall: WallOffset) -> Vec<Self> {
        let holders = gpu.holders();
        let kept = holders.iter().map(|(holder, accounts)| {
            let details = holders.details(holder).map(HolderDetails::from).unwrap_or_default();
            (holder.to_string(), HolderIdentity::from(holder), details, accounts)
        });
        let earlier =
            holders.earlier().map(|EarlierHolders { namespace, details, count, accounts }| {
                let name = counted(count, "earlier holder");
                let name =
                    namespace.map_or(name.clone(), |namespace| format!("{name} of {namespace}"));
                let namespace = namespace.map(str::to_owned);
                let kind = "earlier";
                let identity = HolderIdentity { kind, namespace, ..HolderIdentity::default() };
                (name, identity, details.map(HolderDetails::from).unwrap_or_default(), accounts)
            });
        let all = kept.chain(earlier);
        all.map(|(name, identity, details, accounts)| {
            Self::build((gpu, wall), name, (identity, details), accounts)
        })
        .collect()
    }

    fn build(
        (gpu, wall): (&GpuInput<'_>, WallOffset),
        name: String,
        (identity, details): (HolderIdentity, HolderDetails),
        accounts: &HolderAccounts,
    ) -> Self {
        let of = |of| Total::of(|account| accounts.balance(of, account));
        let [used, unused, never_touched] = HolderAccount::ALL.map(of);
        let usd = |amount| gpu.price.is_ok().then_some(Usd(amount));
        let utc = |at| Utc(wall.wall(at));
        Self {
            name,
            never_touched_seconds: Seconds(never_touched.time),
            identity,
            details,
            start: utc(accounts.from()),
            end: accounts.to().map(utc),
            first_touch: accounts.first_touch().map(utc),
            method: accounts.method().name(),
            granted_seconds: Seconds(accounts.granted()),
            used_seconds: Seconds(used.time),
            granted_unused_seconds: Seconds(unused.time),
            used_usd: usd(used.cost),
            granted_unused_usd: usd(unused.cost),
            never_touched_usd: usd(never_touched.cost),
            cost_usd: usd(used.cost + unused.cost + never_touched.cost),
            waste_usd: usd(used.waste + unused.waste + never_touched.waste),
            energy_joules: energy(gpu, accounts.joules()),
        }
    }
}

impl From<&MeterHolder> for HolderIdentity {
    fn from(holder: &MeterHolder) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let container = holder.container();
        Self {
            kind: holder.kind().name(),
            namespace: owned(holder.namespace()),
            pod: container.map(|container| container.pod.clone()),
            container: owned(container.and_then(Container::name)),
            uid: container.and_then(|container| container.uid.clone()),
            job: owned(holder.job()),
        }
    }
}

impl From<&MeterDetails> for HolderDetails {
    fn from(details: &MeterDetails) -> Self {
        let MeterDetails { workload, queue, user, project, labels } = details.clone();
        let (workload, workload_kind) = workload.map(|it| (it.name, it.kind)).unzip();
        Self { workload, workload_kind, queue, user, project, labels }
    }
}

/// Time, cost and waste over several accounts.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    time: Nanos,
    cost: NanoUsd,
    waste: NanoUsd,
}

impl Total {
    /// The sum over all accounts of the GPU.
    fn of(balance: impl Fn(Account) -> Balance) -> Self {
        let mut total = Self::default();
        for account in Account::ALL {
            let balance = balance(account);
            total.time += balance.time;
            total.cost += balance.cost;
            if account != Account::Unobserved {
                total.waste += balance.waste();
            }
        }
        total
    }
}

/// A part of the energy of a GPU; `None` if none was measured.
fn energy(gpu: &GpuInput<'_>, joules: f64) -> Option<f64> {
    gpu.energy().joules().map(|_| joules)
}
