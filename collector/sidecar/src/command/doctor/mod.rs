//! `phasemeter doctor`: what works here, from the driver to the backend, on one page.
//!
//! Each check runs on a thread of its own, so that a driver, a disk or a backend that hangs costs its own facts only.
//! Nothing is sent but requests without content, and nothing is kept.

mod data;
mod endpoint;
mod holders;
mod trial;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_doctor::clock::Clocks;
use phasemeter_doctor::findings::Findings;
use phasemeter_doctor::{limits, page};
use phasemeter_environment::host;
use phasemeter_report::text::use_color;

use super::alerts;
use super::bill;
use super::error::CommandError;
use super::exit_status::CHECK_FAILED;
use super::metering;
use super::output_files::OutputFiles;
use super::relay;
use phasemeter_cli::{ColorChoice, DoctorArgs, Format};

/// The part of the time before the end in which all that waits gives up, so that it can tell for what.
const MARGIN: u32 = 5;

/// One check. It is to end at the given instant.
type Check = fn(&DoctorArgs, Instant) -> Result<Findings, CommandError>;

/// All checks but that of the clocks, and the names of what they wait for.
const CHECKS: [(&str, Check); 5] = [
    ("options", |args, _| options(args)),
    ("driver", trial::check),
    ("endpoint", endpoint::check),
    ("data directory", data::check),
    ("limits", |_, _| Ok(limits::check())),
];

/// Checks, and prints the page. The exit status is 0 if metering and delivery would work.
pub(super) fn run(mut args: DoctorArgs) -> Result<ExitCode, CommandError> {
    // Nothing is written.
    args.machine.live.metering.policies.dump_windows = None;
    let clocks = Clocks::read();
    let report = args.machine.live.metering.report.clone();
    let mut findings = check_all(args);
    clocks.check(&mut findings);
    match report.format {
        Format::Json => {
            let json = page::json(&findings).map_err(io::Error::from);
            bill::print(&json.map_err(CommandError::Output)?)?;
        }
        Format::Text => {
            let color = match report.color {
                ColorChoice::Always => true,
                ColorChoice::Never => false,
                ColorChoice::Auto => {
                    use_color(io::stdout().is_terminal(), std::env::var_os("NO_COLOR").as_deref())
                }
            };
            let host = host::attributes().remove("host.name").unwrap_or_default();
            bill::print(page::render(&findings, &host, color).as_bytes())?;
        }
    }
    Ok(if findings.works() { ExitCode::SUCCESS } else { CHECK_FAILED.into() })
}

/// Reads the files that options name, which a run refuses before it starts its command.
fn options(args: &DoctorArgs) -> Result<Findings, CommandError> {
    let metering = &args.machine.live.metering;
    alerts::select(&metering.alerts)?;
    relay::work_mappings(&args.workload.work_mappings)?;
    metering::check_outputs(OutputFiles::default(), metering)?;
    Ok(Findings::default())
}

/// Runs all checks at the same time, at most for the time limit.
fn check_all(args: DoctorArgs) -> Findings {
    let limit = Duration::from_nanos(args.timeout.0);
    let (began, args) = (Instant::now(), Arc::new(args));
    let until = began + (limit - limit / MARGIN);
    let (sender, results) = channel();
    let mut missing: Vec<&str> = Vec::new();
    let mut findings = Findings::default();
    for (name, check) in CHECKS {
        match start(name, check, Arc::clone(&args), until, sender.clone()) {
            Ok(()) => missing.push(name),
            Err(error) => findings.problem(format!(
                "{name}: no thread can be started: {error}; raise the limit on processes"
            )),
        }
    }
    drop(sender);
    while let Ok((name, found)) = results.recv_timeout(limit.saturating_sub(began.elapsed())) {
        missing.retain(|missing| *missing != name);
        match found {
            Ok(found) => findings.add(found),
            Err(error) => findings.problem(CommandError::in_one_line(&error)),
        }
    }
    for name in missing {
        findings.problem(format!(
            "{name}: no answer within {} s; find out what hangs, or set --timeout",
            limit.as_secs_f64()
        ));
    }
    findings
}

fn start(
    name: &'static str,
    check: Check,
    args: Arc<DoctorArgs>,
    until: Instant,
    sender: Sender<(&'static str, Result<Findings, CommandError>)>,
) -> io::Result<()> {
    let run = move || {
        // Nothing may wait for it any more.
        let _ = sender.send((name, check(&args, until)));
    };
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}
