//! The core alone: one GPU's readings through the whole meter pipeline.

use std::hint::black_box;
use std::time::{Duration, Instant};

use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::Rate;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Milliwatts, Timestamp, Utilization};

use crate::BenchError;
use crate::log::{MEMORY_TOTAL, Row};

/// Readings generated per batch, outside the measured time.
const BATCH: u64 = 1_000;

/// Meters this many readings of the log's first GPU in whole batches and returns the time taken.
pub(crate) fn run(readings: u64) -> Result<Duration, BenchError> {
    let (rate, memory) = (Rate::new(3_000_000_000), Bytes::from_mebibytes(MEMORY_TOTAL));
    let mut meter = GpuMeter::new(MeterConfig::default(), rate, memory);
    let mut took = Duration::ZERO;
    for first in (0..readings / BATCH).map(|batch| batch * BATCH) {
        let batch: Vec<_> = (first..first + BATCH).map(reading).collect();
        let start = Instant::now();
        for reading in batch {
            meter.push(reading, &mut ()).map_err(|_| BenchError::RejectedReading)?;
        }
        took += start.elapsed();
    }
    let start = Instant::now();
    meter.finish(&mut ());
    black_box(meter.summary());
    Ok(took + start.elapsed())
}

fn reading(tick: u64) -> Reading {
    let row = Row::at(tick, 0);
    Reading {
        utilization: Utilization::from_percent(row.percent).ok_or(MissingReason::Unreadable),
        memory_used: Bytes::from_mebibytes(row.mebibytes),
        power: Milliwatts::new(row.centiwatts * 10),
        ..Reading::at(Timestamp::from_millis(row.millis).unwrap_or_default())
    }
}
