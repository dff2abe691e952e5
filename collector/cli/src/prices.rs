//! The command line of `phasemeter prices`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use phasemeter_meter::date::Date;

use super::metering::Format;

/// `phasemeter prices …`.
#[derive(Debug, Subcommand)]
pub enum PricesCommand {
    /// List the GPUs with prices on demand, by provider.
    List(ListArgs),
    /// Show all prices of an instance type or GPU.
    Show(ShowPricesArgs),
    /// Read a cloud's own price file and write a price book to standard output.
    Import(ImportArgs),
    /// Compare two price books.
    Diff(DiffArgs),
    /// Show how old the prices of each source are.
    Age(AgeArgs),
}

/// The book and its rows.
#[derive(Clone, Debug, Args)]
pub struct BookArgs {
    /// Price book of your own, laid over the built-in one. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub prices: Vec<PathBuf>,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `phasemeter prices list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Provider, like aws.
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,

    /// Region, like us-east-1.
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,

    #[command(flatten)]
    pub book: BookArgs,
}

/// `phasemeter prices show`.
#[derive(Debug, Args)]
pub struct ShowPricesArgs {
    /// Instance type, like p5.48xlarge, or GPU, like `NVIDIA L4`.
    #[arg(value_name = "NAME")]
    pub name: String,

    #[command(flatten)]
    pub list: ListArgs,
}

/// `phasemeter prices import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Whose file it is.
    #[arg(value_enum, value_name = "CLOUD")]
    pub cloud: Cloud,

    /// For aws the EC2 price list of a region as CSV or JSON, or the output of `aws pricing
    /// get-products`; for azure pages of the Retail Prices API, for gcp pages
    /// of the Cloud Billing Catalog.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Date of the prices [default: for aws that in the file, for azure and gcp today].
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    pub as_of: Option<Date>,

    /// Price book of your own with further instance types and their GPUs. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub prices: Vec<PathBuf>,
}

/// A cloud whose price files can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cloud {
    /// Amazon EC2.
    Aws,
    /// Azure Virtual Machines.
    Azure,
    /// Google Compute Engine.
    Gcp,
}

/// `phasemeter prices diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The earlier book, or `built-in`.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// The later book, or `built-in`.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `phasemeter prices age`.
#[derive(Debug, Args)]
pub struct AgeArgs {
    #[command(flatten)]
    pub book: BookArgs,
}

fn date(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| "expected a date like 2026-11-22".to_owned())
}
