//! Trials: whether a recommendation that was only a hypothesis has saved dollars, settled by a comparison.
//!
//! A record states what was tried, the digests of both reports and what they show. Whenever it is read, it is settled again
//! from these reports: what they do not show is refused.

mod error;

use phasemeter_meter::money::NanoUsd;
use phasemeter_savings::estimate::Estimate;
use phasemeter_savings::fraction::Fraction;
use phasemeter_savings::trial::{Outcome, Settled};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::error::TrialError;
use crate::compare::{CompareError, Comparison, Options, cost_share};
use crate::read::Sha256;
use crate::report::{Recommendation, Report};

/// The value of `schema`; changes with the meaning of any field.
pub const SCHEMA: &str = "phasemeter.trial/0.1";

/// A trial that was settled, as `trial.schema.json` describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was tried.
    pub recommendation: Tried,
    /// The report before the change.
    pub before: ReportFile,
    /// The report after it.
    pub after: ReportFile,
    /// The unit of work; `None` if the reports have none in common.
    pub unit: Option<String>,
    /// Confidence level of the intervals, between 0 and 1.
    pub level: f64,
    /// What they show.
    #[serde(serialize_with = "outcome_name", deserialize_with = "outcome")]
    pub result: Outcome,
    /// Why they show nothing; empty unless they are not comparable.
    pub reasons: Vec<String>,
    /// Dollars per unit, after ÷ before − 1; `None` if they are not comparable.
    pub unit_cost: Option<Bounds>,
    /// What is saved, as a fraction of the bill of the GPUs that it was recommended for: 0 unless it saves.
    pub saving_fraction: Bounds,
    /// What was saved until the end of the report after it: its work at the cost per unit before, less its bill. 0 unless it
    /// saves.
    pub realized_usd: Bounds,
}

/// The recommendation that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// The policy that returned it.
    pub policy: String,
    /// The policy's code for it.
    pub code: String,
    /// Its title.
    pub title: String,
    /// IDs of its GPUs in the report before.
    pub gpus: Vec<String>,
}

/// A report, as a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportFile {
    /// Its path, relative to the record.
    pub file: String,
    /// SHA-256 of its text.
    pub sha256: String,
}

/// An estimate with its interval: low ≤ expected ≤ high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Lower bound.
    pub low: f64,
    /// Expected value.
    pub expected: f64,
    /// Upper bound.
    pub high: f64,
}

fn outcome_name<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(outcome.name())
}

fn outcome<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Outcome, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = Outcome::ALL.into_iter().find(|outcome| outcome.name() == name);
    known.ok_or_else(|| serde::de::Error::custom("expected an outcome"))
}

/// A report with the name of its file and its digest.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its path, relative to the record.
    pub file: &'a str,
    /// The report.
    pub report: &'a Report,
    /// Its digest.
    pub digest: &'a Sha256,
}

