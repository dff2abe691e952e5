//! Options of several questions: price and format.

use std::path::PathBuf;

use clap::Args;
use phasemeter_meter::money::Rate;

use super::super::metering::Format;
use super::super::policies::named;

/// Format of the result.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Report")]
pub struct OutputArgs {
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// The price of a GPU-hour on demand.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Price")]
pub struct PlanPriceArgs {
    /// Price on demand in USD per GPU-hour [default: the price book's, if a GPU or an instance type is
    /// given].
    #[arg(long, value_name = "USD", value_parser = Rate::parse)]
    pub price: Option<Rate>,

    /// Price book of your own, laid over the built-in one. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub prices: Vec<PathBuf>,

    /// Cloud provider: aws, azure or gcp.
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,

    /// Region, like us-east-1.
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,

    /// Instance type, like p5.48xlarge.
    #[arg(long, value_name = "NAME")]
    pub instance_type: Option<String>,

    #[command(flatten)]
    pub pricers: PricerArgs,
}

/// Policies that are asked for a price.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Price")]
pub struct PricerArgs {
    /// A pricing policy: a WebAssembly component NAME.wasm. Repeatable.
    #[arg(long = "policy", value_name = "FILE")]
    pub policy_files: Vec<PathBuf>,

    /// Settings for the policy of this name, like negotiated=terms.json. Repeatable.
    #[arg(long = "policy-settings", value_name = "NAME=FILE", value_parser = named)]
    pub policy_settings: Vec<(String, PathBuf)>,
}

impl PricerArgs {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.policy_files.is_empty() && self.policy_settings.is_empty()
    }
}
