//! Points of time, cost and waste by holder of a GPU: in place of those of the GPU, so that a sum over all points is
//! the bill.
//!
//! How a GPU is divided can change while a holder has it. What it was charged by each method is a series of its own,
//! so no series changes its attributes. For the same reason, a holder has the workload and queue that are known at its
//! first export.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use phasemeter_meter::accounts::Balance;
use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::holder::{AllocationMethod, Container, Holder, HolderAccount};
use phasemeter_meter::holder_details::{HolderDetails, Workload, workload_attribute};
use phasemeter_meter::holders::HolderAccounts;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::batch::Batch;
use super::context::GpuSnapshot;
use super::instruments as metrics;
use super::values::{Start, double, text};
use crate::names::attribute;

/// How often the final values of a holder that has ended are exported: one request may be lost.
const FINAL_EXPORTS: u8 = 2;

/// What is exported of an account in one phase.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    time: Nanos,
    cost: NanoUsd,
    waste: NanoUsd,
}

/// By account of the holder, then of the GPU.
type Table = [[Sums; Account::ALL.len()]; HolderAccount::ALL.len()];

/// What a holder was charged by one method.
#[derive(Clone, Debug)]
struct Division {
    method: AllocationMethod,
    sums: Box<Table>,
}

/// The series of one holder.
#[derive(Clone, Debug, Default)]
struct Series {
    /// In the order in which the methods were first used.
    divisions: Vec<Division>,
    /// The time of each method at the last export.
    methods: BTreeMap<AllocationMethod, Nanos>,
    /// Exports since it ended.
    final_exports: u8,
    /// Attributes of its workload and queue.
    details: Vec<(&'static str, String)>,
}

/// State between two exports.
#[derive(Clone, Debug, Default)]
pub(super) struct HolderPoints {
    holders: BTreeMap<Holder, Series>,
    /// What is exported as nobody's.
    nobody: [Sums; Account::ALL.len()],
}

impl HolderPoints {
    /// Adds the points of all holders, and of what is nobody's. `until`: the time of the export; `applies`: whether an
    /// account of the GPU is exported from the first export on.
    pub(super) fn add_points(
        &mut self,
        export: &GpuSnapshot,
        until: Timestamp,
        applies: impl Fn(Account) -> bool,
        batch: &mut Batch,
    ) {
        let holders = export.meter.holders();
        for account in Account::ALL {
            let balance = nobody(export.meter, account);
            let sums = &mut self.nobody[account as usize];
            sums.raise(&balance);
            if applies(account) || sums.time > Nanos::ZERO {
                let attributes = attributes(export, &Labels::default(), "nobody", "", account);
                add(export, export.start(), &attributes, account, *sums, batch);
            }
        }
        for (holder, accounts) in holders.iter() {
            let series = match self.holders.get_mut(holder) {
                Some(series) => series,
                None => {
                    let details = holders.details(holder).map(attributes_of).unwrap_or_default();
                    let series = Series { details, ..Series::default() };
                    self.holders.entry(holder.clone()).or_insert(series)
                }
            };
            series.update(accounts);
            let has_ended = accounts.to().is_some_and(|end| end <= until);
            if has_ended && series.final_exports >= FINAL_EXPORTS {
                continue;
            }
            series.final_exports = if has_ended { series.final_exports + 1 } else { 0 };
            series.add_points(export, holder, accounts.from(), batch);
        }
        if self.holders.len() > holders.iter().count() {
            self.holders.retain(|holder, _| holders.get(holder).is_some());
        }
    }
}

impl Series {
    /// Adds what was charged since the last export to the method that was used for most of that time.
    fn update(&mut self, accounts: &HolderAccounts) {
        let method = self.method(accounts);
        for of in HolderAccount::ALL {
            for account in Account::ALL {
                let place = |division: &Division| division.sums[of as usize][account as usize];
                let mut before = Sums::default();
                self.divisions.iter().map(place).for_each(|sums| before.add(&sums));
                let mut now = before;
                now.raise(&accounts.balance(of, account));
                if now.time > before.time || now.cost > before.cost || now.waste > before.waste {
                    let sums = &mut self.division(method).sums[of as usize][account as usize];
                    sums.add(&now.since(&before));
                }
            }
        }
        if self.divisions.is_empty() {
            self.division(method);
        }
    }

    fn division(&mut self, method: AllocationMethod) -> &mut Division {
        let known = self.divisions.iter().position(|division| division.method == method);
        let place = known.unwrap_or_else(|| {
            self.divisions.push(Division { method, sums: Box::default() });
            self.divisions.len() - 1
        });
        &mut self.divisions[place]
    }

    /// The method of most of the time since the last export; without any time, the one before.
    fn method(&mut self, accounts: &HolderAccounts) -> AllocationMethod {
        let since = accounts.methods().map(|(method, time)| {
            let before = self.methods.insert(method, time).unwrap_or_default();
            (method, time - before)
        });
        let most = since.filter(|(_, time)| *time > Nanos::ZERO).max_by_key(|(_, time)| *time);
        let last = || self.divisions.last().map(|division| division.method);
        most.map(|(method, _)| method).or_else(last).unwrap_or_else(|| accounts.method())
    }

