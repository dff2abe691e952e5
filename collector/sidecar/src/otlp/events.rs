//! Events: what happens to a GPU, as log records in its trace.
//!
//! They do not hang on sampling: a fault is told whether its trace is recorded or not. This room
//! must not know what makes a fault.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use phasemeter_meter::units::Timestamp;

use super::values::{scope, text, whole};
use crate::experiment::{EXPERIMENT_ID, TraceParent};

/// Something that happened to a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuEvent {
    /// When it was seen.
    pub at: Timestamp,
    /// What it was.
    pub kind: EventKind,
    /// The same in words.
    pub body: String,
}

/// What can happen to a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The driver reported this error.
    Xid(u64),
    /// It is gone.
    Lost,
    /// It is back.
    Returned,
    /// A call to it hangs in the driver: nothing is known of it meanwhile.
    Stuck,
    /// That call came back.
    Unstuck,
}

impl EventKind {
    /// What events of this kind are called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xid(_) => "phasemeter.gpu.xid",
            Self::Lost => "phasemeter.gpu.lost",
            Self::Returned => "phasemeter.gpu.returned",
            Self::Stuck => "phasemeter.gpu.stuck",
            Self::Unstuck => "phasemeter.gpu.unstuck",
        }
    }

    const fn severity(self) -> (SeverityNumber, &'static str) {
        match self {
            Self::Xid(_) | Self::Lost | Self::Stuck => (SeverityNumber::Error, "ERROR"),
            Self::Returned | Self::Unstuck => (SeverityNumber::Info, "INFO"),
        }
    }
}

/// The request that tells an event. `gpu`: the attribute that names the GPU; `context`: its session,
/// else what the experiment is told in.
pub(super) fn request(
    event: &GpuEvent,
    experiment_id: &str,
    gpu: KeyValue,
    context: Option<TraceParent>,
    workload: &Resource,
) -> ExportLogsServiceRequest {
    let mut attributes = vec![gpu, text(EXPERIMENT_ID, experiment_id)];
    if let EventKind::Xid(code) = event.kind {
        attributes.push(whole("phasemeter.gpu.xid.code", code));
    }
    let (severity, severity_text) = event.kind.severity();
    let record = LogRecord {
        time_unix_nano: event.at.as_nanos(),
        observed_time_unix_nano: event.at.as_nanos(),
        severity_number: severity as i32,
        severity_text: severity_text.to_owned(),
        body: Some(AnyValue { value: Some(Value::StringValue(event.body.clone())) }),
        attributes,
        flags: context.map_or(0, |context| u32::from(context.flags.bits())),
        trace_id: context.map(|it| it.trace_id.as_bytes().to_vec()).unwrap_or_default(),
        span_id: context.map(|it| it.span_id.as_bytes().to_vec()).unwrap_or_default(),
        event_name: event.kind.name().to_owned(),
        ..LogRecord::default()
    };
    let scope_logs =
        vec![ScopeLogs { scope: Some(scope()), log_records: vec![record], ..ScopeLogs::default() }];
    let resource = Some(workload.clone());
    let logs = ResourceLogs { resource, scope_logs, ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }
}
