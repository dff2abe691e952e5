//! What a recommendation means: the change that its reader makes.

use crate::assumptions as assume;
use crate::input::Faster;
use crate::offer::{self, Offer};
use crate::report::Recommendation;

/// A change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Stops instances this many seconds after their work, and starts them with the next.
    Release(f64),
    /// Stops instances in the hours of the day in which they never worked.
    Schedule,
    /// Removes replicas without load.
    RemoveStandby,
    /// Places other work on free GPUs.
    Fill,
    /// Moves work to as few instances as hold it, and returns the others.
    Consolidate,
    /// Places this many tasks on one GPU.
    Share(usize),
    /// Prepares a job before its GPUs are rented.
    Prepare,
    Faster(Faster),
    LargerBatch,
    Checkpointing,
    Overlap,
    /// Batches requests, and gives back replicas that are then free.
    BatchRequests,
    Replicas(usize),
    OneReplicaAtNight,
    /// So many replicas in the hours from one to another, and otherwise.
    ReplicasByHour {
        from: usize,
        until: usize,
        fewer: usize,
        otherwise: usize,
    },
    /// Follows the load of each hour.
    Autoscale,
    Smaller(&'static Offer),
    /// The same GPUs with a smaller host.
    SmallerHost(&'static Offer),
    /// An instance with fewer GPUs.
    FewerGpus(&'static Offer),
    /// Another GPU with memory for larger batches.
    MoreMemory(&'static Offer),
    /// Saves and evaluates in the background.
    ShorterPauses,
    FewerRestarts,
    Queue,
    Balance,
    /// Formats with this speedup.
    Arithmetic(f64),
    Spot,
    /// The same GPUs elsewhere.
    Move(&'static Offer),
}

/// Waste that an action reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waste {
    Starvation,
    Idle,
    Underload,
}

impl Action {
    /// The action of a recommendation; `None` if there is none that a simulation can take.
    pub(crate) fn of(it: &Recommendation) -> Option<Self> {
        let evidence = |name: &str| it.evidence.get(name).map(|evidence| evidence.value);
        let count = |name: &str| Some(evidence(name)?.round() as usize);
        Some(match it.code.as_str() {
            "lifecycle.release"
            | "lifecycle.end-session"
            | "lifecycle.on-demand"
            | "lifecycle.scale-to-zero" => Self::Release(evidence("idle.ends_after")?),
            "lifecycle.schedule" => Self::Schedule,
            "lifecycle.replica" => Self::RemoveStandby,
            "lifecycle.fill" | "lifecycle.end-held" | "sharing.free" | "sharing.unused"
            | "sharing.ends" | "sharing.ends-held" => Self::Fill,
            "sharing.consolidate" => Self::Consolidate,
            "lifecycle.prepare" => Self::Prepare,
            "lifecycle.nights" => Self::OneReplicaAtNight,
            "lifecycle.autoscale" | "inference.autoscale" => Self::Autoscale,
            "sharing.divide" | "sharing.small" => Self::Share(first_number(&it.action)?),
            "data-loading.workers" => Self::Faster(Faster::Workers),
            "data-loading.decode" => Self::Faster(Faster::Decode),
            "data-loading.storage" => Self::Faster(Faster::Storage),
            "sizing.batch" => Self::LargerBatch,
            "memory.checkpoint" => Self::Checkpointing,
            "sizing.headroom" => Self::Overlap,
            "inference.batch-requests" => Self::BatchRequests,
            "sizing.balance" => Self::Balance,
            "inference.replicas" => Self::Replicas(count("replicas.needed")?),
            "inference.hours" => it.replicas_by_hour()?,
            "sizing.smaller" => Self::Smaller(named_offer(&it.action)?),
            "sizing.host" => Self::SmallerHost(it.place()?),
            "sharing.resize" => Self::FewerGpus(it.place()?),
            "sizing.larger" => Self::MoreMemory(named_offer(&it.action)?),
            "gaps.checkpoints" => Self::ShorterPauses,
            "gaps.restarts" => Self::FewerRestarts,
            "gaps.queue" => Self::Queue,
            "precision.tf32" | "precision.bf16" | "precision.amp" | "precision.fp8" => {
                Self::Arithmetic(evidence("peak.speedup")?)
            }
            "rate.spot" => Self::Spot,
            "rate.region" | "rate.provider" => Self::Move(it.place()?),
            _ => return None,
        })
    }

    /// The waste that it reduces; `None` for prices and arithmetic.
    pub(crate) fn waste(self) -> Option<Waste> {
        Some(match self {
            Self::Faster(_) => Waste::Starvation,
            Self::Release(_)
            | Self::Schedule
            | Self::RemoveStandby
            | Self::Fill
            | Self::Consolidate
            | Self::FewerGpus(_)
            | Self::Prepare
            | Self::ShorterPauses
            | Self::FewerRestarts
            | Self::Queue => Waste::Idle,
            Self::Share(_)
            | Self::LargerBatch
            | Self::Checkpointing
            | Self::Overlap
            | Self::BatchRequests
            | Self::Replicas(_)
            | Self::OneReplicaAtNight
            | Self::ReplicasByHour { .. }
            | Self::Autoscale
            | Self::Smaller(_)
            | Self::MoreMemory(_)
            | Self::Balance => Waste::Underload,
            Self::Arithmetic(_) | Self::Spot | Self::Move(_) | Self::SmallerHost(_) => return None,
        })
    }

    /// Everything that an engineer with full insight could try; `offers` are instances to compare.
    pub(crate) fn all(own: &Offer, offers: &[&'static Offer]) -> Vec<Self> {
        let faster = [Faster::Workers, Faster::Decode, Faster::Storage, Faster::Prefetch];
        let mut all = vec![
            Self::Release(assume::RELEASE_AFTER),
            Self::Schedule,
            Self::RemoveStandby,
            Self::Fill,
            Self::Consolidate,
            Self::Prepare,
            Self::LargerBatch,
            Self::Checkpointing,
            Self::Overlap,
            Self::BatchRequests,
            Self::Replicas(1),
            Self::OneReplicaAtNight,
            Self::Autoscale,
            Self::ShorterPauses,
            Self::FewerRestarts,
            Self::Queue,
        ];
        all.extend(faster.map(Self::Faster));
        all.extend((2..=7).map(Self::Share));
        let same = |offer: &Offer| offer.model.name == own.model.name;
        let as_many = offers.iter().copied().filter(|offer| offer.gpus == own.gpus);
        all.extend(as_many.filter(|offer| !same(offer)).map(Self::Smaller));
        let fewer = offers.iter().filter(|offer| same(offer) && offer.gpus < own.gpus);
        all.extend(fewer.copied().map(Self::FewerGpus));
        all
    }
}

impl Recommendation {
    /// When it keeps how many replicas.
    fn replicas_by_hour(&self) -> Option<Action> {
        let whole = |name: &str| Some(self.evidence.get(name)?.value.round() as usize);
        Some(Action::ReplicasByHour {
            from: whole("replicas.least.from")?,
            until: whole("replicas.least.until")?,
            fewer: whole("replicas.least")?,
            otherwise: whole("replicas.needed")?,
        })
    }

    /// Where its remediation moves the work: an entry of the price book, whose price the policy does not decide.
    fn place(&self) -> Option<&'static Offer> {
        let parameters = &self.remediation.as_ref()?.parameters;
        let [provider, region, instance_type] =
            ["provider", "region", "instance_type"].map(|name| parameters.get(name));
        offer::at(provider?, region?, instance_type?)
    }
}

/// The first number of a text.
fn first_number(text: &str) -> Option<usize> {
    let number = text.split(|character: char| !character.is_ascii_digit());
    number.into_iter().find(|digits| !digits.is_empty())?.parse().ok()
}

/// The offer of a text such as `Try NVIDIA L4 (g6.xlarge, aws us-east-1) and …`.
fn named_offer(text: &str) -> Option<&'static Offer> {
    let (_, after) = text.rsplit_once('(')?;
    let (inside, _) = after.split_once(')')?;
    let (instance_type, place) = inside.split_once(", ")?;
    let (provider, region) = place.split_once(' ')?;
    offer::at(provider, region, instance_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_from_their_texts() {
        assert_eq!(first_number("Divide it into MIG instances for 7 tasks of this size"), Some(7));
        let offer = named_offer("Try NVIDIA L4 (g6.xlarge, aws us-east-1) and compare");
        assert_eq!(offer.unwrap().model.name, "NVIDIA L4");
        assert!(named_offer("Try another GPU").is_none());
    }
}
