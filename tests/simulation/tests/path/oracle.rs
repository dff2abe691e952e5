//! What a meter has of the same readings if nothing fails: in order, without pipeline, encoding and delivery.

use std::collections::BTreeMap;

use phasemeter_meter::accounts::{Accounts, Charge};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig, Observer};
use phasemeter_meter::money::Rate;
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::{WallOffset, WallTime};

use crate::readings::memory_total;

/// Nanoseconds and nano-dollars of each account.
pub(crate) type Sums = [(i128, i128); Account::ALL.len()];

/// The states of one GPU of a run.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    sums: Sums,
    /// By the instant up to which they are.
    pub(crate) states: BTreeMap<u64, Sums>,
    /// Phase spans by the wall time of their starts.
    pub(crate) spans: BTreeMap<u64, ExpectedSpan>,
    wall: WallTime,
}

/// A phase span.
#[derive(Debug)]
pub(crate) struct ExpectedSpan {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The wall time of its end.
    pub(crate) end: u64,
    pub(crate) label: &'static str,
    pub(crate) sums: Sums,
}

/// The sums of accounts.
pub(crate) fn sums(accounts: &Accounts) -> Sums {
    Account::ALL.map(|account| {
        let balance = accounts[account];
        (i128::from(balance.time.0), balance.cost.0)
    })
}

impl Observer for Expected {
    fn charge(&mut self, charge: &Charge) {
        let place = Account::ALL.iter().position(|account| *account == charge.slice.account);
        let (time, cost) = &mut self.sums[place.unwrap()];
        *time += i128::from(charge.time.0);
        *cost += charge.cost.0;
        self.states.insert(charge.slice.to.as_nanos(), self.sums);
    }

    fn span(&mut self, span: &PhaseSpan) {
        let expected = ExpectedSpan {
            from: span.from.as_nanos(),
            to: span.to.as_nanos(),
            end: self.wall.end_label(span.to).as_nanos(),
            label: span.label.name(),
            sums: sums(&span.accounts),
        };
        self.spans.insert(self.wall.start_label(span.from).as_nanos(), expected);
    }
}

/// What happened to a GPU.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) config: MeterConfig,
    pub(crate) start: Timestamp,
    /// In USD per hour, from when on; the first one from the start.
    pub(crate) prices: Vec<(Timestamp, Rate)>,
    /// Those that were accepted.
    pub(crate) readings: Vec<Reading>,
    /// When the wall clock was set, and how far it was ahead from then on.
    pub(crate) clock_steps: Vec<(Timestamp, WallOffset)>,
    /// `None` if the last process was killed.
    pub(crate) end: Option<Timestamp>,
}

impl History {
    /// Meters it.
    pub(crate) fn meter(&self) -> Expected {
        let mut readings = self.readings.clone();
        readings.sort_by_key(|reading| reading.at);
        let mut prices = self.prices.iter();
        let first = prices.next().map(|(_, rate)| *rate);
        let mut prices = prices.peekable();
        let mut expected = Expected::default();
        // From a whole second on.
        let clock_steps: Vec<_> =
            self.clock_steps.iter().map(|(at, offset)| (at.ceil_second(), *offset)).collect();
        clock_steps.iter().for_each(|(at, offset)| expected.wall.step(*at, *offset));
        let mut clock_steps = clock_steps.into_iter().peekable();
        expected.states.insert(self.start.as_nanos(), Sums::default());
        let mut meter = GpuMeter::new(self.config, first, memory_total());
        meter.begin_at(self.start, &mut expected);
        for reading in readings {
            while let Some((at, rate)) = prices.next_if(|(at, _)| *at <= reading.at) {
                meter.change_rate(*at, *rate).unwrap();
            }
            while let Some((at, offset)) = clock_steps.next_if(|(at, _)| *at <= reading.at) {
                meter.step_wall_clock(at, offset);
            }
            meter.push(reading, &mut expected).unwrap();
        }
        clock_steps.for_each(|(at, offset)| meter.step_wall_clock(at, offset));
        for (at, rate) in prices {
            meter.change_rate(*at, *rate).unwrap();
        }
        if let Some(end) = self.end {
            meter.finish_at(end, &mut expected);
        }
        expected
    }
}
