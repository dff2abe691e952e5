//! Scripted GPU activity, second by second, and its expected cost.
//!
//! A script begins and ends with an edge: a phase during which metering starts or ends at an unknown
//! instant. Between the edges all changes are at whole UTC seconds, so every other account is known to
//! the nanosecond, and the edge's account follows from the first reading. GPUs draw no power at the
//! edges, so their energy is known as well.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// The activity of a GPU in a phase. Memory is in use only if the account depends on it, since a
/// reading's memory value may be older than the reading by the length of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Activity {
    pub(crate) account: &'static str,
    /// Keys for the driver's script.
    keys: &'static str,
    watts: u64,
}

pub(crate) const FREE: Activity = Activity { account: "idle_free", keys: "", watts: 70 };
/// Never directly before [`FREE`].
pub(crate) const HELD: Activity =
    Activity { account: "idle_held", keys: "utilization = 3\nmemory_used_mib = 40000", watts: 120 };
pub(crate) const UNDER: Activity =
    Activity { account: "underutilized", keys: "utilization = 45", watts: 310 };
pub(crate) const PRODUCTIVE: Activity =
    Activity { account: "productive", keys: "utilization = 80", watts: 500 };
pub(crate) const BOUND: Activity =
    Activity { account: "compute_bound", keys: "utilization = 97", watts: 690 };

/// The plan of one GPU: the activity at both edges, and those between with their seconds.
pub(crate) struct Plan {
    pub(crate) edge: Activity,
    pub(crate) activities: &'static [(Activity, u64)],
}

/// Seconds until the first change. Metering must have started by then, on a busy machine too.
const LEAD: u64 = 10;
/// Minimum metered seconds in the last edge.
const TAIL: f64 = 1.2;
const NANOS: u64 = 1_000_000_000;

/// Plans with a start.
pub(crate) struct Script {
    plans: &'static [Plan],
    /// Milliseconds after the first change, and the keys of a fault.
    faults: &'static [(u64, &'static str)],
    /// The whole UTC second at which it started.
    begin: u64,
}

impl Script {
    /// Starts at the current second.
    pub(crate) fn begin(plans: &'static [Plan]) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self { plans, faults: &[], begin: now.as_secs() }
    }

    /// Adds faults in the format of the driver's script. Instants count from the first change.
    pub(crate) fn with_faults(self, faults: &'static [(u64, &'static str)]) -> Self {
        Self { faults, ..self }
    }

    /// The driver's script. Samples cover 100 ms, so none spans two seconds.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("start_unix_ms = {}\n", self.begin * 1_000);
        text += "[driver]\nwindow_ms = 0\nsample_period_ms = 100\n";
        for plan in self.plans {
            text += "[[device]]\n";
            let mut phase = |activity: Activity, seconds: u64, watts: u64| {
                let keys = activity.keys;
                writeln!(text, "[[device.phase]]\nfor_ms = {seconds}000\n{keys}").unwrap();
                writeln!(text, "power_w = {watts}").unwrap();
            };
            phase(plan.edge, LEAD, 0);
            plan.activities
                .iter()
                .for_each(|(activity, seconds)| phase(*activity, *seconds, activity.watts));
            phase(plan.edge, 1, 0);
        }
        for (at, keys) in self.faults {
            writeln!(text, "[[fault]]\nat_ms = {}\n{keys}", LEAD * 1_000 + at).unwrap();
        }
        text
    }

    /// Seconds to meter from now on.
    pub(crate) fn seconds(&self) -> f64 {
        let lasts = |plan: &Plan| plan.activities.iter().map(|(_, seconds)| seconds).sum::<u64>();
        let longest = self.plans.iter().map(lasts).max().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        (self.begin + LEAD + longest) as f64 + TAIL - now.as_secs_f64()
    }

    /// The ground truth of GPU `gpu`.
    pub(crate) fn gpu(&self, gpu: usize) -> GroundTruth<'_> {
        GroundTruth { plan: &self.plans[gpu], changes: (self.begin + LEAD) * NANOS }
    }
}

/// The ground truth of one GPU.
pub(crate) struct GroundTruth<'a> {
    plan: &'a Plan,
    /// End of the first edge in nanoseconds since 1970.
    changes: u64,
}

impl GroundTruth<'_> {
    /// The account of the edges.
    pub(crate) fn edge(&self) -> &'static str {
        self.plan.edge.account
    }

    /// Intervals between the edges: account, start and end in nanoseconds since 1970.
    fn intervals(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let mut at = self.changes;
        self.plan.activities.iter().map(move |(activity, seconds)| {
            let from = at;
            at += seconds * NANOS;
            (activity.account, from, at)
        })
    }

    /// Nanoseconds of each account except that of the edges.
    pub(crate) fn known(&self) -> BTreeMap<&'static str, u64> {
        let mut sums = BTreeMap::new();
        for (account, from, to) in self.intervals().filter(|it| it.0 != self.edge()) {
            *sums.entry(account).or_default() += to - from;
        }
        sums
    }

    /// Nanoseconds of each account if metered from `first` for `span` nanoseconds.
    pub(crate) fn nanos(&self, first: u64, span: u64) -> BTreeMap<&'static str, u64> {
        let between = self.intervals().map(|(account, from, to)| (account, to - from));
        self.with_edges(first, span, between, span)
    }

    /// Nano-dollars of each account at this rate in nano-dollars per hour.
    pub(crate) fn cost(&self, rate: u64, first: u64, span: u64) -> BTreeMap<&'static str, u64> {
        // Cost until an instant in whole nano-dollars.
        let until = |at: u64| {
            let hours = u128::from(rate) * u128::from(at - first) / (3_600 * u128::from(NANOS));
            u64::try_from(hours).unwrap()
        };
        let between =
            self.intervals().map(|(account, from, to)| (account, until(to) - until(from)));
        self.with_edges(first, span, between, until(first + span))
    }

    /// Sums by account; the account of the edges gets the rest of `all`.
    fn with_edges(
        &self,
        first: u64,
        span: u64,
        between: impl Iterator<Item = (&'static str, u64)>,
        all: u64,
    ) -> BTreeMap<&'static str, u64> {
        let ended = self.intervals().map(|(_, _, to)| to).last().unwrap_or(self.changes);
        assert!(
            first < self.changes && ended < first + span,
            "metering did not start within LEAD or ended too early"
        );
        let mut sums = BTreeMap::from([(self.edge(), 0)]);
        between.for_each(|(account, amount)| *sums.entry(account).or_default() += amount);
        let rest = all - sums.values().sum::<u64>();
        *sums.entry(self.edge()).or_default() += rest;
        sums
    }

    /// The energy counted by the driver.
    pub(crate) fn joules(&self) -> u64 {
        self.plan.activities.iter().map(|(activity, seconds)| activity.watts * seconds).sum()
    }
}
