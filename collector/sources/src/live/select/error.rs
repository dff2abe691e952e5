//! Why no GPU can be selected, and doubts about those that are.

use super::evidence::{CUDA, CUDA_ORDER};

/// A possible mismatch with the user's intention.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// CUDA's order of GPUs may differ from the driver's.
    #[error(
        "{CUDA}: CUDA orders GPUs of different models by speed, the driver by bus; \
         set {CUDA_ORDER}=PCI_BUS_ID, or use UUIDs"
    )]
    DeviceOrder,
    /// An entry does not match a GPU. CUDA ignores it and all later ones, and so does Phasemeter.
    #[error("{CUDA}: invalid entry '{entry}'; this and later entries are ignored, as in CUDA")]
    StoppedAt {
        /// The entry.
        entry: String,
    },
}

/// Why no GPUs can be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// An entry matches no GPU.
    #[error("{by}: unknown GPU '{entry}'; available: {available}")]
    Unknown {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
        /// The available GPUs.
        available: String,
    },
    /// An entry matches several GPUs.
    #[error("{by}: '{entry}' matches several UUIDs; use a longer prefix")]
    Ambiguous {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
    },
    /// An entry is a part of a GPU.
    #[error(
        "{by}: MIG instance '{entry}' cannot be metered; name its GPU{}",
        gpu.as_ref().map(|gpu| format!(", --gpu {gpu}")).unwrap_or_default()
    )]
    Mig {
        /// The option or variable.
        by: &'static str,
        /// The entry.
        entry: String,
        /// Its GPU, if it names it.
        gpu: Option<String>,
    },
    /// No GPU is left.
    #[error("{by}: no GPU selected; select GPUs with --gpu")]
    Empty {
        /// The option or variable.
        by: &'static str,
    },
    /// This process is in a pod whose GPUs are unknown. They may be found later.
    #[error(
        "pod: its GPUs are unknown; name them with --gpu, mount the socket of a node agent, or share a \
         claim with the container that uses them"
    )]
    Undecided,
}
