//! The bill: totals of reports by group, with idle time of GPUs without an owner spread over all.
//!
//! Idle time of a GPU with an owner is the owner's. That of a GPU without one is spread by effective
//! time, or is an account of its own; working time without an owner is untagged, and unobserved time
//! an account. Rows sum to the reports, to the nano-dollar. Memory grows with groups and sessions,
//! not with reports.

use std::collections::BTreeMap;

use phasemeter_meter::apportion::apportion;
use phasemeter_meter::date::Date;
use phasemeter_meter::instant::Instant;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};

use crate::dimension::Dimension;
use crate::error::BillError;
use crate::gpu_names::GpuNames;
use crate::read::Digest;
use crate::report::{Gpu, Report};
use crate::sessions::{Sessions, gpu_digest};
use crate::totals::{Split, Totals};

/// Attributes that identify the host of a GPU without a UUID.
const HOST: [&str; 2] = ["host.id", "host.name"];

/// Maximum number of notes of one kind.
const MAX_NOTES: usize = 10;

/// What becomes of idle time of GPUs without an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdlePolicy {
    /// It is spread over all groups by their effective time.
    #[default]
    Spread,
    /// It is an account.
    Separate,
}

/// Who pays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Payer {
    /// A group: a value per dimension, `None` if it is unknown.
    Group(Vec<Option<String>>),
    /// The account of idle time without an owner.
    Idle,
    /// The account of unobserved time without an owner.
    Unobserved,
}

/// One row of a bill.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Who pays.
    pub payer: Payer,
    /// What was metered.
    pub metered: Totals,
    /// The share in idle cost without an owner; negative for what is spread.
    pub idle_share: NanoUsd,
}

impl Row {
    /// What is paid.
    #[must_use]
    pub fn total(&self) -> NanoUsd {
        self.metered.cost + self.idle_share
    }

    /// The same; `None` if none of its time has a price, and it has no share in idle cost either.
    #[must_use]
    pub fn amount(&self) -> Option<NanoUsd> {
        let is_unknown = self.metered.has_no_price() && self.idle_share == NanoUsd::ZERO;
        (!is_unknown).then(|| self.total())
    }
}

/// A bill.
#[derive(Clone, Debug, PartialEq)]
pub struct Bill {
    /// What it is split by.
    pub by: Vec<Dimension>,
    /// What GPUs are called in text.
    pub gpu_names: GpuNames,
    /// Its rows: groups by total, largest first, then accounts.
    pub rows: Vec<Row>,
    /// All reports together.
    pub sum: Totals,
    /// Number of reports.
    pub reports: usize,
    /// Number of GPUs in reports; one that is in several counts several times.
    pub sessions: usize,
    /// The first and the last instant.
    pub span: Option<(Timestamp, Timestamp)>,
    /// What to know about the bill, one sentence each without its full stop.
    pub notes: Vec<String>,
}

/// Adds up reports.
#[derive(Debug)]
pub struct Biller {
    by: Vec<Dimension>,
    idle: IdlePolicy,
    groups: BTreeMap<Payer, Totals>,
    gpu_names: GpuNames,
    sessions: Sessions,
    /// Index of the next report.
    next: usize,
    reports: usize,
    gpus: usize,
    span: Option<(Timestamp, Timestamp)>,
    notes: Notes,
}

/// Notes on the reports.
#[derive(Debug, Default)]
struct Notes {
    identical: NoteList,
    conflicting: NoteList,
    skipped: NoteList,
    unpriced: NoteList,
    estimated: NoteList,
    unidentified: usize,
    long_periods: usize,
}

/// The first notes of one kind, and their number.
#[derive(Debug, Default)]
struct NoteList {
    first: Vec<String>,
    total: usize,
}

impl Biller {
    /// A bill without reports.
    #[must_use]
    pub fn new(by: Vec<Dimension>, idle: IdlePolicy) -> Self {
        Self {
            by,
            idle,
            groups: BTreeMap::new(),
            gpu_names: GpuNames::default(),
            sessions: Sessions::default(),
            next: 0,
            reports: 0,
            gpus: 0,
            span: None,
            notes: Notes::default(),
        }
    }

