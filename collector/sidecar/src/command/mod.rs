//! The subcommands, one file each, and what they share.

#[cfg(feature = "full")]
mod agent;
#[cfg(feature = "full")]
mod agent_accounts;
#[cfg(feature = "full")]
mod alerts;
mod audit;
#[cfg(feature = "full")]
mod bill;
#[cfg(feature = "full")]
mod child;
#[cfg(feature = "full")]
mod claims;
#[cfg(feature = "full")]
mod compare;
#[cfg(feature = "full")]
mod configuration;
#[cfg(feature = "full")]
mod data_dir;
#[cfg(feature = "full")]
mod delivery;
#[cfg(feature = "full")]
mod delivery_report;
mod demo;
#[cfg(feature = "full")]
mod doctor;
#[cfg(feature = "full")]
mod documents;
#[cfg(feature = "full")]
mod driver;
mod dump;
mod end_limit;
mod error;
#[cfg_attr(not(feature = "full"), allow(dead_code))]
mod exit_status;
mod files;
#[cfg(feature = "full")]
mod flush;
#[cfg(feature = "full")]
mod gateway;
#[cfg(feature = "full")]
mod gateway_identity;
#[cfg(feature = "full")]
mod gateway_meter;
#[cfg(feature = "full")]
mod gateway_notes;
#[cfg(feature = "full")]
mod gpu_selection;
#[cfg(feature = "full")]
mod gpus;
#[cfg(feature = "full")]
mod group_probe;
#[cfg(feature = "full")]
mod hand_over;
#[cfg(feature = "full")]
mod held_gpu;
#[cfg(feature = "full")]
mod held_instances;
#[cfg(feature = "full")]
mod interim;
#[cfg(feature = "full")]
mod interruption_log;
#[cfg(feature = "full")]
mod interruptions;
#[cfg(feature = "full")]
mod kept_reports;
mod listing;
#[cfg(feature = "full")]
mod live;
#[cfg(feature = "full")]
mod live_error;
#[cfg(feature = "full")]
mod live_sink;
#[cfg(feature = "full")]
mod load_trial;
#[cfg_attr(not(feature = "full"), allow(dead_code))]
mod local_zone;
#[cfg(feature = "full")]
mod mappings;
mod metering;
#[cfg(feature = "full")]
mod node_agent;
#[cfg(feature = "full")]
mod node_instances;
#[cfg(feature = "full")]
mod node_price;
#[cfg(feature = "full")]
mod opening;
#[cfg(feature = "full")]
mod optional;
mod output_files;
#[cfg(feature = "full")]
mod outputs;
#[cfg(feature = "full")]
mod overlay;
#[cfg(feature = "full")]
mod own_resources;
#[cfg(feature = "full")]
mod page;
#[cfg(feature = "full")]
mod plan;
mod policies;
#[cfg(feature = "full")]
mod policy;
#[cfg(feature = "full")]
mod prices;
#[cfg(feature = "full")]
mod probes;
mod progress;
#[cfg(feature = "full")]
mod record;
#[cfg(feature = "full")]
mod relay;
#[cfg(feature = "full")]
mod reload;
#[cfg(feature = "full")]
mod report_files;
mod report_outputs;
#[cfg(feature = "full")]
mod restarts;
#[cfg(feature = "full")]
mod run;
#[cfg(feature = "full")]
mod run_report;
#[cfg(feature = "full")]
mod senders;
#[cfg_attr(not(feature = "full"), allow(dead_code))]
mod signals;
mod sinks;
#[cfg(feature = "full")]
mod span_notes;
#[cfg(feature = "full")]
mod status;
#[cfg(feature = "full")]
mod status_error;
mod strict;
#[cfg(feature = "full")]
mod supervision;
#[cfg(feature = "full")]
mod today;
#[cfg(feature = "full")]
mod top;
#[cfg(feature = "full")]
mod trial;
#[cfg(feature = "full")]
mod trial_records;
#[cfg(feature = "full")]
mod window_scheduler;
mod work_log;

#[cfg(feature = "full")]
pub use alerts::AlertsError;
pub use error::CommandError;
#[cfg(feature = "full")]
pub use live_error::LiveError;
#[cfg(feature = "full")]
pub use policy::PolicyCommandError;
pub use work_log::WorkLogError;

use std::process::ExitCode;

use phasemeter_rules::compile::child_main;

use crate::variables::variable;
use phasemeter_cli::{Cli, Command};

/// Runs a subcommand and returns its exit status: zero, or that of the command run by it.
///
/// # Errors
/// Returns an error if the subcommand fails; [`CommandError::exit_code`] is then the exit status.
pub fn run(cli: Cli) -> Result<ExitCode, CommandError> {
    if cli.strict {
        strict::check(&cli, variable)?;
    }
    match cli.command {
        Command::Audit(args) => audit::run(*args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Run(args) => run::run(&args),
        #[cfg(feature = "full")]
        Command::Agent(args) => agent::run(&args),
        #[cfg(feature = "full")]
        Command::Gateway(args) => gateway::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Flush(args) => flush::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Record(args) => record::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(*args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Doctor(args) => doctor::run(*args),
        #[cfg(feature = "full")]
        Command::Status(args) => status::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Top(args) => top::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Bill(args) => bill::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Compare(args) => compare::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Trial(args) => trial::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Page(args) => page::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Overlay(args) => overlay::run(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Plan(command) => plan::run(command).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Prices(command) => prices::run(command).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Policy(command) => policy::run(command),
        #[cfg(feature = "full")]
        Command::Config(command) => configuration::run(&command, cli.configuration.config),
        #[cfg(feature = "full")]
        Command::Completions(args) => documents::completions(&args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "full")]
        Command::Man(args) => documents::man(&args).map(|()| ExitCode::SUCCESS),
        Command::Compile { args } => Ok(child_main(args)),
        #[cfg(feature = "full")]
        Command::GroupProbe => {
            group_probe::probe_main();
            Ok(ExitCode::SUCCESS)
        }
        #[cfg(feature = "full")]
        Command::LoadTrial => {
            let failed = CommandError::system("cannot load the driver");
            load_trial::child_main().map(|()| ExitCode::SUCCESS).map_err(failed)
        }
    }
}
