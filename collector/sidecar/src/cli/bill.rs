//! Options of commands that read reports.
//!
//! Must not depend on what an option does.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use phasemeter_bill::bill::IdlePolicy;
use phasemeter_bill::dimension::Dimension;

use super::Format;

/// `phasemeter bill`.
#[derive(Debug, Args)]
pub struct BillArgs {
    /// JSON reports, as written by `--format json` or `--report`.
    #[arg(required = true, value_name = "REPORT")]
    pub reports: Vec<PathBuf>,

    /// What the bill is split by, in this order: team, project, user, experiment, namespace, kind,
    /// model, gpu, day or attribute:NAME.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "team")]
    pub by: Vec<Dimension>,

    /// What becomes of the idle cost of GPUs without an owner.
    #[arg(long, value_enum, default_value_t = Idle::Spread)]
    pub idle: Idle,

    /// An invoice to compare with: a CSV file with a column per name in --by, and `billed_usd`.
    #[arg(long, value_name = "FILE")]
    pub invoice: Option<PathBuf>,

    /// Skip reports that are invalid, with a note, in place of failing.
    #[arg(long)]
    pub skip_invalid: bool,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// What becomes of the idle cost of GPUs without an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// It is spread over the whole bill by effective hours.
    Spread,
    /// It is an account of its own.
    Separate,
}

impl From<Idle> for IdlePolicy {
    fn from(idle: Idle) -> Self {
        match idle {
            Idle::Spread => Self::Spread,
            Idle::Separate => Self::Separate,
        }
    }
}
