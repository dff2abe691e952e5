//! What an agent and a sidecar exchange: objects in JSON, one per line.
//!
//! A sidecar sends one [`Question`]. The agent answers with [`Answer::Gpus`]; then, if readings were requested, with
//! [`Answer::Readings`] about twice per second, and with [`Answer::Gpus`] again if the GPUs of the pod change. If
//! billed time was requested, it answers with [`Answer::Billed`] only, about twice per second, each after
//! [`Answer::Accounts`] if these were requested. Unknown members are ignored, so that either may be newer than the
//! other: an agent that is older sends no accounts. A version that changes what a member means is rejected.
//!
//! JSON lines, not OTLP: an answer has grants and exact sums, for which OTLP has no message, and a reader in any
//! language needs a few lines.

use serde::{Deserialize, Serialize};

use super::statement::AgentStatement;

/// The version of the protocol.
pub(super) const VERSION: u32 = 1;

/// Maximum length of a line in bytes: a node has at most a few dozen GPUs, and a GPU a few hundred holders.
pub(super) const MAX_LINE: u64 = 1 << 20;

/// What a sidecar requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    /// [`VERSION`].
    pub(super) version: u32,
    /// The pod, which counts if the agent cannot see in which pod the other process is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<PodName>,
    /// Whether readings are requested, until the connection is closed.
    #[serde(default)]
    pub(super) readings: bool,
    /// Whether only the time that the agent bills is requested, until the connection is closed.
    #[serde(default)]
    pub(super) billed: bool,
    /// Whether the accounts of the pod are requested, too, if billed time is.
    #[serde(default)]
    pub(super) accounts: bool,
}

impl Question {
    /// The GPUs of a pod. It counts if the agent cannot see in which pod this process is.
    pub(super) const fn about(pod: Option<PodName>) -> Self {
        Self { version: VERSION, pod, readings: false, billed: false, accounts: false }
    }
}

/// The name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A line of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Answer {
    /// The GPUs that the pod holds, or holds a part of.
    Gpus {
        /// [`VERSION`].
        version: u32,
        /// The GPUs; empty if it holds none.
        gpus: Vec<AgentGpu>,
    },
    /// What was measured since the line before.
    Readings {
        /// The newest reading of each GPU.
        readings: Vec<AgentReading>,
        /// Means over time ranges, in the order in which they were measured.
        #[serde(default)]
        intervals: Vec<AgentInterval>,
    },
    /// The time that the agent bills.
    Billed {
        /// All GPUs of the node that it exports.
        gpus: Vec<AgentBilled>,
    },
    /// What the containers of the pod pay.
    Accounts {
        /// All GPUs of the node: one without holders costs the pod nothing.
        gpus: Vec<AgentStatement>,
    },
    /// The question cannot be answered. The connection ends.
    Error {
        /// Why, for people.
        message: String,
    },
}

/// A GPU that a pod holds, or holds a part of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentGpu {
    /// Its UUID.
    pub uuid: String,
    /// Its index on the node.
    pub index: Option<u32>,
    /// Its model, as its driver spells it.
    pub model: Option<String>,
    /// Its memory.
    pub memory_total_bytes: Option<u64>,
    /// What each container of the pod was granted of it.
    #[serde(default)]
    pub grants: Vec<AgentGrant>,
}

/// What a container was granted of a GPU, and what that costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentGrant {
    /// The name of the container; empty if unknown.
    pub container: String,
    /// Its part of the GPU, numerator and denominator; `None` if unknown.
    pub share: Option<(u32, u32)>,
    /// Its accounts of the GPU, those that are not empty.
    #[serde(default)]
    pub accounts: Vec<AgentAccount>,
}

/// An account of a container, over all phases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentAccount {
    /// `used`, `granted_unused` or `never_touched`.
    pub account: String,
    /// Its part of the GPU's time.
    pub nanoseconds: u64,
    /// The cost of that time in nano-dollars.
    pub nano_usd: u64,
}

/// The time of a GPU that an agent bills. Instants are nanoseconds since the machine was booted, by the clock that
/// counts while it is suspended; each is a whole second of the agent's wall clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentBilled {
    /// Its UUID.
    pub gpu: String,
    /// The start of its accounts.
    pub from_boot_ns: u64,
    /// Until when its exports have time, or will within two seconds.
    pub until_boot_ns: u64,
    /// Until when its next export will have time.
    pub next_boot_ns: u64,
    /// Whether the pod that asks holds the GPU, and no other one does.
    #[serde(default)]
    pub alone: bool,
}

/// Values of a GPU at an instant; `None` if one is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentReading {
    /// Its UUID.
    pub(super) gpu: String,
    /// When, in nanoseconds since the machine was booted, by the clock that counts while it is suspended.
    pub(super) boot_ns: u64,
    pub(super) utilization_ppm: Option<u32>,
    pub(super) memory_used_bytes: Option<u64>,
    pub(super) compute_processes: Option<u32>,
    pub(super) power_mw: Option<u32>,
    pub(super) energy_mj: Option<u64>,
    pub(super) temperature_celsius: Option<i16>,
}

/// The mean utilization of a GPU over a time range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentInterval {
    /// Its UUID.
    pub(super) gpu: String,
    /// The source of the utilization: `nvml.samples`, `gpm.sm` or `gpm.tensor`.
    pub(super) basis: String,
    /// Start of the range, like [`AgentReading::boot_ns`].
    pub(super) from_boot_ns: u64,
    /// End of the range.
    pub(super) to_boot_ns: u64,
    pub(super) utilization_ppm: u32,
}
