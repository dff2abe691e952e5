//! The input of a policy: a window or quote request from a file, or the window of a log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{Pipeline, PipelineError, Settings};
use phasemeter_engine::policies::PolicyResults;
use phasemeter_logs::Source;
use phasemeter_logs::log::Input;
use phasemeter_logs::nvidia_smi::{LogOptions, Logs};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_otlp::experiment::{Attributes, ExperimentRequest};
use phasemeter_rules::fixture;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::quote::QuoteRequest;
use phasemeter_rules::window::Window;

use super::error::PolicyCommandError;
use super::files;
use crate::command::error::CommandError;
use crate::command::metering;
use phasemeter_cli::{InputArgs, PriceArgs};

/// The input of a policy.
pub(super) struct PolicyInput {
    /// Its origin, for messages.
    pub(super) source: String,
    pub(super) data: InputData,
}

/// The data of an input.
pub(super) enum InputData {
    /// For a recommender.
    Window(Window),
    /// For a pricer.
    Request(QuoteRequest),
}

impl PolicyInput {
    /// The input named by the command line.
    pub(super) fn from_args(args: &InputArgs) -> Result<Self, CommandError> {
        match (&args.source.window, &args.source.request) {
            (Some(path), _) => Ok(Self::read(Kind::Recommender, path)?),
            (None, Some(path)) => Ok(Self::read(Kind::Pricer, path)?),
            (None, None) => Self::from_logs(&args.source.logs, &args.price),
        }
    }

    /// Reads an input for policies of this kind.
    pub(super) fn read(kind: Kind, path: &Path) -> Result<Self, PolicyCommandError> {
        let (source, json) = (path.display().to_string(), files::read(path)?);
        let data = match kind {
            Kind::Recommender => InputData::Window(fixture::read_window(&source, &json)?),
            Kind::Pricer => InputData::Request(fixture::read_request(&source, &json)?),
        };
        Ok(Self { source, data })
    }

    /// The final window of an audit of these logs.
    fn from_logs(paths: &[PathBuf], price: &PriceArgs) -> Result<Self, CommandError> {
        let inputs: Vec<Input> = paths.iter().cloned().map(Input::from).collect();
        let name = inputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mut source = Logs::open(&inputs, &LogOptions::default())?;
        let settings = Settings {
            meter: MeterConfig::default(),
            pricing: metering::pricing(price, &Attributes::new(), None)?,
            alerts: AlertRules::default(),
            work: BTreeMap::new(),
            export: None,
        };
        let mut pipeline = Pipeline::log(settings, ExperimentRequest::default());
        pipeline.run(&mut source, |_| ()).map_err(failed)?;
        let mut last = None;
        let keep = |window: Option<Window>| {
            last = window;
            PolicyResults::default()
        };
        pipeline.finish(source.gpus(), keep).map_err(failed)?;
        let window = last.ok_or_else(|| PolicyCommandError::NoReadings(name.clone()))?;
        Ok(Self { source: name, data: InputData::Window(window) })
    }
}

fn failed(error: PipelineError) -> CommandError {
    match error {
        PipelineError::Source(error) => error.into(),
        error @ PipelineError::Export(_) => error.into(),
    }
}
