//! The command line of `phasemeter plan`.

mod common;
mod money;
mod sizing;
mod values;

use clap::Subcommand;

pub use common::{OutputArgs, PlanPriceArgs, PricerArgs};
pub use money::{CommitmentArgs, OwnArgs, SelectArgs, SpotArgs};
pub use sizing::{
    BatchingArgs, CapacityArgs, CheckpointingExtent, MemoryArgs, Optimizer, SharingArgs, Solve,
};
pub use values::{OfferArg, Precision, WorkloadArg};

/// `phasemeter plan …`.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Memory of a model: which GPUs it fits, and what makes it fit a smaller one.
    Memory(Box<MemoryArgs>),
    /// Number of GPUs for a demand.
    Capacity(CapacityArgs),
    /// On demand, spot, reserved or owned: costs, break-even and mixed coverage.
    Commitment(Box<CommitmentArgs>),
    /// Buying GPUs against renting them.
    Own(OwnArgs),
    /// What spot saves after interruptions, and how often to save checkpoints.
    Spot(SpotArgs),
    /// How few GPUs hold some workloads with MIG, MPS or time-slicing.
    Sharing(SharingArgs),
    /// Wait, batch size and latency of a batching server.
    Batching(BatchingArgs),
    /// Which GPUs finish a job for the least money, or in time.
    Select(SelectArgs),
}
