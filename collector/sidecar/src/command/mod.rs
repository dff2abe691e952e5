//! The subcommands, one file each, and what they share.

#[cfg_attr(not(feature = "alerts"), path = "alerts/absent.rs")]
mod alerts;
mod audit;
#[cfg(feature = "bill")]
mod bill;
#[cfg(feature = "live")]
mod child;
#[cfg(feature = "live")]
mod claims;
#[cfg(feature = "bill")]
mod compare;
#[cfg_attr(not(feature = "live"), path = "delivery/absent.rs")]
mod delivery;
#[cfg_attr(not(feature = "live"), path = "delivery_report/absent.rs")]
mod delivery_report;
mod demo;
mod dump;
mod end_limit;
mod error;
#[cfg_attr(not(all(feature = "authoring", feature = "live")), allow(dead_code))]
mod exit_status;
mod files;
#[cfg(feature = "live")]
mod finished_run;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(feature = "gateway")]
mod gateway_identity;
#[cfg(feature = "gateway")]
mod gateway_meter;
#[cfg(feature = "gateway")]
mod gateway_notes;
#[cfg(feature = "live")]
mod gpus;
#[cfg(feature = "live")]
mod group_probe;
#[cfg(feature = "live")]
mod interruption_log;
#[cfg(feature = "live")]
mod interruptions;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod live_error;
#[cfg(feature = "live")]
mod live_sink;
#[cfg(feature = "live")]
mod load_trial;
#[cfg_attr(not(feature = "live"), allow(dead_code))]
mod local_zone;
#[cfg(feature = "gateway")]
mod mappings;
mod metering;
#[cfg(feature = "live")]
mod optional;
mod output_files;
mod output_place;
#[cfg(feature = "live")]
mod outputs;
#[cfg(feature = "live")]
mod own_resources;
#[cfg(feature = "plan")]
mod plan;
mod policies;
#[cfg(feature = "authoring")]
mod policy;
#[cfg(feature = "plan")]
mod prices;
#[cfg(feature = "gateway")]
mod probes;
mod progress;
#[cfg(feature = "gateway")]
mod receive;
#[cfg(feature = "live")]
mod record;
#[cfg(feature = "live")]
mod run;
#[cfg(feature = "live")]
mod run_report;
#[cfg(feature = "gateway")]
mod senders;
#[cfg_attr(not(feature = "live"), allow(dead_code))]
mod signals;
mod sinks;
#[cfg(feature = "gateway")]
mod span_notes;
mod strict;
#[cfg(feature = "live")]
mod supervision;
#[cfg(feature = "plan")]
mod today;
#[cfg(feature = "live")]
mod window_scheduler;
mod work_log;

pub use alerts::AlertsError;
pub use error::CommandError;
#[cfg(feature = "live")]
pub use live_error::LiveError;
#[cfg(feature = "authoring")]
pub use policy::PolicyCommandError;
pub use work_log::WorkLogError;

use std::process::ExitCode;

use phasemeter_rules::compile::child_main;

use crate::cli::{Cli, Command};

/// Runs a subcommand and returns its exit status: zero, or that of the command run by it.
///
/// # Errors
/// Returns an error if the subcommand fails; [`CommandError::exit_code`] is then the exit status.
pub fn run(cli: Cli) -> Result<ExitCode, CommandError> {
    if cli.strict {
        strict::check(&cli, |name| std::env::var(name).ok())?;
    }
    match cli.command {
        Command::Audit(args) => audit::run(*args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "live")]
        Command::Run(args) => run::run(&args),
        #[cfg(feature = "gateway")]
        Command::Gateway(args) => gateway::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "live")]
        Command::Record(args) => record::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(*args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "bill")]
        Command::Bill(args) => bill::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "bill")]
        Command::Compare(args) => compare::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "plan")]
        Command::Plan(command) => plan::run(command).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "plan")]
        Command::Prices(command) => prices::run(command).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "authoring")]
        Command::Policy(command) => policy::run(command),
        Command::Compile { args } => Ok(child_main(args)),
        #[cfg(feature = "live")]
        Command::GroupProbe => {
            group_probe::probe_main();
            Ok(ExitCode::SUCCESS)
        }
        #[cfg(feature = "live")]
        Command::LoadTrial => {
            let failed = CommandError::system("cannot load the driver");
            load_trial::child_main().map(|()| ExitCode::SUCCESS).map_err(failed)
        }
    }
}
