//! The report of a run.
//!
//! [`Report::build`] computes it once from the meters; [`text`] and [`json`] are two views of the
//! same numbers; [`page`] shows the JSON in a browser.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

mod absence;
mod alerts;
mod attribution;
pub mod bar;
mod build;
mod experiment;
mod experiments;
mod findings;
#[cfg(test)]
mod holder_tests;
mod holders;
mod input;
mod interruptions;
pub mod json;
mod model;
pub mod page;
mod periods;
mod policies;
mod price_tag;
mod prices;
mod provenance;
mod rejected_row;
mod sums;
#[cfg(test)]
mod test_fleet;
#[cfg(test)]
mod tests;
pub mod text;
mod timeline;
mod value;
mod work_groups;

pub use alerts::{AlertRule, Alerts, OpenedAlert, SkippedAlertRule};
pub use attribution::Attribution;
pub use experiment::Experiment;
pub use experiments::{Experiments, MoreExperiments, RunExperiment};
pub use holders::{Holder, HolderIdentity, Nobody};
pub use input::{GpuInput, Input, PoliciesInput};
pub use interruptions::{InterruptionNotice, Interruptions, LostWork};
pub use model::*;
pub use periods::Periods;
pub use policies::{
    CategorySavings, GpuSavings, Policy, Range, Recommendation, ReportedError, Savings, Source,
    Step,
};
pub use price_tag::{EarlierPrice, EstimateTag, PriceOrigin, PriceTag};
pub use provenance::Provenance;
pub use rejected_row::RejectedRow;
pub use timeline::{Percentages, Timeline};
pub use value::{Seconds, Usd, Utc};
pub use work_groups::{Group, Work, WorkGroups};