impl Record {
    /// Settles the trial of the recommendation with this code; without one, of the only trial of the report before.
    ///
    /// # Errors
    /// Returns an error if the report before recommends no such trial.
    pub fn settle(
        before: Source<'_>,
        after: Source<'_>,
        code: Option<&str>,
        options: &Options,
    ) -> Result<(Self, Option<Comparison>), TrialError> {
        let tried = trials(before, code)?;
        let first = tried.first().copied().ok_or_else(|| TrialError::NoTrial {
            file: before.file.to_owned(),
            codes: Vec::new(),
        })?;
        let mut gpus: Vec<String> = tried.iter().flat_map(|it| it.gpus.iter().cloned()).collect();
        gpus.sort_unstable();
        gpus.dedup();
        let on_other_gpu = first.trial.as_ref().is_some_and(|trial| trial.on_other_gpu);
        let options = Options { on_other_gpu, ..options.clone() };
        let names = [before.file, after.file];
        let compared = Comparison::of(names, [before.report, after.report], &options, &[]);
        let (comparison, mut reasons) = match compared {
            Ok(comparison) => (Some(comparison), Vec::new()),
            Err(CompareError::NotComparable { reasons, .. }) => (None, reasons),
            Err(error @ CompareError::NotRecommended { .. }) => return Err(error.into()),
        };
        let measured = comparison.as_ref().map(|it| (it.unit_cost.value, it.unit_cost.interval));
        let (result, unit_cost) = match measured {
            Some((expected, Some([low, high]))) => {
                let result = match () {
                    () if high < 0.0 => Outcome::Saves,
                    () if low > 0.0 => Outcome::Worse,
                    () => Outcome::NoDifference,
                };
                (result, Some(Bounds { low, expected, high }))
            }
            _ => (Outcome::NotComparable, None),
        };
        // Without an interval, a difference may be chance.
        reasons.extend(
            comparison.iter().filter(|it| it.hours.is_none()).flat_map(|it| it.notes.clone()),
        );
        let share = cost_share(before.report, &gpus);
        let cost = comparison.as_ref().map_or(0.0, |it| it.sums[1].cost);
        let saved = |of: &dyn Fn(f64) -> f64| match (result, unit_cost) {
            (Outcome::Saves, Some(Bounds { low, expected, high })) => {
                Bounds { low: of(high), expected: of(expected), high: of(low) }
            }
            _ => Bounds::default(),
        };
        let file = |source: Source<'_>| ReportFile {
            file: source.file.to_owned(),
            sha256: hexadecimal(source.digest),
        };
        let record = Self {
            schema: SCHEMA.to_owned(),
            recommendation: Tried {
                policy: first.policy.clone(),
                code: first.code.clone(),
                title: first.title.clone(),
                gpus,
            },
            before: file(before),
            after: file(after),
            unit: comparison.as_ref().map(|it| it.unit.clone()),
            level: options.level,
            result,
            reasons,
            unit_cost,
            saving_fraction: saved(&|change| {
                if share > 0.0 { (-change / share).min(1.0) } else { 0.0 }
            }),
            realized_usd: saved(&|change| cost * (1.0 / (1.0 + change) - 1.0)),
        };
        Ok((record, comparison))
    }

    /// Reads a record; `name` is that of its file.
    ///
    /// # Errors
    /// Returns an error if it is none, or of another version.
    pub fn parse(name: &str, json: &[u8]) -> Result<Self, TrialError> {
        let record: Self = serde_json::from_slice(json).map_err(|source| TrialError::NoRecord {
            record: name.to_owned(),
            problem: source.to_string(),
        })?;
        if record.schema == SCHEMA {
            return Ok(record);
        }
        let problem = format!("its schema is {:?}, expected {SCHEMA:?}", record.schema);
        Err(TrialError::NoRecord { record: name.to_owned(), problem })
    }

    /// The record as indented JSON, followed by a newline.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // Text, numbers and lists can always be written.
        let mut json = serde_json::to_vec_pretty(self).unwrap_or_default();
        json.push(b'\n');
        json
    }

    /// Checks that its reports are those that it was settled by, and show what it states.
    ///
    /// # Errors
    /// Returns an error that names what differs.
    pub fn verify(
        &self,
        name: &str,
        before: Source<'_>,
        after: Source<'_>,
    ) -> Result<(), TrialError> {
        let record = || name.to_owned();
        for (source, own) in [(before, &self.before), (after, &self.after)] {
            let found = hexadecimal(source.digest);
            if found != own.sha256 {
                let (file, expected) = (own.file.clone(), own.sha256.clone());
                return Err(TrialError::Digest { record: record(), file, expected, found });
            }
        }
        let options = Options { unit: self.unit.clone(), level: self.level, ..Options::default() };
        let settled = Self::settle(before, after, Some(&self.recommendation.code), &options);
        let (settled, _) = settled.map_err(|error| TrialError::Subject {
            record: record(),
            problem: error.to_string(),
        })?;
        // As numbers are after they were written and read.
        let again = Self::parse(name, &settled.to_json())?;
        if again.recommendation != self.recommendation {
            let problem = "its recommendation is not that of the report before".to_owned();
            return Err(TrialError::Subject { record: record(), problem });
        }
        if again == *self { Ok(()) } else { Err(TrialError::Result { record: record() }) }
    }

    /// What it has shown; `None` if its reports are not comparable.
    #[must_use]
    pub fn settled(&self, record: &str) -> Option<Settled> {
        let Bounds { low, expected, high } = self.saving_fraction;
        let saving = Estimate { low, expected, high };
        let Tried { policy, code, gpus, .. } = self.recommendation.clone();
        (self.result != Outcome::NotComparable).then(|| Settled {
            policy,
            code,
            gpus,
            outcome: self.result,
            saving: saving.map(|part| Fraction::new(part).unwrap_or_default()),
            record: record.to_owned(),
        })
    }

    /// What was saved until the end of the report after it, rounded to the nano-dollar.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a statistic, not a bill")]
    pub fn realized(&self) -> Estimate<NanoUsd> {
        let Bounds { low, expected, high } = self.realized_usd;
        Estimate { low, expected, high }.map(|usd| NanoUsd((usd * 1e9).round() as i128))
    }
}

/// The recommendations of a report that are trials and have this code; without one, those of the only code.
fn trials<'a>(
    before: Source<'a>,
    code: Option<&str>,
) -> Result<Vec<&'a Recommendation>, TrialError> {
    let all = before.report.recommendations.iter().filter(|it| it.trial.is_some());
    let mut codes: Vec<String> = all.clone().map(|it| it.code.clone()).collect();
    codes.sort_unstable();
    codes.dedup();
    let file = before.file.to_owned();
    let code = match (code, &codes[..]) {
        (Some(code), codes) if codes.iter().any(|known| known == code) => code.to_owned(),
        (None, [code]) => code.clone(),
        (Some(code), _) => {
            return Err(TrialError::NotTried { file, code: code.to_owned(), codes });
        }
        (None, _) => return Err(TrialError::NoTrial { file, codes }),
    };
    Ok(all.filter(|it| it.code == code).collect())
}

/// A digest in hexadecimal digits.
#[must_use]
pub fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
