//! The means by which a GPU is used better: a closed vocabulary, so that reports and dashboards
//! of many policies can be added up.
//!
//! This room must not know what a lever saves.

use std::fmt;
use std::str::FromStr;

/// One of [`Lever::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lever(&'static str);

impl Lever {
    /// Every lever there is: input, work a GPU, sharing, time, precision, memory, rate.
    pub const ALL: [Self; 31] = [
        Self("dali"),
        Self("num_workers"),
        Self("pin_memory"),
        Self("prefetch"),
        Self("storage"),
        Self("batch"),
        Self("grad_accumulation"),
        Self("dynamic_batching"),
        Self("smaller_gpu"),
        Self("mig"),
        Self("mps"),
        Self("bin_pack"),
        Self("autoscale"),
        Self("schedule"),
        Self("release_memory"),
        Self("chargeback"),
        Self("overlap"),
        Self("amp"),
        Self("bf16"),
        Self("fp16"),
        Self("fp8"),
        Self("tensor_cores"),
        Self("fused_kernels"),
        Self("nccl"),
        Self("checkpointing"),
        Self("quantization"),
        Self("spot"),
        Self("reserved_1y"),
        Self("reserved_3y"),
        Self("region"),
        Self("provider"),
    ];

    /// Its name in policies, in reports and on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Lever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl FromStr for Lever {
    type Err = NotALever;

    fn from_str(text: &str) -> Result<Self, NotALever> {
        Self::ALL.into_iter().find(|lever| lever.0 == text).ok_or(NotALever)
    }
}

/// The text names no [`Lever`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such lever: the page for authors lists them")]
pub struct NotALever;
