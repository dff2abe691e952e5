//! What a live source tells: readings, what was measured over stretches of time, and events.

use std::fmt;

use phasemeter_meter::reading::{Basis, Interval, Reading};
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

use super::metric::Metric;
use super::query_error::{LossReason, UnsupportedReason};
use crate::clock::Step;
use phasemeter_meter::device_metric::{DeviceMetric, DeviceValue, Engine};

/// Something observed of one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Which GPU: its place among those that are sampled.
    pub gpu: usize,
    /// What.
    pub observed: Observed,
}

/// What was observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observed {
    /// What it said at an instant. Values with a slower cadence than utilization are those of
    /// their last answer.
    Reading(Reading),
    /// A sample from the driver's ring. It comes up to 10 s after its time.
    Interval(Interval),
    /// What the hardware counted.
    Activity(Activity),
    /// What is known beside.
    DeviceMetric(DeviceMetric),
    /// What happened.
    Event(Event),
}

/// Means of hardware counters over a stretch of time. What was not told is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Where the stretch begins.
    pub from: Timestamp,
    /// Where it ends.
    pub to: Timestamp,
    /// Multiprocessors that had work.
    pub sm: Option<Utilization>,
    /// Tensor cores at work.
    pub tensor: Option<Utilization>,
    /// Memory bandwidth in use, as a share of the highest.
    pub dram: Option<Utilization>,
}

impl Activity {
    /// All of it.
    pub fn device_metrics(&self) -> impl Iterator<Item = DeviceMetric> {
        let Self { from, to: at, sm, tensor, dram } = *self;
        let activities = [(Engine::Sm, sm), (Engine::Tensor, tensor), (Engine::Dram, dram)];
        activities.into_iter().filter_map(move |(engine, mean)| {
            Some(DeviceMetric { at, value: DeviceValue::Activity { engine, from, mean: mean? } })
        })
    }

    /// What of it can stand as a utilization.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> {
        let Self { from, to, sm, tensor, dram: _ } = *self;
        let activities = [(Basis::GpmSm, sm), (Basis::GpmTensor, tensor)];
        activities.into_iter().filter_map(move |(basis, utilization)| {
            Some(Interval { basis, from, to, utilization: utilization? })
        })
    }
}

/// What happens to a GPU, or to asking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The driver reported an error. Of several since the last look, it tells the last one only.
    Xid(u64),
    /// It is gone; from now on readings say so, until [`Event::Recovered`].
    Lost(LossReason),
    /// It answers again, under its old place.
    Recovered,
    /// It does not tell this metric. It is asked again each minute.
    Unsupported(Metric, UnsupportedReason),
    /// It tells this metric now.
    Supported(Metric),
    /// This metric is asked every so often now, because its calls became slow or fast again.
    PollPeriod(Metric, Nanos),
    /// A call for this metric has not come back for longer than it may take. Its thread waits;
    /// the GPU is unobserved meanwhile.
    CallHung(Metric),
    /// The call that was stuck came back.
    CallRecovered(Metric),
    /// The wall clock was set. What follows is stamped with the new time.
    ClockStepped(Step),
}

/// In words, for whoever watches.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xid(code) => write!(f, "the driver reported XID {code}"),
            Self::Lost(loss) => write!(f, "{loss}; its time is unobserved until it returns"),
            Self::Recovered => f.write_str("it is back"),
            Self::Unsupported(metric, reason) => write!(f, "no {}: {reason}", metric.name()),
            Self::Supported(metric) => write!(f, "{} is told now", metric.name()),
            Self::PollPeriod(metric, period) => {
                let seconds = period.as_secs_f64();
                write!(
                    f,
                    "{} is asked every {seconds} s, by the time its calls take",
                    metric.name()
                )
            }
            Self::CallHung(metric) => {
                write!(f, "a call for {} hangs; its time is unobserved meanwhile", metric.name())
            }
            Self::CallRecovered(metric) => write!(f, "the call for {} came back", metric.name()),
            Self::ClockStepped(Step { before, after }) => {
                let (by, way) = match after.since(*before) {
                    Nanos::ZERO => (before.since(*after), "back"),
                    by => (by, "forward"),
                };
                write!(f, "the clock of this machine was set {way} by {:.1} s", by.as_secs_f64())
            }
        }
    }
}
