//! Questions about money: payment plans, buying, spot, the choice of GPUs.

use std::path::PathBuf;

use clap::Args;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::units::Nanos;
use phasemeter_plan::units::{Count, Ratio, Span, parse_dollars, parse_hours};

use super::common::{OutputArgs, PlanPriceArgs};
use super::values::OfferArg;

/// `phasemeter plan commitment`.
#[derive(Debug, Args)]
pub struct CommitmentArgs {
    /// Number of GPUs [default: 1, or those of --from].
    #[arg(long, value_name = "N")]
    pub gpu_count: Option<u64>,

    /// Hours per month in which each GPU is used [default: all].
    #[arg(long, value_name = "HOURS", value_parser = parse_hours)]
    pub hours: Option<Nanos>,

    /// Hours of a month: 720, or 730 for a twelfth of 365 days.
    #[arg(long, value_name = "HOURS", default_value = "720")]
    pub month_hours: u64,

    /// GPUs in use, each for an equal part of the month, like 2,2,8,8; without a list, those of the hours
    /// of --from. Computes how many to commit to.
    #[arg(long, value_name = "LIST", num_args = 0..=1, value_delimiter = ',', conflicts_with_all = ["gpu_count", "hours"])]
    pub by_hour: Option<Vec<u64>>,

    /// GPU model, for its price.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// Report of a run, for number, model and price of the GPUs.
    #[arg(long, value_name = "REPORT")]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub price: PlanPriceArgs,

    /// Spot price in USD per GPU-hour.
    #[arg(long, value_name = "USD", value_parser = Rate::parse, help_heading = "Price")]
    pub spot_price: Option<Rate>,

    /// Price with a commitment of one year, in USD per GPU-hour.
    #[arg(long = "reserved-1y-price", value_name = "USD", value_parser = Rate::parse, help_heading = "Price")]
    pub reserved_1y_price: Option<Rate>,

    /// Upfront payment per GPU for that year.
    #[arg(long = "reserved-1y-upfront", value_name = "USD", value_parser = parse_dollars, requires = "reserved_1y_price", help_heading = "Price")]
    pub reserved_1y_upfront: Option<NanoUsd>,

    /// Price with a commitment of three years, in USD per GPU-hour.
    #[arg(long = "reserved-3y-price", value_name = "USD", value_parser = Rate::parse, help_heading = "Price")]
    pub reserved_3y_price: Option<Rate>,

    /// Upfront payment per GPU for those three years.
    #[arg(long = "reserved-3y-upfront", value_name = "USD", value_parser = parse_dollars, requires = "reserved_3y_price", help_heading = "Price")]
    pub reserved_3y_upfront: Option<NanoUsd>,

    /// Amortized cost of an owned GPU per hour, as computed by `plan own`.
    #[arg(long, value_name = "USD", value_parser = Rate::parse, help_heading = "Price")]
    pub owned_price: Option<Rate>,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// `phasemeter plan own`.
#[derive(Debug, Args)]
pub struct OwnArgs {
    /// Purchase per GPU, with its share of the server.
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub purchase: NanoUsd,

    /// Value per GPU at the end of its life.
    #[arg(long, value_name = "USD", value_parser = parse_dollars, default_value = "0")]
    pub residual: NanoUsd,

    /// Years of its life.
    #[arg(long, value_name = "N")]
    pub years: u64,

    /// Power of a GPU at work in watts, with its share of the server [default: measured, with --from].
    #[arg(long, value_name = "WATTS", required_unless_present = "from")]
    pub watts: Option<f64>,

    /// Power of an idle GPU in watts [default: as at work].
    #[arg(long, value_name = "WATTS")]
    pub idle_watts: Option<f64>,

    /// Power usage effectiveness: power of the data center ÷ that of its computers.
    #[arg(long, value_name = "RATIO")]
    pub pue: f64,

    /// Price of electricity in USD per kWh.
    #[arg(long, value_name = "USD", value_parser = parse_dollars)]
    pub electricity: NanoUsd,

