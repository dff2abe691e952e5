//! Trials of a report: recommendations that are hypotheses, with what decides them.

use phasemeter_rules::lever::Proof;
use phasemeter_rules::recommendation;
use phasemeter_savings::trial::{MIN_HOURS, Outcome, Settled};
use serde::{Serialize, Serializer};

use super::Range;

/// What `phasemeter compare` must show.
const SHOWS: &str = "fewer dollars per unit of work";

/// How a recommendation that is a hypothesis is decided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// What it supposes, after *if*.
    pub supposes: &'static str,
    /// Hours with work, reported by hour, that both runs have at least: before the change and after it.
    pub hours: usize,
    /// What `phasemeter compare` must show.
    pub shows: &'static str,
    /// Whether the run after the change is on GPUs of another model.
    pub on_other_gpu: bool,
    /// The command that settles it.
    pub command: String,
    /// Its place among trials about the same waste: 1 is tried first. `None` if it is the only one, or settled.
    pub order: Option<usize>,
    /// What was shown; `None` if it was not tried.
    pub settled: Option<Settlement>,
}

/// The result of a trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settlement {
    /// What was shown.
    #[serde(serialize_with = "outcome")]
    pub result: Outcome,
    /// What it saves, as a fraction of the bill of its GPUs: measured.
    pub saving_fraction: Range<f64>,
    /// The file of its record.
    pub record: String,
}

fn outcome<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.name())
}

impl Trial {
    /// `None` if it needs none.
    pub(super) fn of(
        returned: &recommendation::Recommendation,
        settled: Option<&Settled>,
    ) -> Option<Self> {
        let Some(Proof::Trial { cause }) = returned.proof() else { return None };
        Some(Self {
            supposes: cause,
            hours: MIN_HOURS,
            shows: SHOWS,
            on_other_gpu: returned.lever.changes_model(),
            command: format!("phasemeter trial BEFORE AFTER --recommendation {}", returned.code),
            order: None,
            settled: settled.map(|it| Settlement {
                result: it.outcome,
                saving_fraction: it.saving.into(),
                record: it.record.clone(),
            }),
        })
    }
}

/// The last trial that settled a hypothesis; `None` if it is none, or was not tried.
pub(super) fn settled<'a>(
    all: &'a [Settled],
    policy: &str,
    it: &recommendation::Recommendation,
) -> Option<&'a Settled> {
    let is_trial = matches!(it.proof(), Some(Proof::Trial { .. }));
    let mut own = all.iter().filter(|_| is_trial);
    own.rfind(|trial| trial.is_about(policy, &it.code, &it.gpus))
}
