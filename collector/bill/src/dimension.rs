//! What a bill is split by: attributes of the workload, and properties of its GPUs and time.

use std::fmt;
use std::str::FromStr;

use phasemeter_meter::date::Date;
use phasemeter_meter::units::Timestamp;

use crate::report::{Experiment, Gpu, Report};

/// The prefix of an attribute.
const ATTRIBUTE: &str = "attribute:";

/// A dimension of a bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// The team.
    Team,
    /// The project.
    Project,
    /// The user.
    User,
    /// The ID of the experiment.
    Experiment,
    /// The Kubernetes namespace.
    Namespace,
    /// The kind of workload.
    Kind,
    /// The GPU model.
    Model,
    /// The GPU.
    Gpu,
    /// The UTC day.
    Day,
    /// An attribute of the workload.
    Attribute(String),
}

/// Names of dimensions other than attributes.
const NAMES: [(&str, Dimension); 9] = [
    ("team", Dimension::Team),
    ("project", Dimension::Project),
    ("user", Dimension::User),
    ("experiment", Dimension::Experiment),
    ("namespace", Dimension::Namespace),
    ("kind", Dimension::Kind),
    ("model", Dimension::Model),
    ("gpu", Dimension::Gpu),
    ("day", Dimension::Day),
];

impl Dimension {
    /// The attributes that have its value, the most specific first.
    fn attributes(&self) -> &[&str] {
        match self {
            Self::Team => {
                &["phasemeter.team", "team", "k8s.pod.label.team", "k8s.namespace.label.team"]
            }
            Self::Project => &[
                "phasemeter.project",
                "project",
                "k8s.pod.label.project",
                "k8s.namespace.label.project",
                "slurm.job.account",
            ],
            Self::User => &["phasemeter.user", "user.name", "user", "enduser.id", "slurm.job.user"],
            Self::Namespace => &["k8s.namespace.name"],
            Self::Kind => &["phasemeter.workload"],
            _ => &[],
        }
    }

    /// Whether its value owns the GPUs of a report, so that it also pays for their idle time.
    #[must_use]
    pub const fn is_owner(&self) -> bool {
        match self {
            Self::Team
            | Self::Project
            | Self::User
            | Self::Experiment
            | Self::Namespace
            | Self::Attribute(_) => true,
            Self::Kind | Self::Model | Self::Gpu | Self::Day => false,
        }
    }

    /// Its value for a GPU in a period that begins at `at`; `None` if it is unknown.
    pub(crate) fn value(&self, report: &Report, gpu: &Gpu, at: Timestamp) -> Option<String> {
        match self {
            Self::Experiment => Some(report.experiment.id.clone()),
            Self::Model => gpu.model.clone(),
            Self::Gpu => Some(gpu.uuid.clone().unwrap_or_else(|| gpu.id.clone())),
            Self::Day => Some(Date::of(at).to_string()),
            Self::Attribute(name) => present(&report.experiment, name).cloned(),
            Self::Team | Self::Project | Self::User | Self::Namespace | Self::Kind => {
                let mut names = self.attributes().iter();
                names.find_map(|name| present(&report.experiment, name)).cloned()
            }
        }
    }

    /// Two attributes with different values of it, of which the first counts.
    pub(crate) fn conflict(&self, experiment: &Experiment) -> Option<[(String, String); 2]> {
        let values = self.attributes().iter();
        let mut values = values
            .filter_map(|name| Some(((*name).to_owned(), present(experiment, name)?.clone())));
        let first = values.next()?;
        let other = values.find(|(_, value)| *value != first.1)?;
        Some([first, other])
    }
}

fn present<'a>(experiment: &'a Experiment, name: &str) -> Option<&'a String> {
    experiment.attributes.get(name).filter(|value| !value.is_empty())
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Attribute(name) = self {
            return write!(f, "{ATTRIBUTE}{name}");
        }
        let name = NAMES.iter().find(|(_, dimension)| dimension == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Dimension {
    type Err = ParseDimensionError;

    fn from_str(text: &str) -> Result<Self, ParseDimensionError> {
        if let Some(name) = text.strip_prefix(ATTRIBUTE).filter(|name| !name.is_empty()) {
            return Ok(Self::Attribute(name.to_owned()));
        }
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, dimension)| dimension.clone()).ok_or(ParseDimensionError)
    }
}

/// The text is not a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected team, project, user, experiment, namespace, kind, model, gpu, day or attribute:NAME"
)]
pub struct ParseDimensionError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimension_parses_as_displayed() {
        for (name, dimension) in NAMES {
            assert_eq!(name.parse(), Ok(dimension));
        }
        let attribute: Dimension = "attribute:cost.center".parse().unwrap();
        assert_eq!(attribute.to_string(), "attribute:cost.center");
        for text in ["", "Team", "teams", "attribute:"] {
            assert!(text.parse::<Dimension>().is_err(), "{text:?} was accepted");
        }
    }
}
