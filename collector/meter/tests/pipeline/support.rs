//! Readings of generated rows, a meter of them, and what its observer receives.

use phasemeter_meter::accounts::Accounts;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig, Observer};
use phasemeter_meter::money::Rate;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::{Bytes, Nanos, Timestamp, Utilization};
use proptest::prelude::*;

use phasemeter_oracle::Row;

pub(crate) const START: u64 = 1_785_110_400_000;

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

pub(crate) fn total() -> Option<Bytes> {
    Bytes::from_mebibytes(1_000)
}

pub(crate) fn reading(row: &Row) -> Reading {
    let utilization = row.ppm.map(|ppm| u32::try_from(ppm).unwrap());
    Reading {
        utilization: utilization.and_then(Utilization::from_ppm).ok_or(MissingReason::Unreadable),
        memory_used: row.held.and_then(|held| Bytes::from_mebibytes(if held { 11 } else { 10 })),
        ..Reading::at(at(row.at))
    }
}

/// What an observer receives.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) readings: usize,
    pub(crate) spans: Vec<PhaseSpan>,
    pub(crate) boundaries: Vec<(Timestamp, Accounts)>,
    /// Session ends, and the number of spans emitted by then.
    pub(crate) sessions: Vec<(Timestamp, usize)>,
}

impl Observer for Received {
    fn reading(&mut self, _reading: &Reading) {
        self.readings += 1;
    }

    fn span(&mut self, span: &PhaseSpan) {
        self.spans.push(*span);
    }

    fn boundary(&mut self, at: Timestamp, gpu: &GpuMeter) {
        self.boundaries.push((at, gpu.summary().accounts));
    }

    fn session(&mut self, at: Timestamp) {
        assert_eq!(
            self.boundaries.last().map(|(boundary, _)| *boundary),
            Some(at),
            "the boundary comes first"
        );
        self.sessions.push((at, self.spans.len()));
    }
}

pub(crate) fn meter(rows: &[Row], rate: Rate) -> (GpuMeter, Received) {
    let boundary_every = Nanos::from_secs(10);
    meter_with(MeterConfig { boundary_every, ..MeterConfig::default() }, rows, rate)
}

pub(crate) fn meter_with(config: MeterConfig, rows: &[Row], rate: Rate) -> (GpuMeter, Received) {
    let mut meter = GpuMeter::new(config, Some(rate), total());
    let mut received = Received::default();
    for row in rows {
        meter.push(reading(row), &mut received).unwrap();
    }
    meter.finish(&mut received);
    (meter, received)
}

pub(crate) fn millis(at: Timestamp) -> u64 {
    at.as_nanos() / 1_000_000
}

/// Spans in the oracle's format.
pub(crate) fn labeled(spans: &[PhaseSpan]) -> Vec<(&'static str, u64, u64)> {
    spans.iter().map(|span| (span.label.name(), millis(span.from), millis(span.to))).collect()
}

pub(crate) fn sum(spans: &[PhaseSpan]) -> Accounts {
    let mut sum = Accounts::default();
    spans.iter().for_each(|span| sum += &span.accounts);
    sum
}

/// Reading intervals from 5 ms to 20 s, gaps, constant and jumping values, missing values.
pub(crate) fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let step = prop_oneof![
        8 => 5_u64..200, 4 => Just(100_u64), 2 => 200_u64..3_000, 1 => 3_000_u64..20_000, 1 => Just(0_u64)
    ];
    let ppm = prop_oneof![
        4 => prop_oneof![Just(0_u64), Just(1_000_000), Just(100_000), Just(700_000), Just(900_000)].prop_map(Some),
        3 => (0_u64..=100).prop_map(|percent| Some(percent * 10_000)),
        1 => Just(None),
    ];
    let held = prop_oneof![3 => Just(None), 1 => Just(Some(true)), 1 => Just(Some(false))];
    prop::collection::vec((step, ppm, held, 1_usize..12), 1..60).prop_map(|stretches| {
        let mut at = START + 123;
        let mut rows = Vec::new();
        for (step, ppm, held, count) in stretches {
            for _ in 0..count {
                rows.push(Row { at, ppm, held });
                at += step;
            }
        }
        rows
    })
}

pub(crate) fn any_rate() -> impl Strategy<Value = Rate> {
    prop_oneof![0_u64..10_000_000_000, 0_u64..=Rate::MAX]
        .prop_map(|nanos| Rate::new(nanos).unwrap())
}
