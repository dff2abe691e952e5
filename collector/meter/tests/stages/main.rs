//! Each stage of the pipeline alone, at its limits.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod allocations;
mod gpu;
mod patterns;
mod reorder;
mod spans;
mod staleness;
mod timeline;
mod waste;

use phasemeter_meter::accounts::{Accounts, Charge};
use phasemeter_meter::accrual::UtilizedCost;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig, Observer};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::pattern::{CycleChange, CycleDetector, Pattern, PatternKind, Snapshot};
use phasemeter_meter::phase::{Account, Phase, Thresholds};
use phasemeter_meter::reading::{Basis, Interval, Reading};
use phasemeter_meter::reorder::{CAPACITY, ReorderBuffer};
use phasemeter_meter::series::Recorded;
use phasemeter_meter::span::{PhaseSpan, SpanBuilder, SpanLabel};
use phasemeter_meter::staleness::{READINGS_NEEDED, StaleAfter, estimate};
use phasemeter_meter::timeline::{TimeSlice, Timeline};
use phasemeter_meter::units::{Bytes, Nanos, Timestamp, Utilization};
use phasemeter_meter::utilization_feed::UtilizationFeed;
use phasemeter_meter::waste::{WasteByCategory, WasteClassifier};
use proptest::prelude::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn percent(percent: u32) -> Utilization {
    Utilization::from_percent(percent).unwrap()
}

fn slice(from: u64, to: u64, account: Account) -> TimeSlice {
    let quiet = account.phase() == Some(Phase::Idle);
    TimeSlice { from: at(from), to: at(to), account, weighted: 0, quiet }
}

/// Whole seconds in one account, at a nano-dollar per second.
fn charge(from: u64, to: u64, account: Account) -> Charge {
    let cost = NanoUsd(i128::from(to - from));
    let slice = slice(from * 1_000, to * 1_000, account);
    Charge::of(slice, cost, UtilizedCost::ZERO)
}
