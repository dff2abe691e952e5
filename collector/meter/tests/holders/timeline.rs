//! Generated timelines of a GPU and its holders, and a meter of them.

use std::collections::BTreeMap;

use phasemeter_meter::accounts::{Accounts, Charge, ChargeShare};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig, Observer};
use phasemeter_meter::holder::{Grant, Holder, HolderAccount, HolderChange, HolderUse, Share};
use phasemeter_meter::money::Rate;
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};
use phasemeter_oracle::holders::{Granted, World};
use proptest::prelude::*;

const START: u64 = 1_785_110_400_000_000_000;
const TICK: u64 = 50_000_000;
pub(crate) const HOLDERS: usize = 5;
const STALE_AFTER: u64 = 20;
pub(crate) const LATENESS: u64 = 40;

/// An instant, in ticks.
pub(crate) fn at(ticks: u64) -> Timestamp {
    Timestamp::from_nanos(START + ticks * TICK).unwrap()
}

pub(crate) fn holder(number: usize) -> Holder {
    Holder::Named(format!("holder {number}"))
}

fn utilization(ppm: u64) -> Utilization {
    Utilization::from_ppm(u32::try_from(ppm).unwrap()).unwrap()
}

pub(crate) fn assigned(from: u64, grants: &[Granted]) -> HolderChange {
    let grant = |(number, share): &Granted| Grant {
        holder: holder(*number),
        share: share.map(|(parts, of)| Share::new(parts, of).unwrap()),
    };
    HolderChange::Assigned { at: at(from), grants: grants.iter().map(grant).collect() }
}

pub(crate) fn used(number: usize, from: u64, to: u64, ppm: u64) -> HolderChange {
    let utilization = utilization(ppm);
    HolderChange::Used(HolderUse {
        holder: holder(number),
        from: at(from),
        to: at(to),
        utilization,
        own: Some(utilization),
    })
}

/// A GPU and its holders, in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// Ticks since the reading before, and ppm if readable.
    pub(crate) readings: Vec<(u64, Option<u64>)>,
    pub(crate) assignments: Vec<(u64, Vec<Granted>)>,
    /// Holder, start, length, ppm.
    pub(crate) uses: Vec<(usize, u64, u64, u64)>,
    pub(crate) touches: Vec<(usize, u64)>,
    pub(crate) rates: (Rate, Vec<(u64, Rate)>),
    /// The end of the run after the last reading.
    pub(crate) end: u64,
}

impl Timeline {
    /// The times of readings.
    pub(crate) fn times(&self) -> Vec<u64> {
        let steps = self.readings.iter().map(|(step, _)| step);
        steps.scan(0, |at, step| Some(std::mem::replace(at, *at + step))).collect()
    }

    /// What is found out about holders, each with its time.
    pub(crate) fn changes(&self) -> Vec<(u64, HolderChange)> {
        let assigned = |(at, grants): &(u64, Vec<_>)| (*at, assigned(*at, grants));
        let used = |(number, from, length, ppm): &(usize, u64, u64, u64)| {
            (*from, used(*number, *from, from + length, *ppm))
        };
        let touched = |(number, from): &(usize, u64)| {
            (*from, HolderChange::Touched { at: at(*from), holder: holder(*number) })
        };
        let assignments = self.assignments.iter().map(assigned);
        assignments
            .chain(self.uses.iter().map(used))
            .chain(self.touches.iter().map(touched))
            .collect()
    }

