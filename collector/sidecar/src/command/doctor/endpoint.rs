//! Whether the backend accepts: a real export of nothing for each signal.

use std::time::Instant;

use phasemeter_doctor::endpoint;
use phasemeter_doctor::findings::{Findings, Topic};
use phasemeter_environment::variables::Environment;
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::{Config, Destination, probe};

use crate::command::data_dir::ExportOptions;
use crate::command::error::CommandError;
use crate::command::live_error::LiveError;
use crate::command::optional::Optional;
use crate::variables::variable;
use phasemeter_cli::DoctorArgs;

/// Sends the requests that a run would send, without content.
pub(super) fn check(args: &DoctorArgs, until: Instant) -> Result<Findings, CommandError> {
    let mut findings = Findings::default();
    let live = &args.machine.live;
    let options = ExportOptions::read(&live.export, Optional(true))?;
    let (config, errors) =
        Config::read_usable(Destination::Environment, |name| options.look_up(name));
    for error in errors.as_slice() {
        findings.problem(format!("endpoint: {error}"));
    }
    let Some(config) = config else {
        findings.fact(Topic::Endpoint, "nothing is exported");
        let report = &live.metering.report;
        let has_output = report.report_file.is_some()
            || report.otlp_file.is_some()
            || live.health_listen.is_some();
        let is_off = Environment::read(variable).exports_nothing;
        if !has_output && !is_off && errors.as_slice().is_empty() {
            findings.problem(
                "endpoint: OTEL_EXPORTER_OTLP_ENDPOINT is not set, so nothing is delivered; set it, or name a --report, \
                 --otlp-file or --health-listen",
            );
        }
        return Ok(findings);
    };
    let exposed = Signal::ALL.into_iter().filter_map(|signal| config.target(signal));
    if let Some(target) = exposed.clone().find(|target| target.exposes_headers()) {
        findings.note(format!(
            "endpoint: headers, which may contain credentials, are sent unencrypted: {target}; use https"
        ));
    }
    let patience = until.saturating_duration_since(Instant::now());
    let probes = probe(&config, patience).map_err(LiveError::from)?;
    endpoint::describe(&probes, &mut findings);
    Ok(findings)
}
