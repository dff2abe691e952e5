//! Levers: the means by which a recommendation saves money. The vocabulary is closed, so that
//! reports and dashboards can aggregate the recommendations of many policies.

use std::fmt;
use std::str::FromStr;

use crate::fixture_value::text;

/// Declares the levers, each with its name.
macro_rules! levers {
    ($($lever:ident $name:literal,)*) => {
        /// A lever: data loading, work per GPU, sharing, scheduling, compute efficiency, memory, reliability, and rate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the policy guide describes them")]
        pub enum Lever {
            $($lever,)*
        }

        impl Lever {
            /// Every lever.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$lever),*];

            /// Its name in policies, reports and telemetry.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$lever => $name,)*
                }
            }
        }
    };
}

levers! {
    Dali "dali",
    NumWorkers "num_workers",
    PinMemory "pin_memory",
    Prefetch "prefetch",
    Storage "storage",
    Batch "batch",
    GradAccumulation "grad_accumulation",
    DynamicBatching "dynamic_batching",
    Concurrency "concurrency",
    Bucketing "bucketing",
    SmallerGpu "smaller_gpu",
    LargerGpu "larger_gpu",
    SmallerInstance "smaller_instance",
    Mig "mig",
    Mps "mps",
    TimeSlicing "time_slicing",
    BinPack "bin_pack",
    Consolidate "consolidate",
    Replicas "replicas",
    Autoscale "autoscale",
    Schedule "schedule",
    ReleaseMemory "release_memory",
    Chargeback "chargeback",
    Overlap "overlap",
    Compile "compile",
    Amp "amp",
    Tf32 "tf32",
    Bf16 "bf16",
    Fp16 "fp16",
    Fp8 "fp8",
    TensorCores "tensor_cores",
    FusedKernels "fused_kernels",
    Nccl "nccl",
    Checkpointing "checkpointing",
    Quantization "quantization",
    CheckpointInterval "checkpoint_interval",
    Restart "restart",
    PowerLimit "power_limit",
    Spot "spot",
    Reserved1y "reserved_1y",
    Reserved3y "reserved_3y",
    Region "region",
    Provider "provider",
    Measure "measure",
    Other "other",
}

/// How it is known what a recommendation saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The recorded seconds prove it, if they are replayed with the change.
    Replay,
    /// It is a hypothesis: only an experiment shows it.
    Trial {
        /// What it supposes, after *if*.
        cause: &'static str,
    },
    /// It finds out what to change, and saves nothing by itself.
    Diagnosis,
}

impl Lever {
    /// How it is known what it saves. Placement, schedule, scale, size and rate are replayed; whatever makes the same
    /// work faster, or moves it to a GPU of another speed, is a hypothesis.
    #[must_use]
    pub const fn proof(self) -> Proof {
        let cause = match self {
            Self::Dali => "decoding on the CPU is too slow",
            Self::NumWorkers => "the loader has too few workers",
            Self::PinMemory => "copies to the GPU hold it up",
            Self::Prefetch => "batches are ready too late",
            Self::Storage => "storage is too slow",
            Self::Batch => "each step is too small for the GPU",
            Self::GradAccumulation => "the GPUs exchange too often",
            Self::DynamicBatching => "requests are computed one by one",
            Self::Concurrency => "too few requests are in flight",
            Self::Bucketing => "short inputs are padded to long ones",
            Self::SmallerGpu => "a smaller GPU is fast enough",
            Self::LargerGpu => "another GPU is that much faster",
            Self::Overlap => "kernels take turns with copies, or with the host",
            Self::Compile => "launches take longer than kernels",
            Self::Amp | Self::Tf32 | Self::Bf16 | Self::Fp16 | Self::TensorCores => {
                "matrix products run in more bits than they need"
            }
            Self::Fp8 => "arithmetic in 16 bits is the limit",
            Self::FusedKernels => "many kernels pass over the same memory",
            Self::Nccl => "the GPUs wait for their exchange",
            Self::Checkpointing => "memory limits the batch",
            Self::Quantization => "reading the weights is the limit",
            Self::CheckpointInterval => "checkpoints hold the work up",
            Self::Mps | Self::TimeSlicing => "the tasks do not slow one another",
            Self::PowerLimit => "the power limit slows the work down",
            Self::Other => "its reason is right",
            Self::SmallerInstance
            | Self::Mig
            | Self::BinPack
            | Self::Consolidate
            | Self::Replicas
            | Self::Autoscale
            | Self::Schedule
            | Self::ReleaseMemory
            | Self::Chargeback
            | Self::Restart
            | Self::Spot
            | Self::Reserved1y
            | Self::Reserved3y
            | Self::Region
            | Self::Provider => return Proof::Replay,
            Self::Measure => return Proof::Diagnosis,
        };
        Proof::Trial { cause }
    }

