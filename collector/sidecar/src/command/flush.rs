//! `phasemeter flush`: delivers what runs that ended have left in the data directory.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use phasemeter_otlp::BySignal;
use phasemeter_otlp::delivery::{Client, Config, DataDirectory, Destination, Storage};
use tracing::warn;

use super::claims::keep_notes;
use super::data_dir::ExportOptions;
use super::delivery_report::DeliveryReport;
use super::error::CommandError;
use super::live_error::LiveError;
use super::optional::Optional;
use phasemeter_cli::FlushArgs;

/// Delivers to the backend of the environment. What another process uses is left to it.
pub(super) fn run(args: &FlushArgs) -> Result<(), CommandError> {
    let options = ExportOptions::read(&args.export, Optional(false))?;
    let config = Config::read(Destination::Environment, |name| options.look_up(name));
    let config = config.map_err(LiveError::from)?.ok_or(LiveError::NoBackend)?;
    let data = options.directory()?.ok_or(LiveError::NoData)?;
    keep_notes(&data);
    loop {
        let has_more = deliver(&data, &config, Duration::from_nanos(args.timeout.0))?;
        if !has_more {
            return Ok(());
        }
    }
}

/// Delivers what some runs have left; returns whether there are more.
fn deliver(
    data: &Arc<DataDirectory>,
    config: &Config,
    patience: Duration,
) -> Result<bool, CommandError> {
    let failed = CommandError::system("cannot read the data directory");
    let storage = Storage::left(data, config).map_err(failed)?;
    let (others, has_more) = (storage.others(), storage.has_more());
    if others > 0 {
        warn!(
            "{}: {others} runs have left requests for other endpoints; set OTEL_EXPORTER_OTLP_ENDPOINT to theirs",
            data.path().display()
        );
    }
    let targets = BySignal::each(|signal| config.target(signal).map(ToString::to_string));
    let client = Client::start_with(config, Some(storage)).map_err(LiveError::from)?;
    let report = DeliveryReport::new(targets, client.flush(patience));
    if report.is_complete() {
        writeln!(io::stdout(), "{report}").map_err(CommandError::Output)?;
        Ok(has_more)
    } else {
        Err(CommandError::Undelivered(Box::new(report)))
    }
}
