//! `phasemeter agent`: meters the GPUs of a node, and divides what they cost among those that hold them.

use std::process::ExitCode;

use super::error::CommandError;
use super::opening::Run;
use super::run::meter_machine;
use phasemeter_cli::{AgentArgs, WorkloadArgs};

/// Meters the node until a signal, and reports.
pub(super) fn run(args: &AgentArgs) -> Result<ExitCode, CommandError> {
    let workload = WorkloadArgs::none().map_err(|_| CommandError::Panicked)?;
    let AgentArgs { node, machine } = args;
    meter_machine(&Run { machine, workload: &workload, node: Some(node) })
}
