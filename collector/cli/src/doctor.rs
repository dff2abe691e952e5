//! Options of `phasemeter doctor`.

use clap::Args;
use phasemeter_meter::units::Nanos;

use super::value::seconds;
use super::{MachineArgs, NodeArgs, WorkloadArgs};

/// `phasemeter doctor`: the options of `run` and `agent`, so that their command lines can be checked as they are.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Check what `agent` needs: all GPUs of the node, and who holds them. Else what `run` needs, of which CMD is not run.
    #[arg(long)]
    pub agent: bool,

    /// Give up on what has not answered after this many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub timeout: Nanos,

    #[command(flatten)]
    pub workload: WorkloadArgs,

    #[command(flatten)]
    pub node: NodeArgs,

    #[command(flatten)]
    pub machine: MachineArgs,
}
