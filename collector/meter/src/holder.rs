//! Who holds a GPU or a part of it, what each holder was granted, and what it uses.

use std::fmt;
use std::sync::Arc;

use crate::holder_details::HolderDetails;
pub use crate::share::Share;
use crate::units::{Timestamp, Utilization};

/// What has a GPU or a part of it. Two holders are the same if all that is known of them is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Holder {
    /// A container of a pod (`PodResources` of the kubelet, labels of an exporter).
    Container(Container),
    /// A claim of dynamic resource allocation whose pods are unknown.
    Claim {
        /// Its namespace; empty if unknown.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A job of a batch scheduler, by its ID.
    Job(String),
    /// The processes of a command, by the ID of their process group.
    ProcessGroup(u32),
    /// A name that a mapping gives it.
    Named(String),
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Container {
    /// The namespace of the pod; empty if unknown.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The UID of the pod, if known: a pod may have the name of an earlier one.
    pub uid: Option<String>,
    /// The name of the container; empty if unknown.
    pub container: String,
}

/// What a holder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderKind {
    /// See [`Holder::Container`].
    Container,
    /// See [`Holder::Claim`].
    Claim,
    /// See [`Holder::Job`].
    Job,
    /// See [`Holder::ProcessGroup`].
    ProcessGroup,
    /// See [`Holder::Named`].
    Named,
}

impl HolderKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Container, Self::Claim, Self::Job, Self::ProcessGroup, Self::Named];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Claim => "claim",
            Self::Job => "job",
            Self::ProcessGroup => "process_group",
            Self::Named => "named",
        }
    }
}

impl Holder {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> HolderKind {
        match self {
            Self::Container(_) => HolderKind::Container,
            Self::Claim { .. } => HolderKind::Claim,
            Self::Job(_) => HolderKind::Job,
            Self::ProcessGroup(_) => HolderKind::ProcessGroup,
            Self::Named(_) => HolderKind::Named,
        }
    }

    /// Whether a scheduler allocates GPUs to it: it places no other work there, used or not.
    #[must_use]
    pub const fn is_scheduled(&self) -> bool {
        matches!(self, Self::Container(_) | Self::Claim { .. } | Self::Job(_))
    }

    /// The namespace of its pod or claim, if known.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        let namespace = match self {
            Self::Container(Container { namespace, .. }) | Self::Claim { namespace, .. } => {
                namespace
            }
            Self::Job(_) | Self::ProcessGroup(_) | Self::Named(_) => return None,
        };
        Some(&**namespace).filter(|namespace| !namespace.is_empty())
    }

    /// Its pod, and the container in it.
    #[must_use]
    pub const fn container(&self) -> Option<&Container> {
        match self {
            Self::Container(container) => Some(container),
            _ => None,
        }
    }

    /// The ID of its job.
    #[must_use]
    pub fn job(&self) -> Option<&str> {
        match self {
            Self::Job(id) => Some(id),
            _ => None,
        }
    }
}

impl Container {
    /// The name of the container, if known.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        Some(&*self.container).filter(|name| !name.is_empty())
    }
}

/// For people: `ml/train-0`, `claim ml/shared`, `job 4711`. Containers of a pod have one name.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut full = |kind: &str, namespace: &str, name: &str| {
            let slash = if namespace.is_empty() { "" } else { "/" };
            write!(f, "{kind}{namespace}{slash}{name}")
        };
        match self {
            Self::Container(container) => full("", &container.namespace, &container.pod),
            Self::Claim { namespace, name } => full("claim ", namespace, name),
            Self::Job(id) => full("job ", "", id),
            Self::ProcessGroup(id) => full("process group ", "", &id.to_string()),
            Self::Named(name) => full("", "", name),
        }
    }
}

/// What a holder was granted of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Grant {
    /// The holder.
    pub holder: Holder,
    /// Its part; `None` if unknown: those without one divide equally what others leave.
    pub share: Option<Share>,
}

/// What a holder used of a GPU over a half-open time range.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HolderUse {
    /// The holder.
    pub holder: Holder,
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range (exclusive), after `from`.
    pub to: Timestamp,
    /// Its mean part of the GPU's utilization over the range. Those of all holders are scaled so that they sum to
    /// at most the utilization of the GPU.
    pub utilization: Utilization,
    /// The utilization of what it has of the GPU, by which it touches that: of its MIG instance, else its part of the
    /// GPU's. `None` if it was not measured, and `utilization` is an estimate.
    pub own: Option<Utilization>,
}

/// What is found out about the holders of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum HolderChange {
    /// From an instant on, exactly these hold it; nobody if there are none.
    Assigned {
        /// The instant.
        at: Timestamp,
        /// What each was granted.
        grants: Vec<Grant>,
    },
    /// What a holder used.
    Used(HolderUse),
    /// A compute process of a holder was seen.
    Touched {
        /// When.
        at: Timestamp,
        /// Its holder.
        holder: Holder,
    },
    /// What is known now of a holder that was assigned or seen before.
    Described {
        /// The holder.
        holder: Holder,
        /// What replaces what was known before.
        #[cfg_attr(feature = "serde", serde(with = "crate::shared"))]
        details: Arc<HolderDetails>,
    },
}

impl HolderChange {
    /// The same at other times.
    #[must_use]
    pub fn map_times(self, map: impl Fn(Timestamp) -> Timestamp) -> Self {
        match self {
            Self::Assigned { at, grants } => Self::Assigned { at: map(at), grants },
            Self::Used(used) => {
                Self::Used(HolderUse { from: map(used.from), to: map(used.to), ..used })
            }
            Self::Touched { at, holder } => Self::Touched { at: map(at), holder },
            Self::Described { .. } => self,
        }
    }
}

/// The accounts of a holder. They sum to what it pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderAccount {
    /// What it used, of its own grant and of what others left.
    Used,
    /// The rest of its grant, from its first touch on.
    GrantedUnused,
    /// Its grant before its first touch: a reading at or above the idle threshold, or a compute process.
    NeverTouched,
}

impl HolderAccount {
    /// All accounts, in report order.
    pub const ALL: [Self; 3] = [Self::Used, Self::GrantedUnused, Self::NeverTouched];

    /// The value of the attribute `phasemeter.allocation.account`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::GrantedUnused => "granted_unused",
            Self::NeverTouched => "never_touched",
        }
    }
}

/// How a GPU was divided among its holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocationMethod {
    /// One holder had all of it.
    Exclusive,
    /// By what each used, as sources report it.
    ByUse,
    /// By what each was granted.
    ByGrant,
    /// Equally, since neither is known.
    Equal,
}

impl AllocationMethod {
    /// All methods, the most certain first.
    pub const ALL: [Self; 4] = [Self::Exclusive, Self::ByUse, Self::ByGrant, Self::Equal];

    /// The value of the attribute `phasemeter.allocation.method`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::ByUse => "by_use",
            Self::ByGrant => "by_grant",
            Self::Equal => "equal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_has_a_name_for_people() {
        let pod = Container { pod: "train-0".to_owned(), ..Container::default() };
        let ml = || "ml".to_owned();
        let names = [
            Holder::Container(Container { namespace: ml(), ..pod.clone() }),
            Holder::Container(pod),
            Holder::Claim { namespace: ml(), name: "shared".to_owned() },
            Holder::Job("4711".to_owned()),
            Holder::ProcessGroup(12),
            Holder::Named("render".to_owned()),
        ];
        let names = names.map(|holder| holder.to_string());
        let expected =
            ["ml/train-0", "train-0", "claim ml/shared", "job 4711", "process group 12", "render"];
        assert_eq!(names, expected);
    }
}