    fn add_points(
        &self,
        export: &GpuSnapshot,
        holder: &Holder,
        from: Timestamp,
        batch: &mut Batch,
    ) {
        let labels = Labels { details: &self.details, ..Labels::of(holder) };
        let start = Start::at(from.max(export.first));
        for (place, division) in self.divisions.iter().enumerate() {
            for of in HolderAccount::ALL {
                for account in Account::ALL {
                    let sums = division.sums[of as usize][account as usize];
                    let is_exported = place == 0 && is_usual(of, account);
                    if is_exported || sums.time > Nanos::ZERO {
                        let method = division.method.name();
                        let attributes = attributes(export, &labels, of.name(), method, account);
                        add(export, start, &attributes, account, sums, batch);
                    }
                }
            }
        }
    }
}

impl Sums {
    /// Raises the sums to a balance. Costs are rounded down at different instants, so that waste can appear to fall by
    /// a few nano-dollars; a sum must not fall.
    fn raise(&mut self, balance: &Balance) {
        self.time = self.time.max(balance.time);
        self.cost = self.cost.max(balance.cost);
        self.waste = self.waste.max(balance.waste());
    }

    fn add(&mut self, other: &Self) {
        self.time += other.time;
        self.cost += other.cost;
        self.waste += other.waste;
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            time: self.time - before.time,
            cost: self.cost - before.cost,
            waste: self.waste - before.waste,
        }
    }
}

/// Whether an account of a holder is exported from its first export on, so that no sum starts late. A GPU that is held is
/// never free, and what nothing has touched is idle or unobserved, unless others use the GPU.
const fn is_usual(of: HolderAccount, account: Account) -> bool {
    match account {
        Account::IdleFree | Account::IdleUnknown => false,
        Account::IdleHeld | Account::Unobserved => true,
        Account::Underutilized | Account::Productive | Account::ComputeBound => {
            !matches!(of, HolderAccount::NeverTouched)
        }
    }
}

/// What is nobody's; all, if no source has named a holder.
fn nobody(meter: &GpuMeter, account: Account) -> Balance {
    match meter.holders().is_empty() {
        true => meter.accounts()[account],
        false => meter.holders().nobody(account),
    }
}

/// How a holder is named on the wire. What it has none of is empty, so that all points have the same attributes.
#[derive(Debug, Default)]
struct Labels<'a> {
    namespace: &'a str,
    pod: &'a str,
    uid: &'a str,
    container: &'a str,
    job: &'a str,
    /// A holder that is neither a container nor a job.
    other: Option<String>,
    /// Its workload and queue, if they are known: other points lack these attributes.
    details: &'a [(&'static str, String)],
}

impl<'a> Labels<'a> {
    fn of(holder: &'a Holder) -> Self {
        match holder {
            Holder::Container(Container { namespace, pod, uid, container }) => Self {
                namespace,
                pod,
                uid: uid.as_deref().unwrap_or_default(),
                container,
                ..Self::default()
            },
            Holder::Claim { namespace, .. } => {
                Self { namespace, other: Some(holder.to_string()), ..Self::default() }
            }
            Holder::Job(job) => Self { job, ..Self::default() },
            Holder::ProcessGroup(_) | Holder::Named(_) => {
                Self { other: Some(holder.to_string()), ..Self::default() }
            }
        }
    }
}

/// Its workload, if OpenTelemetry has an attribute for it, and its queue. Each is the same for all series of a holder,
/// so they add none. Labels can change, so they are not attributes.
fn attributes_of(details: &HolderDetails) -> Vec<(&'static str, String)> {
    let HolderDetails { workload, queue, user: _, project: _, labels: _ } = details;
    let workload = workload
        .as_ref()
        .and_then(|Workload { kind, name }| Some((workload_attribute(kind)?, name.clone())));
    let queue = queue.as_ref().map(|queue| (attribute::ALLOCATION_QUEUE, queue.clone()));
    workload.into_iter().chain(queue).collect()
}

fn attributes(
    export: &GpuSnapshot,
    labels: &Labels<'_>,
    account: &str,
    method: &str,
    phase: Account,
) -> Vec<KeyValue> {
    let Labels { namespace, pod, uid, container, job, other, details } = labels;
    let mut attributes = vec![
        export.attributes.id(),
        text("k8s.namespace.name", *namespace),
        text("k8s.pod.name", *pod),
        text("k8s.pod.uid", *uid),
        text("k8s.container.name", *container),
        text(attribute::ALLOCATION_JOB, *job),
        text(attribute::ALLOCATION_HOLDER, other.as_deref().unwrap_or_default()),
        text(attribute::ALLOCATION_ACCOUNT, account),
        text(attribute::ALLOCATION_METHOD, method),
        text(attribute::PHASE, phase.name()),
    ];
    attributes.extend(details.iter().map(|(name, value)| text(name, value.as_str())));
    attributes
}

fn add(
    export: &GpuSnapshot,
    start: Start,
    attributes: &[KeyValue],
    account: Account,
    sums: Sums,
    batch: &mut Batch,
) {
    let Sums { time, cost, waste } = sums;
    let point = |value| double(start, attributes.to_vec(), value);
    batch.add_workload(&metrics::TIME, point(time.as_secs_f64()));
    if export.is_priced() {
        batch.add_workload(&metrics::COST, point(cost.as_f64()));
        if account.phase().is_some() {
            batch.add_workload(&metrics::WASTE, point(waste.as_f64()));
        }
    }
}
