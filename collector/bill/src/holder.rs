//! A holder of a GPU as a report has it: who it is, and its accounts.
//!
//! Older reports have names only, and reports of sources without labels have no labels: what is absent is unknown.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{Nanos, Timestamp};
use serde::{Deserialize, Deserializer};

use crate::amount::{Seconds, Usd, instant};

/// Each phase of the three accounts of a holder has its waste rounded, by less than a nano-dollar.
const ROUNDING: i128 = 3 * Account::ALL.len() as i128;

/// What held a GPU or a part of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Holder {
    /// Its name for people: `NAMESPACE/POD`, `claim NAMESPACE/NAME`, `job ID`.
    pub name: String,
    /// What it is: `container`, `job`, `process_group`.
    pub kind: String,
    /// The namespace of its pod or claim.
    pub namespace: Option<String>,
    /// Its pod.
    pub pod: Option<String>,
    /// The container of the pod.
    pub container: Option<String>,
    /// The UID of the pod.
    pub uid: Option<String>,
    /// Its job.
    pub job: Option<String>,
    /// The workload that runs its pod.
    pub workload: Option<String>,
    /// The kind of the workload.
    pub workload_kind: Option<String>,
    /// The queue of its batch scheduler.
    pub queue: Option<String>,
    /// The user of its job.
    pub user: Option<String>,
    /// The project that pays for its job.
    pub project: Option<String>,
    /// Labels of its pod.
    pub labels: BTreeMap<String, String>,
    /// When it first had the GPU.
    #[serde(deserialize_with = "optional_instant")]
    pub start: Option<Timestamp>,
    /// When it last had it; `None` if it still does.
    #[serde(deserialize_with = "optional_instant")]
    pub end: Option<Timestamp>,
    /// How the GPU was divided.
    pub method: Option<String>,
    /// What it used; `None`, as its other costs, without a price.
    pub used_usd: Option<Usd>,
    /// What it was granted and did not use, from its first touch on.
    pub granted_unused_usd: Option<Usd>,
    /// What it was granted before it touched the GPU.
    pub never_touched_usd: Option<Usd>,
    /// What it was granted of the GPU over time; `None` in older reports.
    pub granted_seconds: Option<Seconds>,
    /// Time of the first of these accounts.
    pub used_seconds: Seconds,
    /// Time of the second.
    pub granted_unused_seconds: Seconds,
    /// Time of the third.
    pub never_touched_seconds: Seconds,
    /// Its cost: the three accounts together.
    pub cost_usd: Option<Usd>,
    /// Its observed cost minus what it used.
    pub waste_usd: Option<Usd>,
}

/// What of a GPU no holder had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Nobody {
    /// Cost; `None` without a price.
    pub cost_usd: Option<Usd>,
    /// Its observed cost that was not used.
    pub waste_usd: Option<Usd>,
    /// Time.
    pub seconds: Seconds,
}

impl Nobody {
    /// Its cost; zero without a price.
    #[must_use]
    pub fn cost(&self) -> NanoUsd {
        amount(self.cost_usd)
    }

    /// The part of it that was used by others than known holders, or was not observed.
    #[must_use]
    pub fn not_wasted(&self) -> NanoUsd {
        self.cost() - amount(self.waste_usd)
    }

    /// Whether its waste exceeds its cost by more than rounding.
    #[must_use]
    pub fn has_too_much_waste(&self) -> bool {
        self.not_wasted().0 < -ROUNDING
    }
}

impl Holder {
    /// Whether it is several that ended early in a long run, which the report does not keep apart.
    #[must_use]
    pub fn is_several(&self) -> bool {
        self.kind == "earlier"
    }

    /// GPU time: that of its accounts.
    #[must_use]
    pub fn time(&self) -> Nanos {
        [self.used_seconds, self.granted_unused_seconds, self.never_touched_seconds]
            .iter()
            .map(|Seconds(time)| *time)
            .sum()
    }

    /// What it was granted of the GPU over time; what it had, if a report does not state it.
    #[must_use]
    pub fn granted(&self) -> Nanos {
        self.granted_seconds.map_or_else(|| self.time(), |Seconds(granted)| granted)
    }

    /// Its cost; zero without a price.
    #[must_use]
    pub fn cost(&self) -> NanoUsd {
        amount(self.cost_usd)
    }

    /// The costs of its accounts: used, granted and not used, never touched.
    #[must_use]
    pub fn accounts(&self) -> [NanoUsd; 3] {
        [self.used_usd, self.granted_unused_usd, self.never_touched_usd].map(amount)
    }

    /// The part of its cost in which the GPU was not observed: neither used nor waste.
    #[must_use]
    pub fn unobserved(&self) -> NanoUsd {
        self.not_wasted_or_used().max(NanoUsd::ZERO)
    }

    /// Whether used cost and waste exceed the cost: by more than what each phase of each account is rounded by.
    #[must_use]
    pub fn has_too_much_waste(&self) -> bool {
        self.not_wasted_or_used().0 < -ROUNDING
    }

    fn not_wasted_or_used(&self) -> NanoUsd {
        self.cost() - amount(self.used_usd) - amount(self.waste_usd)
    }

    /// `NAMESPACE/POD`; `None` if it is not a pod.
    #[must_use]
    pub fn pod_name(&self) -> Option<String> {
        let pod = present(self.pod.as_deref())?;
        let namespace = present(self.namespace.as_deref());
        Some(namespace.map_or_else(|| pod.to_owned(), |namespace| format!("{namespace}/{pod}")))
    }

    /// Its name for people, with that of the container.
    #[must_use]
    pub fn full_name(&self) -> String {
        self.with_container(&self.name)
    }

    /// What tells it from every other holder of the GPU, a pod of the same name included if its UID is known.
    #[must_use]
    pub fn id(&self) -> String {
        self.with_container(present(self.uid.as_deref()).unwrap_or(&self.name))
    }

    fn with_container(&self, name: &str) -> String {
        present(self.container.as_deref())
            .map_or_else(|| name.to_owned(), |container| format!("{name}/{container}"))
    }
}

/// Text that is not empty.
pub(crate) fn present(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

fn amount(usd: Option<Usd>) -> NanoUsd {
    usd.map_or(NanoUsd::ZERO, |Usd(amount)| amount)
}

fn optional_instant<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    #[derive(Deserialize)]
    struct At(#[serde(deserialize_with = "instant")] Timestamp);
    Ok(Option::<At>::deserialize(deserializer)?.map(|At(at)| at))
}
