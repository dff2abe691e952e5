//! The bill: totals of reports by group, with idle time of GPUs without an owner spread over all.
//!
//! A GPU that was divided among holders is divided here, too, if what the bill is split by tells them apart.
//! Idle time of a GPU with an owner is the owner's. That of a GPU without one is spread by effective
//! time, or is an account of its own; working time without an owner is untagged, and unobserved time
//! an account. Rows sum to the reports, to the nano-dollar. Memory grows with groups and sessions,
//! not with reports.

use std::collections::BTreeMap;

use phasemeter_meter::date::Date;
use phasemeter_meter::instant::Instant;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_savings::estimate::Estimate;

use crate::calendar::{by_day, by_month};
use crate::dimension::Dimension;
use crate::division::{Part, parts_of};
use crate::error::BillError;
use crate::gpu_names::GpuNames;
use crate::holder::Holder;
use crate::notes::Notes;
pub use crate::payer::{Payer, Row};
use crate::read::Digest;
use crate::report::{Gpu, Period, Report};
use crate::sessions::{Sessions, identity_digest};
pub use crate::spread::NobodysShare;
use crate::spread::{share_nobodys, spread_idle};
use crate::totals::{Split, Totals};

/// Attributes that identify the host of a GPU without a UUID.
const HOST: [&str; 2] = ["host.id", "host.name"];

/// What becomes of idle time of GPUs without an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdlePolicy {
    /// It is spread over all groups by their effective time.
    #[default]
    Spread,
    /// It is an account.
    Separate,
}

/// A bill.
#[derive(Clone, Debug, PartialEq)]
pub struct Bill {
    /// What it is split by.
    pub by: Vec<Dimension>,
    /// What became of the parts of divided GPUs that nobody had.
    pub share: NobodysShare,
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
    /// What trials have saved in its reports. It is in none of the sums.
    pub realized: Vec<Realized>,
    /// What to know about the bill, one sentence each without its full stop.
    pub notes: Vec<String>,
}

/// What a trial has saved in a report of a bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realized {
    /// The code of the recommendation that was followed.
    pub code: String,
    /// The report after it.
    pub report: String,
    /// Dollars: measured, with their interval.
    pub saved: Estimate<NanoUsd>,
}

/// Adds up reports.
#[derive(Debug)]
pub struct Biller {
    by: Vec<Dimension>,
    idle: IdlePolicy,
    share: NobodysShare,
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

impl Biller {
    /// A bill without reports.
    #[must_use]
    pub fn new(by: Vec<Dimension>, idle: IdlePolicy) -> Self {
        Self {
            by,
            idle,
            share: NobodysShare::default(),
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

    /// The same, in which what nobody had is shared so.
    #[must_use]
    pub fn sharing(self, share: NobodysShare) -> Self {
        Self { share, ..self }
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
        self.notes.conflicts(&self.by, file, report);
        self.notes.prices(file, report);
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
            Some(digest) => self.sessions.add((digest, holder_of_part(gpu)), (from, to), index),
            None => self.notes.unidentified += 1,
        }
        let by = std::mem::take(&mut self.by);
        if let Some(index) = by.iter().position(|it| *it == Dimension::Gpu)
            && let Some(id) = by.get(index).and_then(|it| it.value(report, gpu, None, from))
        {
            self.gpu_names.add(&id, gpu);
        }
        let parts = parts_of(gpu);
        if parts.iter().any(|part| is_told_apart(&by, report, gpu, part)) {
            parts.into_iter().for_each(|part| self.add_part(&by, report, gpu, part));
        } else {
            self.add_periods(&by, report, gpu, from);
        }
        self.by = by;
    }

    fn add_periods(&mut self, by: &[Dimension], report: &Report, gpu: &Gpu, from: Timestamp) {
        let is_priced = gpu.cost_usd.is_some();
        let [by_day, has_months] = [Dimension::Day, Dimension::Month].map(|it| by.contains(&it));
        let key = |at| by.iter().map(|it| it.value(report, gpu, None, at)).collect::<Vec<_>>();
        let of_gpu = key(from);
        let owners = || by.iter().zip(&of_gpu).filter(|(it, _)| it.is_owner());
        let has_no_owner = owners().count() > 0 && owners().all(|(_, value)| value.is_none());
        let mut add = |period: &Period| {
            let group = if by_day || has_months { key(period.start) } else { of_gpu.clone() };
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
        };
        for period in &gpu.periods {
            if has_months {
                let months = by_month(period.start, period.end).into_iter();
                months.for_each(|(from, to)| add(&period.part(from, to)));
            } else {
                add(period);
            }
        }
    }

    /// Adds what a holder had of a GPU, or what nobody had.
    fn add_part(&mut self, by: &[Dimension], report: &Report, gpu: &Gpu, part: Part<'_>) {
        let ranges = match part.holder {
            Some(_) if by.contains(&Dimension::Day) => by_day(part.from, part.to),
            Some(_) if by.contains(&Dimension::Month) => by_month(part.from, part.to),
            _ => vec![(part.from, part.to)],
        };
        self.notes.divided_parts += usize::from(ranges.len() > 1);
        for (from, to) in ranges {
            let payer = part.holder.map_or(Payer::Nobody, |holder| {
                let values = by.iter().map(|it| it.value(report, gpu, Some(holder), from));
                Payer::Group(values.collect())
            });
            if part.holder.is_some_and(Holder::is_several)
                && matches!(&payer, Payer::Group(values) if values.contains(&None))
            {
                self.notes.not_apart += part.between(from, to).cost;
            }
            let totals = Totals::of_part(&part.between(from, to), gpu.cost_usd.is_some());
            self.post(payer, &totals.priced_as(gpu));
        }
    }

    fn post(&mut self, payer: Payer, totals: &Totals) {
        if *totals != Totals::default() {
            *self.groups.entry(payer).or_default() += totals;
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
        notes.extend(share_nobodys(&mut rows, self.share));
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
        let (by, share, span) = (self.by, self.share, self.span);
        let realized = Vec::new();
        Ok(Bill { by, share, gpu_names, rows, sum, reports, sessions, span, realized, notes })
    }
}

/// Whether a bill has what a holder had in a row of its own.
fn is_told_apart(by: &[Dimension], report: &Report, gpu: &Gpu, part: &Part<'_>) -> bool {
    by.iter().any(|it| {
        let value = |holder| it.value(report, gpu, holder, part.from);
        it.is_of_holder() || value(part.holder) != value(None)
    })
}

/// The digest of what identifies a GPU: its UUID, else host and index.
fn identity(report: &Report, gpu: &Gpu) -> Option<u64> {
    if let Some(uuid) = &gpu.uuid {
        return Some(identity_digest(&["uuid", uuid]));
    }
    let attributes = &report.experiment.attributes;
    let host = HOST.iter().find_map(|name| attributes.get(*name))?;
    Some(identity_digest(&["host", host, &gpu.index?.to_string()]))
}

/// The digest of the pod or job whose part a report has of a GPU; `None` if it has all of the GPU, or what several
/// have of it.
fn holder_of_part(gpu: &Gpu) -> Option<u64> {
    let payer = |it: &Holder| match &it.pod {
        Some(pod) => [it.namespace.clone(), Some(pod.clone()), it.uid.clone()],
        None => [None, None, Some(it.name.clone())],
    };
    let first = gpu.holders.first().filter(|_| gpu.is_of_holders()).map(payer)?;
    let is_all = gpu.holders.iter().all(|it| payer(it) == first);
    is_all.then(|| identity_digest(&first.each_ref().map(|it| it.as_deref().unwrap_or_default())))
}