    /// Skips the next report, which is rejected for this reason.
    pub fn skip(&mut self, reason: &str) {
        self.next += 1;
        self.notes.skipped.push(format!("skipped: {reason}"));
    }

    /// Adds the next report. Returns false, and adds nothing, if it was added before.
    pub fn add(&mut self, file: &str, report: &Report, digest: Digest) -> bool {
        let index = self.next;
        self.next += 1;
        if !self.sessions.add_report(digest) {
            let note = format!("{file} is identical to another report and counts once");
            self.notes.identical.push(note);
            return false;
        }
        self.reports += 1;
        self.note_conflicts(file, report);
        self.note_prices(file, report);
        for gpu in &report.gpus {
            self.add_gpu(report, gpu, index);
        }
        true
    }

    fn add_gpu(&mut self, report: &Report, gpu: &Gpu, index: usize) {
        let (Some(first), Some(last)) = (gpu.periods.first(), gpu.periods.last()) else { return };
        let (from, to) = (first.start, last.end);
        self.gpus += 1;
        self.span = Some(self.span.map_or((from, to), |span| (span.0.min(from), span.1.max(to))));
        match identity(report, gpu) {
            Some(gpu) => self.sessions.add(gpu, from, to, index),
            None => self.notes.unidentified += 1,
        }
        let is_priced = gpu.cost_usd.is_some();
        let by = std::mem::take(&mut self.by);
        let by_day = by.contains(&Dimension::Day);
        let key = |at| by.iter().map(|it| it.value(report, gpu, at)).collect::<Vec<_>>();
        let of_gpu = key(from);
        if let Some(index) = by.iter().position(|it| *it == Dimension::Gpu)
            && let Some(Some(id)) = of_gpu.get(index)
        {
            self.gpu_names.add(id, gpu);
        }
        let owners = || by.iter().zip(&of_gpu).filter(|(it, _)| it.is_owner());
        let has_no_owner = owners().count() > 0 && owners().all(|(_, value)| value.is_none());
        for period in &gpu.periods {
            let group = if by_day { key(period.start) } else { of_gpu.clone() };
            let group = Payer::Group(group);
            let last = period.end.saturating_sub(Nanos(1)).max(period.start);
            if by_day && Date::of(period.start) != Date::of(last) {
                self.notes.long_periods += 1;
            }
            if has_no_owner {
                let Split { working, idle, unobserved } = Totals::split(period, is_priced);
                self.post(group, &working.priced_as(gpu));
                self.post(Payer::Idle, &idle.priced_as(gpu));
                self.post(Payer::Unobserved, &unobserved.priced_as(gpu));
            } else {
                self.post(group, &Totals::of(period, is_priced).priced_as(gpu));
            }
        }
        self.by = by;
    }

    fn post(&mut self, payer: Payer, totals: &Totals) {
        if *totals != Totals::default() {
            *self.groups.entry(payer).or_default() += totals;
        }
    }

    fn note_conflicts(&mut self, file: &str, report: &Report) {
        for dimension in &self.by {
            if let Some([(name, value), (other, different)]) =
                dimension.conflict(&report.experiment)
            {
                self.notes.conflicting.push(format!(
                    "{file}: {name} is {value:?} and {other} is {different:?}; the first counts"
                ));
            }
        }
    }

    /// Names a report in which prices are missing or estimates.
    fn note_prices(&mut self, file: &str, report: &Report) {
        let all = report.gpus.len();
        let of_all = |count: usize| match (count, all) {
            (1, 1) => "its GPU".to_owned(),
            (count, all) if count == all => format!("all {all} GPUs"),
            (count, all) => format!("{count} of {all} GPUs"),
        };
        let has = |count: usize| if count == 1 { "has" } else { "have" };
        let unpriced = report.gpus.iter().filter(|gpu| gpu.cost_usd.is_none()).count();
        if unpriced > 0 {
            self.notes.unpriced.push(format!(
                "{file}: {} {} no price; set --price when the report is written",
                of_all(unpriced),
                has(unpriced)
            ));
        }
        let is_estimated = |gpu: &&Gpu| gpu.range_of(NanoUsd::ZERO).is_some();
        let estimated = report.gpus.iter().filter(is_estimated).count();
        if estimated > 0 {
            self.notes.estimated.push(format!(
                "{file}: the price of {} is an estimate; set --price or --provider when the report is written",
                of_all(estimated)
            ));
        }
    }