    /// Rack, network and cooling per GPU and month.
    #[arg(long, value_name = "USD", value_parser = parse_dollars, default_value = "0")]
    pub rack: NanoUsd,

    /// Staff and support per GPU and year.
    #[arg(long, value_name = "USD", value_parser = parse_dollars, default_value = "0")]
    pub staff: NanoUsd,

    /// Part of all hours that a GPU is used.
    #[arg(long, value_name = "PERCENT")]
    pub utilization: Option<Ratio>,

    /// GPU model, for the price of renting it.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// Report of a run, for power, utilization and price.
    #[arg(long, value_name = "REPORT")]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub price: PlanPriceArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// `phasemeter plan spot`.
#[derive(Debug, Args)]
pub struct SpotArgs {
    /// How much less spot costs than on demand, like 60%.
    #[arg(long, value_name = "PERCENT", conflicts_with = "spot_price")]
    pub discount: Option<Ratio>,

    /// Spot price in USD per GPU-hour [default: the price book's].
    #[arg(long, value_name = "USD", value_parser = Rate::parse)]
    pub spot_price: Option<Rate>,

    /// Work that interruptions repeat, as measured.
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["interval", "restart", "mean_time", "no_checkpoints"])]
    pub redone: Option<Ratio>,

    /// Time between checkpoints.
    #[arg(long, value_name = "TIME")]
    pub interval: Option<Span>,

    /// Time from an interruption until the work continues.
    #[arg(long, value_name = "TIME")]
    pub restart: Option<Span>,

    /// Mean time between interruptions.
    #[arg(long, value_name = "TIME")]
    pub mean_time: Option<Span>,

    /// Time to write a checkpoint while the job waits.
    #[arg(long, value_name = "TIME")]
    pub checkpoint_time: Option<Span>,

    /// The job cannot save checkpoints.
    #[arg(long, conflicts_with = "interval")]
    pub no_checkpoints: bool,

    /// GPU-hours of the job without interruptions [default: those of --from].
    #[arg(long, value_name = "HOURS", value_parser = parse_hours)]
    pub gpu_hours: Option<Nanos>,

    /// GPU model, for its prices.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// Report of a run, for GPU-hours and price.
    #[arg(long, value_name = "REPORT")]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub price: PlanPriceArgs,

    #[command(flatten)]
    pub output: OutputArgs,
}

/// `phasemeter plan select`.
#[derive(Debug, Args)]
pub struct SelectArgs {
    /// GPUs at a price: gpu=NVIDIA L4,count=8,price=0.70,throughput=800. Repeatable. `throughput` is that
    /// of one GPU per second; `name` is shown in place of the model; without `price` the price book is
    /// searched, with `provider`, `region` and `instance-type` if given.
    #[arg(long = "offer", value_name = "KEY=VALUE,…")]
    pub offers: Vec<OfferArg>,

    /// Price book of your own, laid over the built-in one. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub prices: Vec<PathBuf>,

    /// Work to be done, in the unit of the throughput, like 30B tokens.
    #[arg(long, value_name = "COUNT")]
    pub work: Option<Count>,

    /// By when the work must be done, like 14d.
    #[arg(long, value_name = "TIME", requires = "work")]
    pub deadline: Option<Span>,

    /// Arithmetic intensity of the job in FLOP per byte.
    #[arg(long, value_name = "RATIO")]
    pub intensity: Option<f64>,

    /// Parameters of the model, for the time to read its weights.
    #[arg(long, value_name = "COUNT")]
    pub params: Option<Count>,

    /// Of a mixture of experts, the parameters that a token uses, if they are not all.
    #[arg(long, value_name = "COUNT", requires = "params")]
    pub active_params: Option<Count>,

    /// Report of a run with --work: an offer of its GPUs, at its price and measured throughput.
    #[arg(long, value_name = "REPORT")]
    pub from: Option<PathBuf>,

    #[command(flatten)]
    pub output: OutputArgs,
}
