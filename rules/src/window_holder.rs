//! The holders of a GPU in a window.

use phasemeter_meter::accounts::Balance;
use phasemeter_meter::holder::{AllocationMethod, Container, Holder, HolderAccount, HolderKind};
use phasemeter_meter::holders::{HolderAccounts, Holders};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use serde::{Deserialize, Serialize};

use crate::fixture_value::{named, optional, scalar};

/// The most holders of a GPU.
pub const MAX_HOLDERS: usize = 64;

/// What has a GPU or a part of it. Its accounts are of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowHolder {
    /// For people.
    pub name: String,
    /// What it is.
    #[serde(with = "scalar")]
    pub kind: HolderKind,
    /// Namespace of the pod or claim.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Name of the pod.
    #[serde(default)]
    pub pod: Option<String>,
    /// Name of the container.
    #[serde(default)]
    pub container: Option<String>,
    /// UID of the pod.
    #[serde(default)]
    pub uid: Option<String>,
    /// ID of the job.
    #[serde(default)]
    pub job: Option<String>,
    /// Whether it holds the GPU at the end of the window.
    pub is_current: bool,
    /// The part of the GPU that it is granted then, 0–1: stated, else equal. `None` if it holds none, or the part is
    /// unknown.
    #[serde(default)]
    pub granted: Option<f64>,
    /// When it first touched the GPU; `None` if it never did.
    #[serde(rename = "first_touch_unix_nanos", default, with = "optional")]
    pub first_touch: Option<Timestamp>,
    /// What it used.
    pub used: HolderTotals,
    /// What it was granted and did not use, from its first touch on.
    pub granted_unused: HolderTotals,
    /// What it was granted before its first touch.
    pub never_touched: HolderTotals,
    /// How the GPU was divided for most of its time.
    #[serde(with = "scalar")]
    pub method: AllocationMethod,
}

/// Time and cost of one account of a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HolderTotals {
    /// Time of the GPU times the part of it.
    #[serde(rename = "time_nanos", with = "scalar")]
    pub time: Nanos,
    /// Its cost.
    #[serde(rename = "cost_nano_usd", with = "scalar")]
    pub cost: NanoUsd,
}

named!(HolderKind, "kind");
named!(AllocationMethod, "method");

impl WindowHolder {
    /// The holders of a GPU: those that hold it now first, then those that paid most.
    #[must_use]
    pub fn all_of(holders: &Holders, wall: WallOffset) -> Vec<Self> {
        let each = holders.iter().map(|(holder, accounts)| Self {
            granted: accounts.to().is_none().then(|| holders.part(holder)).flatten(),
            ..Self::of(holder, accounts, wall)
        });
        let mut all: Vec<Self> = each.collect();
        all.sort_by_key(|holder| (!holder.is_current, std::cmp::Reverse(holder.cost())));
        all.truncate(MAX_HOLDERS);
        all
    }

    /// All that it pays.
    fn cost(&self) -> NanoUsd {
        self.used.cost + self.granted_unused.cost + self.never_touched.cost
    }

    fn of(holder: &Holder, accounts: &HolderAccounts, wall: WallOffset) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let container = holder.container();
        let [used, granted_unused, never_touched] =
            HolderAccount::ALL.map(|account| accounts.total(account).into());
        Self {
            name: holder.to_string(),
            kind: holder.kind(),
            namespace: owned(holder.namespace()),
            pod: container.map(|container| container.pod.clone()),
            container: owned(container.and_then(Container::name)),
            uid: container.and_then(|container| container.uid.clone()),
            job: owned(holder.job()),
            is_current: accounts.to().is_none(),
            granted: None,
            first_touch: accounts.first_touch().map(|at| wall.wall(at)),
            used,
            granted_unused,
            never_touched,
            method: accounts.method(),
        }
    }
}

impl From<Balance> for HolderTotals {
    fn from(Balance { time, cost, .. }: Balance) -> Self {
        Self { time, cost }
    }
}
