//! What a bill is split by: attributes of the workload, holders of GPUs, and properties of GPUs and time.

use std::fmt;
use std::str::FromStr;

use phasemeter_meter::date::Date;
use phasemeter_meter::holder_details::WORKLOAD_ATTRIBUTES;
use phasemeter_meter::units::Timestamp;

use crate::holder::{Holder, present};
use crate::report::{Experiment, Gpu, Report};
use crate::workload;

/// The prefix of an attribute.
const ATTRIBUTE: &str = "attribute:";

/// The prefix of a label of a pod.
const LABEL: &str = "label:";

/// Begins the name of an attribute that is a label of the pod.
const POD_LABEL: &str = "k8s.pod.label.";

/// The kind of a holder that is a command, whose attributes are those of the report.
const PROCESS_GROUP: &str = "process_group";

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
    /// The pod, with its namespace.
    Pod,
    /// What runs the pods: a deployment, a job.
    Workload,
    /// The job of a batch scheduler.
    Job,
    /// The queue of a batch scheduler.
    Queue,
    /// The kind of workload.
    Kind,
    /// The node.
    Node,
    /// The GPU model.
    Model,
    /// The GPU.
    Gpu,
    /// The UTC day.
    Day,
    /// The UTC month.
    Month,
    /// A label of the pod, or of its namespace.
    Label(String),
    /// An attribute of the workload.
    Attribute(String),
}