    /// Whether it only finds out what to change: it saves nothing by itself.
    #[must_use]
    pub const fn is_diagnosis(self) -> bool {
        matches!(self.proof(), Proof::Diagnosis)
    }

    /// Whether it changes on which GPUs the work runs: of such levers, a GPU needs one.
    #[must_use]
    pub const fn moves_work(self) -> bool {
        matches!(
            self,
            Self::BinPack
                | Self::Consolidate
                | Self::LargerGpu
                | Self::Mig
                | Self::Mps
                | Self::Replicas
                | Self::SmallerGpu
                | Self::SmallerInstance
                | Self::TimeSlicing
        )
    }

    /// Whether it moves the work to GPUs of another model.
    #[must_use]
    pub const fn changes_model(self) -> bool {
        matches!(self, Self::LargerGpu | Self::SmallerGpu)
    }

    /// Whether it returns GPUs, or gives them to other work, as far as the load allows: their idle time, the least
    /// load, ends with it, even if it is recommended because of underload.
    #[must_use]
    pub const fn ends_idle_time(self) -> bool {
        matches!(
            self,
            Self::Autoscale
                | Self::BinPack
                | Self::Consolidate
                | Self::Mig
                | Self::Mps
                | Self::Replicas
                | Self::Schedule
                | Self::TimeSlicing
        )
    }
}

impl Proof {
    /// The name in reports and telemetry; `None` for a diagnosis.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Replay => Some("replay"),
            Self::Trial { .. } => Some("trial"),
            Self::Diagnosis => None,
        }
    }
}

text!(Lever);

impl fmt::Display for Lever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Lever {
    type Err = ParseLeverError;

    fn from_str(text: &str) -> Result<Self, ParseLeverError> {
        Self::ALL.into_iter().find(|lever| lever.name() == text).ok_or(ParseLeverError)
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
        assert!(!Lever::Spot.moves_work() && !Lever::Batch.moves_work());
    }

    #[test]
    fn idle_time_ends_with_gpus_that_are_returned_or_shared() {
        let count = Lever::ALL.into_iter().filter(|lever| lever.ends_idle_time()).count();
        assert_eq!(count, 8, "each is a lever");
        assert!(!Lever::Batch.ends_idle_time() && !Lever::SmallerGpu.ends_idle_time());
    }

    #[test]
    fn only_measuring_is_a_diagnosis() {
        let found: Vec<_> = Lever::ALL.into_iter().filter(|lever| lever.is_diagnosis()).collect();
        assert_eq!(found, [Lever::Measure]);
    }

    /// Guarantee: what a hypothesis supposes reads on after *if*, and moving to another model is one: the recorded
    /// seconds do not show its speed.
    #[test]
    fn causes_are_clauses_and_other_models_are_tried() {
        for lever in Lever::ALL {
            match lever.proof() {
                Proof::Trial { cause } => {
                    assert!(cause.starts_with(|first: char| first.is_lowercase()), "{cause}");
                    assert!(!cause.ends_with('.') && cause.len() < 60, "{cause}");
                }
                Proof::Replay | Proof::Diagnosis => assert!(!lever.changes_model(), "{lever}"),
            }
        }
    }
}
