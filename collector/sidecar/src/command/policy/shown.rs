//! What a policy is shown: a window or a quote request that was recorded, or the window of a whole
//! log.
//!
//! This room must not know what is said of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use phasemeter_meter::gpu::MeterConfig;
use phasemeter_otlp::experiment::{Attributes, ExperimentRequest};
use phasemeter_rules::fixture;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::quote::QuoteRequest;
use phasemeter_rules::window::Window;
use phasemeter_sources::Source;
use phasemeter_sources::nvidia_smi::{Input, LogOptions, Logs};

use super::{PolicyFailure, desk};
use crate::advice::Verdicts;
use crate::cli::{PriceArgs, ShownArgs};
use crate::command::{Failure, metering};
use crate::pipeline::{Pipeline, PipelineError, Settings};

/// What is asked, and where it is from, for people.
pub(super) struct Shown {
    pub(super) from: String,
    pub(super) question: Question,
}

/// What a policy is asked.
pub(super) enum Question {
    /// Of a recommender: what to do.
    Window(Window),
    /// Of a pricer: what it costs.
    Request(QuoteRequest),
}

impl Shown {
    /// What the command line names.
    pub(super) fn of(args: &ShownArgs) -> Result<Self, Failure> {
        match (&args.what.window, &args.what.request) {
            (Some(path), _) => Ok(Self::recorded(Kind::Recommender, path)?),
            (None, Some(path)) => Ok(Self::recorded(Kind::Pricer, path)?),
            (None, None) => Self::of_logs(&args.what.logs, &args.price),
        }
    }

    /// What was recorded for policies of this kind.
    pub(super) fn recorded(kind: Kind, path: &Path) -> Result<Self, PolicyFailure> {
        let (from, json) = (path.display().to_string(), desk::read(path)?);
        let question = match kind {
            Kind::Recommender => Question::Window(fixture::read_window(&from, &json)?),
            Kind::Pricer => Question::Request(fixture::read_request(&from, &json)?),
        };
        Ok(Self { from, question })
    }

    /// The window that an audit of these logs would show at its end.
    fn of_logs(paths: &[PathBuf], price: &PriceArgs) -> Result<Self, Failure> {
        let inputs: Vec<Input> = paths.iter().cloned().map(Input::from).collect();
        let from = inputs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let mut source = Logs::open(&inputs, &LogOptions::default())?;
        let settings = Settings {
            meter: MeterConfig::default(),
            pricing: metering::pricing(price, None),
            host: Attributes::new(),
            work: BTreeMap::new(),
            export: None,
        };
        let mut pipeline = Pipeline::of_log(settings, ExperimentRequest::default());
        pipeline.run(&mut source, |_| ()).map_err(failed)?;
        let mut shown = None;
        let keep = |window: Option<Window>| {
            shown = window;
            Verdicts::default()
        };
        pipeline.finish(source.gpus(), keep).map_err(failed)?;
        let window = shown.ok_or_else(|| PolicyFailure::Unseen(from.clone()))?;
        Ok(Self { from, question: Question::Window(window) })
    }
}

fn failed(error: PipelineError) -> Failure {
    match error {
        PipelineError::Source(error) => error.into(),
        error @ PipelineError::Export(_) => error.into(),
    }
}
