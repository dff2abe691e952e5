//! Who pays for GPUs: a table of what each holder used, was granted and did not use, and never touched.
//!
//! Displayed amounts of a row sum to its cost, and costs to the bill.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::AllocationMethod;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;
use phasemeter_terminal::duration;
use phasemeter_terminal::page::{Page, SEPARATOR};
use phasemeter_terminal::table::Table;

use crate::holders::Holder;
use crate::model::{Gpu, Report};
use crate::value::{Seconds, Usd};

use super::amounts::Bill;
use super::format::Dollars;
use super::gpus::{which, which_in_column};

/// Maximum number of holders; the JSON report has all.
const HOLDERS: usize = 8;

/// Maximum columns of the GPUs of a holder.
const GPUS: usize = 16;

/// Time and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    time: Nanos,
    cost: NanoUsd,
}

/// A row of the table: what holders of one name have of all GPUs, or several together.
#[derive(Clone, Debug, Default)]
struct Row<'a> {
    name: String,
    /// IDs.
    gpus: BTreeSet<&'a str>,
    /// Used, granted and not used, never touched; none if it is nobody's.
    accounts: Option<[Amount; 3]>,
    /// Of holders that never touched their GPU at all.
    untouched: Amount,
    all: Amount,
    is_priced: bool,
}

impl<'a> Row<'a> {
    fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    fn add(&mut self, gpu: &'a Gpu, seconds: Seconds, cost: Option<Usd>) {
        self.gpus.insert(&gpu.id);
        self.is_priced |= cost.is_some();
        self.all += Amount::new((seconds, cost));
    }

    fn add_accounts(&mut self, accounts: [Amount; 3]) {
        let mine = self.accounts.get_or_insert_default();
        mine.iter_mut().zip(accounts).for_each(|(mine, more)| *mine += more);
    }

    /// Those that never touched a GPU first, then those that leave most of it unused.
    fn rank(&self) -> impl Ord + use<> {
        let [_, mut unused, never_touched] = self.accounts.unwrap_or_default();
        unused += never_touched;
        Reverse([self.untouched, unused, self.all].map(|it| (it.cost, it.time)))
    }
}

impl Amount {
    fn new((Seconds(time), cost): (Seconds, Option<Usd>)) -> Self {
        Self { time, cost: cost.map_or(NanoUsd::ZERO, |Usd(cost)| cost) }
    }
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, more: Self) {
        self.time += more.time;
        self.cost += more.cost;
    }
}

/// Writes the table, if any source names a holder.
pub(super) fn write(page: &mut Page, report: &Report, bill: Option<&Bill>) {
    let mut rows = holders(&report.gpus);
    if rows.is_empty() {
        return;
    }
    rows.sort_by_cached_key(Row::rank);
    let hidden = rows.split_off(HOLDERS.min(rows.len()));
    let others = [together(hidden), nobody(&report.gpus), without_holder(&report.gpus)];
    rows.extend(others.into_iter().filter(|row| row.all.time > Nanos::ZERO));
    page.end_line();
    let sum = if bill.is_some() { "cost" } else { "GPU time" };
    let mut table = Table::of_numbers(["Holder", "GPUs", "used", "not used", "never touched", sum]);
    let costs = bill.map(|bill| bill.total.split_all(rows.iter().map(|it| it.all.cost).collect()));
    let mut costs = costs.unwrap_or_default().into_iter();
    for row in &rows {
        let ids: Vec<String> = row.gpus.iter().map(|&id| id.to_owned()).collect();
        let gpus = which_in_column(&report.gpus, &ids, GPUS);
        let [used, unused, never_touched, all] = cells(row, costs.next());
        table.row([row.name.clone(), gpus, used, unused, never_touched, all]);
    }
    table.write(page, 0);
    page.fact("Divided", &methods(&report.gpus), SEPARATOR);
}