    pub(crate) fn world(&self) -> World {
        let nanos = |ticks: &u64| START + ticks * TICK;
        let times = self.times();
        let end = times.last().map(|last| last + self.end);
        let ends = times.iter().skip(1).copied().chain(end);
        let covered =
            times.iter().zip(ends).zip(&self.readings).filter_map(|((from, to), (_, ppm))| {
                Some((nanos(from), nanos(&to.min(from + STALE_AFTER)), (*ppm)?))
            });
        let (first, later) = &self.rates;
        let rates = [(0, *first)]
            .iter()
            .chain(later)
            .map(|(at, rate)| (nanos(at), *rate))
            .collect::<Vec<_>>();
        World {
            assignments: self.assignments.iter().map(|(at, it)| (nanos(at), it.clone())).collect(),
            uses: self
                .uses
                .iter()
                .map(|(it, at, length, ppm)| (*it, nanos(at), nanos(&(at + length)), *ppm))
                .collect(),
            touches: self.touches.iter().map(|(it, at)| (*it, nanos(at))).collect(),
            readings: covered.collect(),
            rates: rates.iter().map(|(at, rate)| (*at, rate.nano_usd_per_hour())).collect(),
            idle: 100_000,
            tick: TICK,
        }
    }
}

#[derive(Default)]
pub(crate) struct Slices {
    pub(crate) charges: Vec<Charge>,
    /// What each holder has of all charges by their shares, and nobody.
    pub(crate) shares: BTreeMap<Option<Holder>, (u64, u128, i128)>,
    pub(crate) boundaries: usize,
    /// The sum of all spans.
    pub(crate) spans: Accounts,
}

impl Observer for Slices {
    fn charge(&mut self, charge: &Charge) {
        self.charges.push(*charge);
    }

    fn shares(&mut self, shares: &[ChargeShare]) {
        let charge = self.charges.last().unwrap();
        let cost: i128 = shares.iter().map(|share| share.cost.0).sum();
        assert_eq!(cost, charge.cost.0, "shares sum to their charge");
        for ChargeShare { holder, from, to, time, weighted, cost } in shares {
            assert!(charge.slice.from <= *from && from < to && *to <= charge.slice.to);
            assert!(cost.0 >= 0 && *time <= to.since(*from));
            let all = self.shares.entry(holder.as_deref().cloned()).or_default();
            *all = (all.0 + time.0, all.1 + weighted, all.2 + cost.0);
        }
    }

    fn span(&mut self, span: &PhaseSpan) {
        self.spans += &span.accounts;
    }

    fn boundary(&mut self, _at: Timestamp, gpu: &GpuMeter) {
        assert_tiles(gpu);
        self.boundaries += 1;
    }
}

/// All accounts by holder and nobody's are those of the GPU, also where nobody was ever named.
pub(crate) fn assert_tiles(gpu: &GpuMeter) {
    let holders = gpu.holders();
    if holders.is_empty() {
        return;
    }
    for account in Account::ALL {
        let mut sum = holders.nobody(account);
        for (_, accounts) in holders.iter().chain(holders.earlier().map(|it| (HIDDEN, it.accounts)))
        {
            HolderAccount::ALL.into_iter().for_each(|of| sum += accounts.balance(of, account));
        }
        assert_eq!(sum, gpu.accounts()[account], "{account:?}");
    }
}

static HIDDEN: &Holder = &Holder::Named(String::new());

pub(crate) fn config() -> MeterConfig {
    MeterConfig {
        stale_after: StaleAfter::Fixed(Nanos(STALE_AFTER * TICK)),
        allowed_lateness: Nanos(LATENESS * TICK),
        boundary_every: Nanos::from_secs(7),
        ..MeterConfig::default()
    }
}

pub(crate) fn reading(ticks: u64, ppm: Option<u64>) -> Reading {
    let utilization = ppm.map(utilization).ok_or(MissingReason::Unreadable);
    Reading { utilization, ..Reading::at(at(ticks)) }
}

/// Meters a timeline. `late`: by how much each change trails its time, in ticks; nothing: all come first.
pub(crate) fn meter(timeline: &Timeline, late: &[u64]) -> (GpuMeter, Slices) {
    meter_with(config(), timeline, late)
}

