//! Levers: the means by which a recommendation saves money. The vocabulary is closed, so that
//! reports and dashboards can aggregate the recommendations of many policies.

use std::fmt;
use std::str::FromStr;

use crate::fixture_value::text;

/// A lever: one of [`Lever::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lever(&'static str);

impl Lever {
    /// Every lever: data loading, work per GPU, sharing, scheduling, compute efficiency, memory,
    /// reliability, and rate.
    pub const ALL: [Self; 45] = [
        Self("dali"),
        Self("num_workers"),
        Self("pin_memory"),
        Self("prefetch"),
        Self("storage"),
        Self("batch"),
        Self("grad_accumulation"),
        Self("dynamic_batching"),
        Self("concurrency"),
        Self("bucketing"),
        Self("smaller_gpu"),
        Self("larger_gpu"),
        Self("smaller_instance"),
        Self("mig"),
        Self("mps"),
        Self("time_slicing"),
        Self("bin_pack"),
        Self("consolidate"),
        Self("replicas"),
        Self("autoscale"),
        Self("schedule"),
        Self("release_memory"),
        Self("chargeback"),
        Self("overlap"),
        Self("compile"),
        Self("amp"),
        Self("tf32"),
        Self("bf16"),
        Self("fp16"),
        Self("fp8"),
        Self("tensor_cores"),
        Self("fused_kernels"),
        Self("nccl"),
        Self("checkpointing"),
        Self("quantization"),
        Self("checkpoint_interval"),
        Self("restart"),
        Self("power_limit"),
        Self("spot"),
        Self("reserved_1y"),
        Self("reserved_3y"),
        Self("region"),
        Self("provider"),
        Self("measure"),
        Self("other"),
    ];

    /// Whether it only finds out what to change: it saves nothing by itself.
    #[must_use]
    pub fn is_diagnosis(self) -> bool {
        self.0 == "measure"
    }

    /// Whether it changes on which GPUs the work runs: of such levers, a GPU needs one.
    #[must_use]
    pub fn moves_work(self) -> bool {
        const MOVES: [&str; 9] = [
            "bin_pack",
            "consolidate",
            "larger_gpu",
            "mig",
            "mps",
            "replicas",
            "smaller_gpu",
            "smaller_instance",
            "time_slicing",
        ];
        MOVES.contains(&self.0)
    }

    /// Whether it returns GPUs, or gives them to other work, as far as the load allows: their idle time, the least
    /// load, ends with it, even if it is recommended because of underload.
    #[must_use]
    pub fn ends_idle_time(self) -> bool {
        const ENDS: [&str; 8] = [
            "autoscale",
            "bin_pack",
            "consolidate",
            "mig",
            "mps",
            "replicas",
            "schedule",
            "time_slicing",
        ];
        ENDS.contains(&self.0)
    }

    /// Its name in policies, reports and telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

text!(Lever);

impl fmt::Display for Lever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl FromStr for Lever {
    type Err = ParseLeverError;

    fn from_str(text: &str) -> Result<Self, ParseLeverError> {
        Self::ALL.into_iter().find(|lever| lever.0 == text).ok_or(ParseLeverError)
    }
}

/// The text is not the name of a [`Lever`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown lever: expected one listed in the policy guide")]
pub struct ParseLeverError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_back() {
        for lever in Lever::ALL {
            assert_eq!(lever.name().parse(), Ok(lever));
            assert_eq!(lever.to_string(), lever.name());
        }
        assert_eq!("".parse::<Lever>(), Err(ParseLeverError));
    }

    #[test]
    fn work_moves_to_other_gpus() {
        let count = Lever::ALL.into_iter().filter(|lever| lever.moves_work()).count();
        assert_eq!(count, 9, "each is a lever");
        assert!(!Lever("spot").moves_work() && !Lever("batch").moves_work());
    }

    #[test]
    fn idle_time_ends_with_gpus_that_are_returned_or_shared() {
        let count = Lever::ALL.into_iter().filter(|lever| lever.ends_idle_time()).count();
        assert_eq!(count, 8, "each is a lever");
        assert!(!Lever("batch").ends_idle_time() && !Lever("smaller_gpu").ends_idle_time());
    }

    #[test]
    fn only_measuring_is_a_diagnosis() {
        let found: Vec<_> = Lever::ALL.into_iter().filter(|lever| lever.is_diagnosis()).collect();
        assert_eq!(found, ["measure".parse().unwrap()]);
    }
}