/// The accounts of a row, and their sum: in dollars, else in time.
fn cells(row: &Row<'_>, cost: Option<Dollars>) -> [String; 4] {
    let none = || [""; 3].map(str::to_owned);
    let (accounts, all) = match (cost, row.accounts) {
        (Some(_), _) if !row.is_priced => (none(), "no price".to_owned()),
        (Some(cost), Some(accounts)) => {
            let split = cost.split(accounts.map(|it| it.cost), &[]);
            (split.map(|part| part.to_string()), cost.to_string())
        }
        (Some(cost), None) => (none(), cost.to_string()),
        (None, accounts) => {
            let times = accounts.map(|all| all.map(|it| duration::duration(it.time)));
            (times.unwrap_or_else(none), duration::duration(row.all.time))
        }
    };
    let [used, unused, never_touched] = accounts;
    [used, unused, never_touched, all]
}

/// The holders of all GPUs, by name.
fn holders(gpus: &[Gpu]) -> Vec<Row<'_>> {
    let mut rows: BTreeMap<&str, Row<'_>> = BTreeMap::new();
    for gpu in gpus {
        for holder in &gpu.holders {
            let name = &*holder.name;
            let row = rows.entry(name).or_insert_with(|| Row::named(name));
            let accounts = accounts(holder);
            accounts.into_iter().for_each(|(seconds, cost)| row.add(gpu, seconds, cost));
            row.add_accounts(accounts.map(Amount::new));
            if holder.first_touch.is_none() {
                row.untouched += Amount::new(accounts[2]);
            }
        }
    }
    rows.into_values().collect()
}

/// Used, granted and not used, never touched.
const fn accounts(of: &Holder) -> [(Seconds, Option<Usd>); 3] {
    [
        (of.used_seconds, of.used_usd),
        (of.granted_unused_seconds, of.granted_unused_usd),
        (of.never_touched_seconds, of.never_touched_usd),
    ]
}

/// Those that are not listed.
fn together(rows: Vec<Row<'_>>) -> Row<'_> {
    let mut all = Row::named(format!("{} more in --format json", rows.len()));
    for row in rows {
        all.gpus.extend(row.gpus);
        all.all += row.all;
        all.is_priced |= row.is_priced;
        row.accounts.into_iter().for_each(|accounts| all.add_accounts(accounts));
    }
    all
}

/// What no holder has of the GPUs that have one.
fn nobody(gpus: &[Gpu]) -> Row<'_> {
    let mut row = Row::named("nobody");
    for (gpu, nobody) in gpus.iter().filter_map(|gpu| Some((gpu, gpu.nobody?))) {
        row.add(gpu, nobody.seconds, nobody.cost_usd);
        if nobody.seconds.0 < Nanos::SECOND {
            // Use is measured in parts that do not add up to all of it.
            row.gpus.remove(&*gpu.id);
        }
    }
    row
}

/// GPUs of which no source names a holder.
fn without_holder(gpus: &[Gpu]) -> Row<'_> {
    let mut row = Row::named("no known holder");
    for gpu in gpus.iter().filter(|gpu| gpu.nobody.is_none()) {
        row.add(gpu, gpu.span_seconds, gpu.cost_usd);
    }
    row
}

/// How GPUs of several holders were divided: `GPU 3 by what each was granted and used`.
fn methods(gpus: &[Gpu]) -> Vec<String> {
    let words = [
        (AllocationMethod::ByUse, "by what each was granted and used"),
        (AllocationMethod::ByGrant, "by what each was granted, since what each used is unknown"),
        (AllocationMethod::Equal, "equally, and use too, since neither grants nor uses are known"),
    ];
    let divided = words.into_iter().filter_map(|(method, words)| {
        let is_divided = |gpu: &&Gpu| gpu.holders.iter().any(|it| it.method == method.name());
        let ids: Vec<String> = gpus.iter().filter(is_divided).map(|gpu| gpu.id.clone()).collect();
        (!ids.is_empty()).then(|| format!("{} {words}", which(gpus, &ids)))
    });
    divided.collect()
}
