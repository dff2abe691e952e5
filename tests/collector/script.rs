//! What GPUs do, second by second, and what that must cost: known before anything is metered.
//!
//! A script begins and ends with an edge: a phase during which the metering begins, or ends, at
//! whatever instant. Between the edges everything changes at whole UTC seconds, so every account but
//! the edge's is known to the nanosecond, and what the edge's cost follows from the first reading.
//! At the edges a GPU draws nothing, so all its energy is known as well.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a GPU does in a phase. Memory is in use only where the account depends on it: what a reading
/// says of it may be older than the reading by the length of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Doing {
    pub(crate) account: &'static str,
    /// Keys of the driver's script.
    keys: &'static str,
    watts: u64,
}

pub(crate) const FREE: Doing = Doing { account: "idle_free", keys: "", watts: 70 };
/// Never right before [`FREE`].
pub(crate) const HELD: Doing =
    Doing { account: "idle_held", keys: "utilization = 3\nmemory_used_mib = 40000", watts: 120 };
pub(crate) const UNDER: Doing =
    Doing { account: "underutilized", keys: "utilization = 45", watts: 310 };
pub(crate) const PRODUCTIVE: Doing =
    Doing { account: "productive", keys: "utilization = 80", watts: 500 };
pub(crate) const BOUND: Doing =
    Doing { account: "compute_bound", keys: "utilization = 97", watts: 690 };

/// What one GPU does: at both edges the same, between them this for so many seconds each.
pub(crate) struct Plan {
    pub(crate) edge: Doing,
    pub(crate) doings: &'static [(Doing, u64)],
}

/// Seconds before anything changes: the metering has begun by then.
const LEAD: u64 = 3;
/// What the last edge has of the metering, at least.
const TAIL: f64 = 1.2;
const NANOS: u64 = 1_000_000_000;

/// Plans that begin now.
pub(crate) struct Script {
    plans: &'static [Plan],
    faults: &'static str,
    /// The whole UTC second at which it began.
    begin: u64,
}

impl Script {
    /// It begins with this second.
    pub(crate) fn begin(plans: &'static [Plan]) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self { plans, faults: "", begin: now.as_secs() }
    }

    /// The same with faults, as the driver's script has them. Their times count from its begin.
    pub(crate) fn with(self, faults: &'static str) -> Self {
        Self { faults, ..self }
    }

    /// The driver's script. Its samples are a tenth of a second each, so none lies in two seconds.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("start_unix_ms = {}\n", self.begin * 1_000);
        text += "[driver]\nwindow_ms = 0\nsample_period_ms = 100\n";
        for plan in self.plans {
            text += "[[device]]\n";
            let mut phase = |doing: Doing, seconds: u64, watts: u64| {
                let keys = doing.keys;
                writeln!(text, "[[device.phase]]\nfor_ms = {seconds}000\n{keys}").unwrap();
                writeln!(text, "power_w = {watts}").unwrap();
            };
            phase(plan.edge, LEAD, 0);
            plan.doings.iter().for_each(|(doing, seconds)| phase(*doing, *seconds, doing.watts));
            phase(plan.edge, 1, 0);
        }
        text + self.faults
    }

    /// How many seconds from now on it is to be metered.
    pub(crate) fn seconds(&self) -> f64 {
        let lasts = |plan: &Plan| plan.doings.iter().map(|(_, seconds)| seconds).sum::<u64>();
        let longest = self.plans.iter().map(lasts).max().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        (self.begin + LEAD + longest) as f64 + TAIL - now.as_secs_f64()
    }

    /// What GPU number `gpu` did.
    pub(crate) fn gpu(&self, gpu: usize) -> Truth<'_> {
        Truth { plan: &self.plans[gpu], changes: (self.begin + LEAD) * NANOS }
    }
}

/// What one GPU did.
pub(crate) struct Truth<'a> {
    plan: &'a Plan,
    /// When the first edge is over, in nanoseconds since 1970.
    changes: u64,
}

impl Truth<'_> {
    /// The account that the edges are in.
    pub(crate) fn edge(&self) -> &'static str {
        self.plan.edge.account
    }

    /// Stretches between the edges: account, begin and end in nanoseconds since 1970.
    fn stretches(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let mut at = self.changes;
        self.plan.doings.iter().map(move |(doing, seconds)| {
            let from = at;
            at += seconds * NANOS;
            (doing.account, from, at)
        })
    }

    /// Nanoseconds of each account but that of the edges.
    pub(crate) fn known(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for (account, from, to) in self.stretches().filter(|it| it.0 != self.edge()) {
            *sums.entry(account).or_default() += to - from;
        }
        sums
    }

    /// Nanoseconds of each account where it was metered from `first` for `span` nanoseconds.
    pub(crate) fn nanos(&self, first: u64, span: u64) -> BTreeMap<&'static str, u64> {
        let between = self.stretches().map(|(account, from, to)| (account, to - from));
        self.with_edges(first, span, between, span)
    }

    /// Nano-dollars of each account at this rate, in nano-dollars an hour.
    pub(crate) fn cost(&self, rate: u64, first: u64, span: u64) -> BTreeMap<&'static str, u64> {
        // What it had cost until then, in whole nano-dollars.
        let until = |at: u64| {
            let hours = u128::from(rate) * u128::from(at - first) / (3_600 * u128::from(NANOS));
            u64::try_from(hours).unwrap()
        };
        let between =
            self.stretches().map(|(account, from, to)| (account, until(to) - until(from)));
        self.with_edges(first, span, between, until(first + span))
    }

    /// Sums by account; the account of the edges has what the others leave of `all`.
    fn with_edges(
        &self,
        first: u64,
        span: u64,
        between: impl Iterator<Item = (&'static str, u64)>,
        all: u64,
    ) -> BTreeMap<&'static str, u64> {
        let ended = self.stretches().map(|(_, _, to)| to).last().unwrap_or(self.changes);
        assert!(first < self.changes && ended < first + span, "this machine is too slow for it");
        let mut sums = BTreeMap::from([(self.edge(), 0)]);
        between.for_each(|(account, amount)| *sums.entry(account).or_default() += amount);
        let rest = all - sums.values().sum::<u64>();
        *sums.entry(self.edge()).or_default() += rest;
        sums
    }

    /// The energy that its counter counted.
    pub(crate) fn joules(&self) -> u64 {
        self.plan.doings.iter().map(|(doing, seconds)| doing.watts * seconds).sum()
    }
}
