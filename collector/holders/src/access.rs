//! What is requested of the API server, and what is missing without it.

use std::fmt;

/// A verb and the resource that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The devices of the node.
    ListSlices,
    /// What changes of them.
    WatchSlices,
    /// The status of claims.
    GetClaims,
    /// The pods of the node.
    ListPods,
    /// What changes of them.
    WatchPods,
}

impl Access {
    /// What is missing without it.
    pub(crate) const fn missing(self) -> &'static str {
        match self {
            Self::ListSlices => "the GPUs of claims may be unknown",
            Self::WatchSlices => "GPUs of claims that are published later come up to a minute late",
            Self::GetClaims => {
                "parts of shared devices are unknown, and administrative access is inferred"
            }
            Self::ListPods => "workloads, queues, labels and fractions of GPUs of pods are missing",
            Self::WatchPods => {
                "workloads, queues, labels and fractions of GPUs of new pods come up to a minute late"
            }
        }
    }
}

/// As rules of RBAC name it: `list resourceslices`.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ListSlices => "list resourceslices",
            Self::WatchSlices => "watch resourceslices",
            Self::GetClaims => "get resourceclaims",
            Self::ListPods => "list pods",
            Self::WatchPods => "watch pods",
        })
    }
}
