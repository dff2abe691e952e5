//! Observations of a live source: readings, means over time ranges, device metrics and events.

use std::fmt;

use phasemeter_meter::device_metric::{Component, DeviceMetric, DeviceValue};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, Interval, Reading};
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

use super::metric::Metric;
use super::mig_instance::MigInstance;
use super::query_error::{LossReason, UnsupportedReason};

/// An observation of one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The index of the GPU among those sampled.
    pub gpu: usize,
    /// The observation.
    pub observed: Observed,
}

/// The kinds of observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observed {
    /// Values at an instant. Metrics polled less often than utilization have their last value.
    Reading(Reading),
    /// A driver sample, up to 10 s after its time.
    Interval(Interval),
    /// Means of hardware counters.
    Activity(Activity),
    /// A device metric.
    DeviceMetric(DeviceMetric),
    /// A process that computes on the GPU. Observed again as long as it does.
    Process(ComputeProcess),
    /// What a process used of the GPU.
    ProcessUse(ProcessUse),
    /// Whether the GPU is in MIG mode, in which the driver reports no utilization of it. Observed again as
    /// long as the driver reports the mode.
    MigMode(bool),
    /// A MIG instance of the GPU. Observed again as long as it exists.
    MigInstance(MigInstance),
    /// An event.
    Event(Event),
}

/// A process that computes on a GPU, by itself or through the multi-process service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComputeProcess {
    /// Its ID, in the host's PID namespace.
    pub pid: u32,
    /// The ID of the GPU instance that it is on, in MIG mode; `None` if the driver does not report it.
    pub gpu_instance: Option<u32>,
}

/// What a process used of the GPU over a half-open time range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    /// Its ID, as of [`Observed::Process`].
    pub pid: u32,
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range (exclusive), after `from`.
    pub to: Timestamp,
    /// Its mean part of the utilization. A process that is alone on the GPU has all of it, whatever that is.
    pub utilization: Utilization,
}

/// Means of hardware counters over a time range; `None` if a value is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range.
    pub to: Timestamp,
    /// Of each of [`Quantity::ACTIVITIES`].
    pub shares: [Option<Utilization>; Quantity::ACTIVITIES.len()],
}

impl Activity {
    /// All values as those of device metrics.
    pub(super) fn values(&self) -> impl Iterator<Item = (Quantity, DeviceValue)> {
        let from = self.from;
        Quantity::ACTIVITIES.into_iter().zip(self.shares).filter_map(move |(quantity, share)| {
            Some((quantity, DeviceValue::Mean { from, share: share? }))
        })
    }

    /// All values as device metrics of the GPU.
    pub fn device_metrics(&self) -> impl Iterator<Item = DeviceMetric> {
        let (at, component) = (self.to, Component::Gpu);
        self.values().map(move |(quantity, value)| DeviceMetric { at, component, quantity, value })
    }

    /// The values that are utilization bases.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> {
        let Self { from, to, shares: [sm, tensor, ..] } = *self;
        let activities = [(Basis::GpmSm, sm), (Basis::GpmTensor, tensor)];
        activities.into_iter().filter_map(move |(basis, utilization)| {
            Some(Interval { basis, from, to, utilization: utilization? })
        })
    }
}

/// The purpose of a call to the driver. Any call can hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverCall {
    /// Opening the driver and finding the GPU, at the start and after a loss.
    Search,
    /// Closing the driver after a loss.
    Close,
    /// Querying a metric.
    Query(Metric),
}

/// For logs.
impl fmt::Display for DriverCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Search => f.write_str("driver call to find the GPU"),
            Self::Close => f.write_str("driver call to close the driver"),
            Self::Query(metric) => write!(f, "driver call for {}", metric.name()),
        }
    }
}

/// An event of a GPU, or of querying it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The driver reported this many XID errors since the last observation. For errors that waited together,
    /// drivers return the code of the last one.
    Xid {
        /// The code.
        code: u64,
        /// The number of errors.
        count: u64,
    },
    /// The GPU is lost; its readings are missing until [`Event::Recovered`].
    Lost(LossReason),
    /// The GPU responds again, with the same index.
    Recovered,
    /// The metric is not supported. It is retried every minute.
    Unsupported(Metric, UnsupportedReason),
    /// The metric, which has answered before, is refused. It is retried at the next tick.
    Refused(Metric, UnsupportedReason),
    /// The metric is supported now, or again.
    Supported(Metric),
    /// The polling interval changed, because calls became slower or faster.
    PollPeriod(Metric, Nanos),
    /// This call hangs. Its thread is blocked, and the GPU is unobserved.
    CallHung(DriverCall),
    /// The hung call returned.
    CallRecovered(DriverCall),
}

impl Event {
    /// Its kind, without what it is about.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Xid { .. } => "xid",
            Self::Lost(_) => "lost",
            Self::Recovered => "recovered",
            Self::Unsupported(..) => "unsupported",
            Self::Refused(..) => "metric_refused",
            Self::Supported(_) => "supported",
            Self::PollPeriod(..) => "poll_period",
            Self::CallHung(_) => "call_hung",
            Self::CallRecovered(_) => "call_recovered",
        }
    }
}

/// For logs.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xid { code, count: 1 } => write!(f, "driver reported XID {code}"),
            Self::Xid { code, count } => write!(f, "driver reported XID {code} ({count} errors)"),
            Self::Lost(loss) => write!(f, "{loss}; unobserved until it recovers"),
            Self::Recovered => f.write_str("GPU recovered"),
            Self::Unsupported(metric, reason) => write!(f, "metric {}: {reason}", metric.name()),
            Self::Refused(metric, reason) => {
                write!(f, "metric {}: {reason}; it answered before and is retried", metric.name())
            }
            Self::Supported(metric) => write!(f, "metric {}: available", metric.name()),
            Self::PollPeriod(metric, period) => {
                let seconds = period.as_secs_f64();
                write!(
                    f,
                    "metric {}: polled every {seconds} s, limited by call duration",
                    metric.name()
                )
            }
            Self::CallHung(call) => write!(f, "{call} hung; unobserved until it returns"),
            Self::CallRecovered(call) => write!(f, "{call} returned"),
        }
    }
}