pub(crate) fn meter_with(
    config: MeterConfig,
    timeline: &Timeline,
    late: &[u64],
) -> (GpuMeter, Slices) {
    let mut meter = GpuMeter::new(config, Some(timeline.rates.0), None);
    let mut slices = Slices::default();
    let mut changes: Vec<(u64, HolderChange)> = timeline.changes();
    let arrivals = changes.iter_mut().zip(late.iter().cycle());
    arrivals.for_each(|((at, _), late)| *at += late.min(&LATENESS));
    if late.is_empty() {
        changes.drain(..).for_each(|(_, change)| meter.change_holders(change));
    }
    changes.sort_by_key(|(arrival, _)| *arrival);
    let mut changes = changes.into_iter().peekable();
    for (index, (time, (_, ppm))) in timeline.times().iter().zip(&timeline.readings).enumerate() {
        while let Some((_, change)) = changes.next_if(|(arrival, _)| arrival < time) {
            meter.change_holders(change);
        }
        meter.push(reading(*time, *ppm), &mut slices).unwrap();
        if index == 0 {
            for (at_ticks, rate) in &timeline.rates.1 {
                meter.change_rate(at(*at_ticks), *rate).unwrap();
            }
        }
    }
    changes.for_each(|(_, change)| meter.change_holders(change));
    match timeline.times().last() {
        Some(last) if timeline.end > 0 => meter.finish_at(at(last + timeline.end), &mut slices),
        _ => meter.finish(&mut slices),
    }
    (meter, slices)
}

fn any_share() -> impl Strategy<Value = Option<(u32, u32)>> {
    prop_oneof![
        3 => Just(Some((1, 1))),
        3 => Just(Some((1, 4))),
        2 => (1_u32..4).prop_map(|parts| Some((parts, 7))),
        1 => (0_u32..=48).prop_map(|parts| Some((parts, 48))),
        2 => Just(None),
    ]
}

fn at_distinct_times<T>(mut all: Vec<(u64, T)>) -> Vec<(u64, T)> {
    all.sort_by_key(|(at, _)| *at);
    all.dedup_by_key(|(at, _)| *at);
    all
}

pub(crate) fn any_timeline() -> impl Strategy<Value = Timeline> {
    let ppm = || prop_oneof![Just(0), Just(1_000_000), 0_u64..=1_000_000];
    let readings = prop::collection::vec((1_u64..30, prop::option::weighted(0.9, ppm())), 2..60);
    let grants = prop::collection::vec((0..HOLDERS, any_share()), 0..4);
    let assignments = prop::collection::vec((0_u64..600, grants), 0..6);
    // Of two at one instant the last to arrive counts: order would change something.
    let assignments = assignments.prop_map(at_distinct_times);
    let uses = prop::collection::vec((0..HOLDERS, 0_u64..600, 1_u64..200, ppm()), 0..12);
    let touches = prop::collection::vec((0..HOLDERS, 0_u64..600), 0..3);
    let rate = || (0_u64..=20_000_000_000).prop_map(|rate| Rate::new(rate).unwrap());
    let rates = (rate(), prop::collection::vec((0_u64..600, rate()), 0..3))
        .prop_map(|(first, later)| (first, at_distinct_times(later)));
    let end = prop_oneof![Just(0_u64), 0_u64..60];
    (readings, assignments, uses, touches, rates, end).prop_map(
        |(readings, assignments, uses, touches, rates, end)| Timeline {
            readings,
            assignments,
            uses,
            touches,
            rates,
            end,
        },
    )
}

/// What a timeline has named is never more than these.
pub(crate) fn rows(gpu: &GpuMeter) -> Vec<(Holder, String)> {
    let row = |(holder, accounts): (&Holder, _)| (holder.clone(), format!("{accounts:?}"));
    let nobody = Account::ALL.map(|account| format!("{:?}", gpu.holders().nobody(account)));
    gpu.holders().iter().map(row).chain([(HIDDEN.clone(), nobody.concat())]).collect()
}
