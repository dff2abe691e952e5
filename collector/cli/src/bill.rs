//! Options of commands that read reports.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use phasemeter_bill::bill::{IdlePolicy, NobodysShare};
use phasemeter_bill::dimension::Dimension;
use phasemeter_bill::focus::{FocusOptions, FocusVersion, TagFormat};

use super::Format;
use super::value::one_of;

/// `phasemeter bill`.
#[derive(Debug, Args)]
pub struct BillArgs {
    /// JSON reports, as written by `--format json` or `--report`. A directory has the files in it whose names end
    /// in .json; `*` and `?` of a quoted pattern match as in a shell.
    #[arg(required = true, value_name = "REPORT")]
    pub reports: Vec<PathBuf>,

    /// What the bill is split by, in this order: team, project, user, experiment, namespace, pod, workload,
    /// job, queue, node, kind, model, gpu, day, month, label:KEY or attribute:NAME.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "team")]
    pub by: Vec<Dimension>,

    /// What becomes of the idle cost of GPUs without an owner.
    #[arg(long, default_value = "spread", value_parser = idle())]
    pub idle: IdlePolicy,

    /// Who pays for what no holder had of GPUs that were divided among holders.
    #[arg(long, default_value = "none", value_parser = share_idle())]
    pub share_idle: NobodysShare,

    /// An invoice to compare with: a CSV file with a column per name in --by, and `billed_usd`.
    #[arg(long, value_name = "FILE")]
    pub invoice: Option<PathBuf>,

    #[command(flatten)]
    pub trials: TrialRecordArgs,

    /// Skip reports that are invalid, with a note, in place of failing.
    #[arg(long)]
    pub skip_invalid: bool,

    /// Output format. `focus` is CSV or Parquet in FOCUS, with a row per GPU and hour, or longer period
    /// of a long run, and idle cost where it was.
    #[arg(long, value_enum, default_value_t = BillFormat::Text)]
    pub format: BillFormat,

    /// Write to this file in place of standard output. If its name ends in .parquet, `--format focus`
    /// writes Parquet. Either all of it is written, or the file stays as it was.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// The version of `--format focus`. In 1.4, a GPU that holders shared has a row per holder.
    #[arg(long, default_value = "1.2", value_name = "VERSION", value_parser = focus_version())]
    pub focus_version: FocusVersion,

    /// The invoice that the charges of `--format focus` are on: the column InvoiceId.
    #[arg(long, value_name = "ID")]
    pub invoice_id: Option<String>,

    /// Whose rules the tags of `--format focus` follow: names of attributes as they are, or as a cloud
    /// accepts them.
    #[arg(long, default_value = "otel", value_parser = tags())]
    pub tags: TagFormat,
}

impl BillArgs {
    /// How cost data is written.
    pub fn focus(&self) -> FocusOptions {
        FocusOptions {
            version: self.focus_version,
            tags: self.tags,
            invoice: self.invoice_id.clone(),
        }
    }
}

/// Format of a bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BillFormat {
    /// Text, for people.
    Text,
    /// JSON, for programs.
    Json,
    /// Cost data for FinOps tools: CSV, or Parquet with `--output FILE.parquet`.
    Focus,
}

/// `phasemeter compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The JSON report before the change.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// The JSON report after it.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,

    /// The unit of work, if the reports have several in common.
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,

    /// Code of a recommendation that was followed: what it promised is set beside what was saved.
    /// Repeatable.
    #[arg(long, value_name = "CODE")]
    pub done: Vec<String>,

    /// Confidence level of intervals in percent.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = level)]
    pub level: f64,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `phasemeter trial`.
#[derive(Debug, Args)]
pub struct TrialArgs {
    /// The JSON report before the change, which recommends it.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// The JSON report after it.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,

    /// Code of the recommendation that was followed [default: the only one to try].
    #[arg(long, value_name = "CODE")]
    pub recommendation: Option<String>,

    /// The directory of the record. The reports should be in it, too: readers of the record need them.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub trials: PathBuf,

    /// The unit of work, if the reports have several in common.
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,

    /// Confidence level of intervals in percent.
    #[arg(long, value_name = "PERCENT", default_value = "95", value_parser = level)]
    pub level: f64,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Records of trials.
#[derive(Clone, Debug, Default, Args)]
pub struct TrialRecordArgs {
    /// A directory of records of `phasemeter trial`. What they settled counts as a saving, or is marked as
    /// refuted. A record whose reports have changed is refused.
    #[arg(long = "trials", value_name = "DIR", help_heading = "Policies")]
    pub records: Option<PathBuf>,
}

/// `phasemeter page`.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// JSON report, as written by `--format json` or `--report`.
    #[arg(value_name = "REPORT")]
    pub report: PathBuf,

    /// Write to this file in place of standard output.
    #[arg(long = "html", value_name = "FILE")]
    pub html_file: Option<PathBuf>,
}

/// `phasemeter overlay`.
#[derive(Debug, Args)]
pub struct OverlayArgs {
    /// File of PyTorch's profiler (Chrome trace format), plain or gzipped.
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,

    /// JSON report of the same time, as written by `--format json` or `--report`.
    #[arg(value_name = "REPORT")]
    pub report: PathBuf,

    /// Write to this file in place of standard output; gzipped if its name ends in .gz.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

fn idle() -> impl TypedValueParser<Value = IdlePolicy> {
    one_of([
        ("spread", "It is spread over the whole bill by effective hours", IdlePolicy::Spread),
        ("separate", "It is an account of its own", IdlePolicy::Separate),
    ])
}

fn share_idle() -> impl TypedValueParser<Value = NobodysShare> {
    one_of([
        ("none", "It is the account of nobody", NobodysShare::None),
        ("even", "Each row of holders pays the same", NobodysShare::Even),
        (
            "by_grant",
            "Each row of holders pays in proportion to what they were granted over time",
            NobodysShare::ByGrant,
        ),
    ])
}

fn focus_version() -> impl TypedValueParser<Value = FocusVersion> {
    one_of([
        ("1.2", "What the exports of clouds have", FocusVersion::V1_2),
        ("1.4", "With columns for the parts of GPUs that are shared", FocusVersion::V1_4),
    ])
}

fn tags() -> impl TypedValueParser<Value = TagFormat> {
    one_of([
        ("otel", "As the attributes of OpenTelemetry are", TagFormat::Otel),
        ("aws", "AWS: cost allocation tags", TagFormat::Aws),
        ("azure", "Azure: resource tags", TagFormat::Azure),
        ("gcp", "Google Cloud: labels, in lowercase", TagFormat::Gcp),
    ])
}

/// A confidence level, as a fraction.
fn level(text: &str) -> Result<f64, &'static str> {
    let percent: Option<f64> = text.parse().ok().filter(|level| (50.0..=99.9).contains(level));
    percent.map(|level| level / 100.0).ok_or("expected a percentage from 50 to 99.9")
}
