//! Serializes records of the meter: the fields of the contract, with their units in the names. Optional fields may
//! be omitted.

use phasemeter_meter::activity::{Activity, Quiet, STRETCHES};
use phasemeter_meter::date::Date;
use phasemeter_meter::lengths::Lengths;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::pauses::{MemoryInUse, Pauses};
use phasemeter_meter::price::{PaymentPlan, Price, PriceRange};
use phasemeter_meter::units::Nanos;
use phasemeter_meter::waste::WasteByCategory;
use phasemeter_savings::fraction::Fraction;
use phasemeter_savings::recommendation::Saving;
use serde::{Deserialize, Serialize};

use super::{array, optional, record, scalar};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Price", deny_unknown_fields)]
struct PriceFields {
    #[serde(rename = "nano_usd_per_gpu_hour", with = "scalar")]
    rate: Rate,
    #[serde(default, with = "optional")]
    plan: Option<PaymentPlan>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    instance_type: Option<String>,
    source: String,
    #[serde(default, with = "optional")]
    as_of: Option<Date>,
    #[serde(default, with = "optional")]
    estimate: Option<PriceRange>,
}
record!(Price, PriceFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "PriceRange", deny_unknown_fields)]
struct PriceRangeFields {
    rows: usize,
    #[serde(rename = "low_nano_usd_per_gpu_hour", with = "scalar")]
    low: Rate,
    #[serde(rename = "high_nano_usd_per_gpu_hour", with = "scalar")]
    high: Rate,
    #[serde(default)]
    anywhere: bool,
}
record!(PriceRange, PriceRangeFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Activity", deny_unknown_fields)]
struct ActivityFields {
    #[serde(with = "QuietFields")]
    quiet: Quiet,
    stretches: u64,
    #[serde(rename = "longest_nanos", with = "scalar")]
    longest: Nanos,
    #[serde(rename = "in_stretches_nanos", with = "array")]
    in_stretches: [Nanos; STRETCHES.len()],
    #[serde(with = "QuietFields")]
    before_work: Quiet,
    #[serde(with = "QuietFields")]
    after_work: Quiet,
    #[serde(with = "PausesFields")]
    pauses: Pauses,
}
record!(Activity, ActivityFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Quiet", deny_unknown_fields)]
struct QuietFields {
    #[serde(rename = "time_nanos", with = "scalar")]
    time: Nanos,
    #[serde(rename = "held_nanos", with = "scalar")]
    held: Nanos,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Pauses", deny_unknown_fields)]
struct PausesFields {
    #[serde(with = "LengthsFields")]
    lengths: Lengths,
    #[serde(rename = "held_nanos", with = "scalar")]
    held: Nanos,
    after_unobserved: u64,
    #[serde(with = "LengthsFields")]
    periods: Lengths,
    #[serde(with = "MemoryInUseFields")]
    memory: MemoryInUse,
    #[serde(with = "MemoryInUseFields")]
    memory_at_work: MemoryInUse,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Lengths", deny_unknown_fields)]
struct LengthsFields {
    count: u64,
    #[serde(rename = "total_nanos", with = "scalar")]
    total: Nanos,
    logarithms: u64,
    squares: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MemoryInUse", deny_unknown_fields)]
struct MemoryInUseFields {
    kibibytes: u64,
    readings: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "WasteByCategory", deny_unknown_fields)]
struct WasteFields {
    #[serde(with = "scalar")]
    starvation: NanoUsd,
    #[serde(with = "scalar")]
    idle: NanoUsd,
    #[serde(with = "scalar")]
    underload: NanoUsd,
}
record!(WasteByCategory, WasteFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Pattern", deny_unknown_fields)]
struct PatternFields {
    #[serde(with = "KindName")]
    kind: PatternKind,
    #[serde(rename = "period_nanos", default, with = "optional")]
    period: Option<Nanos>,
    #[serde(rename = "duty_cycle_ppm", default)]
    duty_cycle: Option<u32>,
}
record!(Pattern, PatternFields);

#[derive(Serialize, Deserialize)]
#[serde(remote = "PatternKind", rename_all = "snake_case")]
enum KindName {
    Idle,
    Steady,
    Bouncing,
    Mixed,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Saving", deny_unknown_fields)]
struct SavingFields {
    #[serde(with = "scalar")]
    low: Fraction,
    #[serde(with = "scalar")]
    expected: Fraction,
    #[serde(with = "scalar")]
    high: Fraction,
}
record!(Saving, SavingFields);
