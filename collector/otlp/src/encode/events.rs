//! GPU events as log records in the experiment's trace.
//!
//! Events do not depend on sampling: a fault is exported even if its trace is not recorded.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use phasemeter_meter::alert::AlertChange;
use phasemeter_meter::units::{Nanos, PPM, Timestamp};

use super::limits::AttributeLimits;
use super::values::{number, scope, text, whole};
use crate::experiment::{EXPERIMENT_ID, TraceParent};
use crate::names::{SCHEMA_URL, attribute, event};

/// An event of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "full", derive(serde::Serialize, serde::Deserialize))]
pub struct GpuEvent {
    /// When it was observed.
    pub at: Timestamp,
    /// Its kind.
    pub kind: EventKind,
    /// Its description.
    pub body: String,
}

impl GpuEvent {
    /// The event of an XID error that another program has reported.
    #[must_use]
    pub fn xid(at: Timestamp, code: u64) -> Self {
        let body = format!("XID error {code}");
        Self { at, kind: EventKind::Xid { code, count: 1 }, body }
    }
}

/// A step of the wall clock.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockStep {
    /// Seconds by which it was set forward; negative if it was set back.
    pub seconds: f64,
    /// Its description.
    pub body: String,
}

/// Kinds of GPU events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "full", derive(serde::Serialize, serde::Deserialize))]
pub enum EventKind {
    /// The driver reported XID errors that no earlier event is about.
    Xid {
        /// Their code.
        code: u64,
        /// Their number.
        count: u64,
    },
    /// The GPU is lost.
    Lost,
    /// The GPU is available again.
    Recovered,
    /// The driver lists the GPU for the first time, after the run began. It is metered from here on.
    Joined,
    /// A call to the GPU hangs in the driver; until it returns there are no readings.
    CallHung,
    /// The call that hung returned.
    CallRecovered,
    /// A gateway did not bill this much time, up to the event.
    Gap(Nanos),
    /// A gateway bills from here on. It does not know what was billed before.
    MeteringStarted,
}

impl EventKind {
    /// The event name of this kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xid { .. } => event::GPU_XID_REPORTED,
            Self::Lost => event::GPU_LOST,
            Self::Recovered => event::GPU_RECOVERED,
            Self::Joined => event::GPU_JOINED,
            Self::CallHung => event::GPU_CALL_HUNG,
            Self::CallRecovered => event::GPU_CALL_RECOVERED,
            Self::Gap(_) => event::GPU_GAP_FOUND,
            Self::MeteringStarted => event::GPU_METERING_STARTED,
        }
    }

    const fn severity(self) -> Severity {
        match self {
            Self::Xid { .. } | Self::Lost | Self::CallHung => Severity::Error,
            Self::Gap(_) => Severity::Warn,
            Self::Recovered | Self::Joined | Self::CallRecovered | Self::MeteringStarted => {
                Severity::Info
            }
        }
    }
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Info,
    Warn,
    Error,
}

impl Severity {
    const fn number_and_text(self) -> (SeverityNumber, &'static str) {
        match self {
            Self::Info => (SeverityNumber::Info, "INFO"),
            Self::Warn => (SeverityNumber::Warn, "WARN"),
            Self::Error => (SeverityNumber::Error, "ERROR"),
        }
    }
}

/// An event before it becomes a log record.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) name: &'static str,
    pub(super) severity: Severity,
    pub(super) body: String,
    pub(super) attributes: Vec<KeyValue>,
}

impl Event {
    /// An event of the GPU that this attribute identifies.
    pub(super) fn from_gpu_event(event: &GpuEvent, gpu: KeyValue) -> Self {
        let mut attributes = vec![gpu];
        match event.kind {
            EventKind::Xid { code, count } => {
                attributes.push(whole(attribute::GPU_XID_CODE, code));
                attributes.push(whole(attribute::GPU_XID_COUNT, count));
            }
            EventKind::Gap(length) => {
                attributes.push(number(attribute::GPU_GAP_DURATION, length.as_secs_f64()));
            }
            EventKind::Lost
            | EventKind::Recovered
            | EventKind::Joined
            | EventKind::CallHung
            | EventKind::CallRecovered
            | EventKind::MeteringStarted => {}
        }
        Self {
            name: event.kind.name(),
            severity: event.kind.severity(),
            body: event.body.clone(),
            attributes,
        }
    }

    /// The event of an alert of the GPU that this attribute identifies.
    pub(super) fn from_alert(change: &AlertChange<'_>, gpu: KeyValue) -> Self {
        let AlertChange { rule, at, since, opened, mean } = *change;
        let metric = rule.metric();
        // As in metrics: a share from 0 to 1, or degrees.
        let value = |value: f64| value / f64::from(PPM);
        let (name, severity) = if opened {
            (event::ALERT_OPENED, Severity::Warn)
        } else {
            (event::ALERT_CLOSED, Severity::Info)
        };
        let threshold = value(rule.condition().threshold().into());
        Self {
            name,
            severity,
            body: format!("{}: {rule}, now {}", rule.id(), metric.with_unit(mean)),
            attributes: vec![
                gpu,
                text(attribute::ALERT_RULE, rule.id()),
                text(attribute::ALERT_METRIC, metric.name()),
                number(attribute::ALERT_VALUE, value(mean)),
                number(attribute::ALERT_THRESHOLD, threshold),
                number(attribute::ALERT_DURATION, at.since(since).as_secs_f64()),
            ],
        }
    }

    /// The event of a step of the wall clock.
    pub(super) fn from_clock_step(step: &ClockStep) -> Self {
        Self {
            name: event::CLOCK_STEPPED,
            severity: Severity::Warn,
            body: step.body.clone(),
            attributes: vec![number(attribute::CLOCK_STEP, step.seconds)],
        }
    }

    pub(super) fn into_record(
        mut self,
        at: Timestamp,
        experiment_id: &str,
        context: Option<TraceParent>,
        limits: &AttributeLimits,
    ) -> LogRecord {
        self.attributes.push(text(EXPERIMENT_ID, experiment_id));
        let dropped_attributes_count = limits.apply(&mut self.attributes);
        let (severity_number, severity_text) = self.severity.number_and_text();
        LogRecord {
            time_unix_nano: at.as_nanos(),
            observed_time_unix_nano: at.as_nanos(),
            severity_number: severity_number as i32,
            severity_text: severity_text.to_owned(),
            body: Some(AnyValue { value: Some(Value::StringValue(self.body)) }),
            attributes: self.attributes,
            dropped_attributes_count,
            flags: context.map_or(0, |context| u32::from(context.flags.bits())),
            trace_id: context.map(|it| it.trace_id.as_bytes().to_vec()).unwrap_or_default(),
            span_id: context.map(|it| it.span_id.as_bytes().to_vec()).unwrap_or_default(),
            event_name: self.name.to_owned(),
        }
    }
}

/// The request for these records.
pub(super) fn request(
    log_records: Vec<LogRecord>,
    workload: &Resource,
) -> ExportLogsServiceRequest {
    let scope_logs =
        vec![ScopeLogs { scope: Some(scope()), log_records, schema_url: SCHEMA_URL.to_owned() }];
    let resource = Some(workload.clone());
    let logs = ResourceLogs { resource, scope_logs, ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }
}