    /// The bill. `names` are those of the reports, in the order in which they were added.
    ///
    /// # Errors
    /// Returns an error if two reports bill the same time of a GPU, or there are none.
    pub fn finish<S: AsRef<str>>(self, names: &[S]) -> Result<Bill, BillError> {
        if self.reports == 0 {
            return Err(BillError::NoReports);
        }
        let name = |index: usize| names.get(index).map_or("?", AsRef::as_ref).to_owned();
        if let Some(overlap) = self.sessions.overlap() {
            let [first, second] = overlap.reports.map(name);
            let at = Instant(overlap.at).to_string();
            return Err(BillError::Overlap { first, second, at });
        }
        let mut sum = Totals::default();
        self.groups.values().for_each(|totals| sum += totals);
        let mut rows: Vec<Row> = self
            .groups
            .into_iter()
            .map(|(payer, metered)| Row { payer, metered, idle_share: NanoUsd::ZERO })
            .collect();
        let mut notes = self.notes.into_sentences();
        if self.idle == IdlePolicy::Spread {
            notes.extend(spread_idle(&mut rows));
        }
        rows.sort_by(|a, b| {
            let account = |row: &Row| !matches!(row.payer, Payer::Group(_));
            let order = |row: &Row| (account(row), std::cmp::Reverse(row.total()));
            order(a).cmp(&order(b)).then_with(|| a.payer.cmp(&b.payer))
        });
        if sum.unpriced > 0 {
            notes.push(format!("{:.3} GPU-hours have no price and no cost", sum.unpriced_hours()));
        }
        let (reports, sessions) = (self.reports, self.gpus);
        let mut gpu_names = self.gpu_names;
        gpu_names.settle();
        Ok(Bill { by: self.by, gpu_names, rows, sum, reports, sessions, span: self.span, notes })
    }
}

/// Spreads the idle account over groups by effective time. Returns a note if that is not possible.
fn spread_idle(rows: &mut [Row]) -> Option<String> {
    let idle = rows.iter().position(|row| row.payer == Payer::Idle)?;
    let amount = rows[idle].metered.cost;
    let is_group = |row: &Row| matches!(row.payer, Payer::Group(_));
    let weights: Vec<u128> =
        rows.iter().map(|row| if is_group(row) { row.metered.effective } else { 0 }).collect();
    let Some(shares) = apportion(amount.0.unsigned_abs(), &weights) else {
        return (amount > NanoUsd::ZERO).then(|| {
            "no group has effective time, so idle cost without an owner is an account".to_owned()
        });
    };
    for (row, share) in rows.iter_mut().zip(shares) {
        row.idle_share = NanoUsd(share.cast_signed());
    }
    rows[idle].idle_share = NanoUsd::ZERO - amount;
    None
}

/// The digest of what identifies a GPU: its UUID, else host and index.
fn identity(report: &Report, gpu: &Gpu) -> Option<u64> {
    if let Some(uuid) = &gpu.uuid {
        return Some(gpu_digest(&["uuid", uuid]));
    }
    let attributes = &report.experiment.attributes;
    let host = HOST.iter().find_map(|name| attributes.get(*name))?;
    Some(gpu_digest(&["host", host, &gpu.index?.to_string()]))
}

impl Notes {
    fn into_sentences(self) -> Vec<String> {
        let mut notes = Vec::new();
        for list in [self.skipped, self.identical, self.conflicting, self.unpriced, self.estimated]
        {
            let more = list.total - list.first.len();
            notes.extend(list.first);
            if more > 0 {
                notes.push(format!("and {more} more like the last"));
            }
        }
        if self.unidentified > 0 {
            notes.push(format!(
                "{} GPUs have neither a UUID nor a host and an index, so it is unchecked whether they \
                 are billed twice; log the column uuid",
                self.unidentified
            ));
        }
        if self.long_periods > 0 {
            notes.push(format!(
                "{} periods are longer than a day and count on their first one",
                self.long_periods
            ));
        }
        notes
    }
}

impl NoteList {
    fn push(&mut self, note: String) {
        self.total += 1;
        if self.first.len() < MAX_NOTES {
            self.first.push(note);
        }
    }
}