/// Names of dimensions other than attributes and labels.
const NAMES: [(&str, Dimension); 15] = [
    ("team", Dimension::Team),
    ("project", Dimension::Project),
    ("user", Dimension::User),
    ("experiment", Dimension::Experiment),
    ("namespace", Dimension::Namespace),
    ("pod", Dimension::Pod),
    ("workload", Dimension::Workload),
    ("job", Dimension::Job),
    ("queue", Dimension::Queue),
    ("node", Dimension::Node),
    ("kind", Dimension::Kind),
    ("model", Dimension::Model),
    ("gpu", Dimension::Gpu),
    ("day", Dimension::Day),
    ("month", Dimension::Month),
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
            Self::Job => &["slurm.job.id", "k8s.job.name", "torchelastic.run.id", "ray.job.id"],
            Self::Queue => &[
                "slurm.job.partition",
                "k8s.pod.label.kueue.x-k8s.io/queue-name",
                "k8s.pod.label.kai.scheduler/queue",
                "k8s.pod.label.runai/queue",
                "k8s.pod.label.volcano.sh/queue-name",
            ],
            Self::Kind => &["phasemeter.workload"],
            _ => &[],
        }
    }

    /// Whether its value owns the GPUs of a report, so that it also pays for their idle time.
    #[must_use]
    pub const fn is_owner(&self) -> bool {
        match self {
            Self::Team | Self::Project | Self::User | Self::Experiment | Self::Attribute(_) => true,
            Self::Kind | Self::Model | Self::Gpu | Self::Node | Self::Day | Self::Month => false,
            _ => self.is_of_holder(),
        }
    }

    /// Whether a GPU that is divided has its values from holders.
    #[must_use]
    pub const fn is_of_holder(&self) -> bool {
        matches!(
            self,
            Self::Namespace | Self::Pod | Self::Workload | Self::Job | Self::Queue | Self::Label(_)
        )
    }

    /// Its value for a GPU in a period that begins at `at`, or for what a holder has of it; `None` if it is unknown.
    pub(crate) fn value(
        &self,
        report: &Report,
        gpu: &Gpu,
        holder: Option<&Holder>,
        at: Timestamp,
    ) -> Option<String> {
        // A command is what the report is about.
        let holder = holder.filter(|holder| holder.kind != PROCESS_GROUP);
        match self {
            Self::Experiment => Some(report.experiment.id.clone()),
            Self::Model => gpu.model.clone(),
            Self::Gpu => Some(gpu.uuid.clone().unwrap_or_else(|| gpu.id.clone())),
            Self::Day => Some(Date::of(at).to_string()),
            Self::Month => Date::of(at).to_string().get(..7).map(str::to_owned),
            Self::Attribute(name) => attribute(&report.experiment, name).cloned(),
            Self::Node => gpu.host.clone().or_else(|| self.of_report(report)),
            _ => holder
                .map_or_else(|| self.of_report(report), |holder| self.of_holder(report, holder)),
        }
    }

    /// Its value by the attributes of a report.
    fn of_report(&self, report: &Report) -> Option<String> {
        let of = |name: &str| attribute(&report.experiment, name).cloned();
        match self {
            Self::Pod => {
                let (pod, namespace) = (of("k8s.pod.name")?, of("k8s.namespace.name"));
                Some(namespace.map_or(pod.clone(), |namespace| format!("{namespace}/{pod}")))
            }
            Self::Workload => WORKLOAD_ATTRIBUTES
                .iter()
                .find_map(|(_, name)| of(name))
                .or_else(|| Some(workload::of_pod(&of("k8s.pod.name")?).to_owned())),
            Self::Node => of("k8s.node.name").or_else(|| of("host.name")),
            Self::Label(key) => of(&format!("{POD_LABEL}{key}"))
                .or_else(|| of(&format!("k8s.namespace.label.{key}"))),
            _ => self.attributes().iter().find_map(|name| of(name)),
        }
    }

    /// Its value by what is known of a holder. Attributes of the report other than those of Kubernetes, which are of
    /// the program that metered, hold for all its holders.
    fn of_holder(&self, report: &Report, holder: &Holder) -> Option<String> {
        let label = |name: &str| present(holder.labels.get(name).map(String::as_str));
        let owned = |text: Option<&str>| text.map(str::to_owned);
        match self {
            Self::Namespace => owned(present(holder.namespace.as_deref())),
            Self::Pod => holder.pod_name(),
            Self::Workload => {
                let by_name = || present(holder.pod.as_deref()).map(workload::of_pod);
                owned(present(holder.workload.as_deref()).or_else(by_name))
            }
            Self::Label(key) => owned(label(key)),
            Self::Job => owned(present(holder.job.as_deref())),
            _ => {
                let known = match self {
                    Self::Queue => &holder.queue,
                    Self::User => &holder.user,
                    Self::Project => &holder.project,
                    _ => &None,
                };
                let names = || self.attributes().iter();
                let labels = || names().filter_map(|name| name.strip_prefix(POD_LABEL));
                let of_report = || {
                    names()
                        .filter(|name| !name.starts_with("k8s.") && !self.is_of_holder())
                        .find_map(|name| attribute(&report.experiment, name).cloned())
                };
                owned(present(known.as_deref()).or_else(|| labels().find_map(label)))
                    .or_else(of_report)
            }
        }
    }

    /// Two attributes with different values of it, of which the first counts.
    pub(crate) fn conflict(&self, experiment: &Experiment) -> Option<[(String, String); 2]> {
        let values = self.attributes().iter();
        let mut values = values
            .filter_map(|name| Some(((*name).to_owned(), attribute(experiment, name)?.clone())));
        let first = values.next()?;
        let other = values.find(|(_, value)| *value != first.1)?;
        Some([first, other])
    }
}

fn attribute<'a>(experiment: &'a Experiment, name: &str) -> Option<&'a String> {
    experiment.attributes.get(name).filter(|value| !value.is_empty())
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute(name) => return write!(f, "{ATTRIBUTE}{name}"),
            Self::Label(key) => return write!(f, "{LABEL}{key}"),
            _ => {}
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
        if let Some(key) = text.strip_prefix(LABEL).filter(|key| !key.is_empty()) {
            return Ok(Self::Label(key.to_owned()));
        }
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, dimension)| dimension.clone()).ok_or(ParseDimensionError)
    }
}

/// The text is not a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected team, project, user, experiment, namespace, pod, workload, job, queue, node, kind, model, gpu, day, month, \
     label:KEY or attribute:NAME"
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
        let label: Dimension = "label:app.kubernetes.io/name".parse().unwrap();
        assert_eq!(label.to_string(), "label:app.kubernetes.io/name");
        for text in ["", "Team", "teams", "attribute:", "label:"] {
            assert!(text.parse::<Dimension>().is_err(), "{text:?} was accepted");
        }
    }
}
