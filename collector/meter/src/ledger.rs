//! The ledger of one GPU: charges time slices and posts them to accounts, waste categories, spans, activity
//! and holders.

use crate::accounts::{Accounts, Charge};
use crate::accrual::{Accrual, Cost, UtilizedCost};
use crate::activity::ActivityMeter;
use crate::config::MeterConfig;
use crate::holders::Holders;
use crate::money::{NanoUsd, Rate};
use crate::periods::Periods;
use crate::phase::Account;
use crate::span::{PhaseSpan, SpanBuilder};
use crate::timeline::TimeSlice;
use crate::units::Timestamp;
use crate::waste::WasteClassifier;

/// The ledger of one GPU.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) accrual: Option<Accrual>,
    pub(crate) accounts: Accounts,
    pub(crate) periods: Periods,
    pub(crate) waste: WasteClassifier,
    pub(crate) spans: SpanBuilder,
    pub(crate) activity: ActivityMeter,
    pub(crate) holders: Holders,
    /// Whether spans and those that charges are passed to have what holders pay only.
    charges_holders: bool,
}

impl Ledger {
    /// An empty ledger. `rate` is the GPU's price; `None` if it is unpriced.
    pub(crate) fn new(rate: Option<Rate>, config: &MeterConfig) -> Self {
        Self {
            accrual: rate.map(|rate| Accrual::new(Timestamp::EPOCH, rate)),
            accounts: Accounts::default(),
            periods: Periods::default(),
            waste: WasteClassifier::default(),
            spans: SpanBuilder::new(config.min_span),
            activity: ActivityMeter::new(config.utc_offset),
            holders: Holders::default(),
            charges_holders: config.charges_holders,
        }
    }

    /// Prices all time since `start`, as if this had always been the rate.
    pub(crate) fn price_from(&mut self, start: Timestamp, rate: Rate) {
        let mut accrual = Accrual::new(start, rate);
        accrual.charge(start + self.accounts.all().time);
        self.accrual = Some(accrual);
        self.periods.price(rate, &mut self.accounts);
        self.waste.price(rate);
        self.spans.price(start, rate);
        self.holders.price(rate, &self.accounts);
    }

    /// Charges the next time slice, posts the charge, and returns it, or what holders have of it. `emit` receives the
    /// spans that end with it.
    pub(crate) fn post(&mut self, slice: TimeSlice, emit: &mut impl FnMut(&PhaseSpan)) -> Charge {
        self.activity.post(&slice);
        let charge = if self.holders.is_empty() {
            self.charge_to_accounts(slice)
        } else {
            self.charge_by_holder(slice)
        };
        self.waste.post(&charge);
        let charge = if self.charges_only_holders() {
            self.holders.remove_nobodys_shares();
            charge.shared(self.holders.shares().iter())
        } else {
            charge
        };
        self.spans.post(&charge, emit);
        charge
    }

    /// What has been charged of all cost so far: all, or what holders pay.
    pub(crate) fn charged(&self) -> NanoUsd {
        let all = self.accounts.all().cost;
        if !self.charges_only_holders() {
            return all;
        }
        all - Account::ALL.into_iter().map(|account| self.holders.nobody(account).cost).sum()
    }

    const fn charges_only_holders(&self) -> bool {
        self.charges_holders && !self.holders.is_empty()
    }

    /// The first instant after `at` at which a slice must end: a change of the rate, or of holders.
    #[inline]
    pub(crate) fn next_cut(&self, at: Timestamp) -> Option<Timestamp> {
        let rate = self.accrual.as_ref().and_then(|accrual| accrual.next_change(at));
        if self.holders.is_empty() {
            return rate;
        }
        [rate, self.holders.next_change(at)].into_iter().flatten().min()
    }

    /// Charges a time slice, and divides each part of it, at one rate, among the holders of that time.
    #[cold]
    fn charge_by_holder(&mut self, slice: TimeSlice) -> Charge {
        let mut charge = Charge::of(slice, NanoUsd::ZERO, UtilizedCost::ZERO);
        let mut rest = slice;
        self.holders.begin_charge();
        while rest.from < rest.to {
            let change = self.next_cut(rest.from);
            let part;
            (part, rest) = rest.split_at(change.unwrap_or(rest.to));
            let part = self.charge_to_accounts(part);
            self.holders.post(&part);
            charge.cost += part.cost;
            charge.utilized += part.utilized;
        }
        charge
    }

    fn charge_to_accounts(&mut self, slice: TimeSlice) -> Charge {
        if slice.to <= self.periods.end() {
            self.charge(slice)
        } else {
            self.charge_by_period(slice)
        }
    }

    /// Charges a time slice that ends after the period in progress.
    #[cold]
    fn charge_by_period(&mut self, slice: TimeSlice) -> Charge {
        self.periods.reserve(slice.from, slice.to);
        let mut charge = Charge::of(slice, NanoUsd::ZERO, UtilizedCost::ZERO);
        let mut rest = slice;
        while rest.from < rest.to {
            let end = self.periods.begin(rest.from, &self.accounts);
            let part;
            (part, rest) = rest.split_at(end);
            let part = self.charge(part);
            charge.cost += part.cost;
            charge.utilized += part.utilized;
        }
        charge
    }

    /// Charges time of one period to its account.
    fn charge(&mut self, slice: TimeSlice) -> Charge {
        let charge = match &mut self.accrual {
            Some(accrual) => {
                let Cost { cost, rate } = accrual.charge(slice.to);
                Charge::of(slice, cost, UtilizedCost::of(slice.weighted, rate))
            }
            None => Charge::of(slice, NanoUsd::ZERO, UtilizedCost::ZERO),
        };
        self.accounts.post(&charge);
        charge
    }
}
