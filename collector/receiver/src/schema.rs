//! The messages of OTLP requests: which fields they have, in which form, and how much memory they take once
//! decoded.
//!
//! One table for everything that reads requests without decoding them.

use std::mem::size_of;

use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use phasemeter_otlp::Signal;

/// A message: its size in memory, and its fields.
pub(super) struct Shape {
    pub(super) size: usize,
    pub(super) fields: &'static [Field],
}

/// A field of a message.
pub(super) struct Field {
    pub(super) tag: u32,
    /// Its name in JSON.
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// Whether its default value differs from none.
    pub(super) is_optional: bool,
}

/// The form of a field.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Message(&'static Shape),
    Messages(&'static Shape),
    Text,
    Texts,
    /// Bytes that are hexadecimal in JSON.
    Id,
    /// Bytes that are in base64 in JSON.
    Bytes,
    Bool,
    Double,
    Fixed64,
    SFixed64,
    Fixed32,
    /// A `uint32`, or the number of an enum.
    Varint,
    Int64,
    SInt32,
    Doubles,
    Fixed64s,
    Varints,
}

use Form::{
    Bool, Bytes, Double, Doubles, Fixed32, Fixed64, Fixed64s, Id, Int64, Message, Messages,
    SFixed64, SInt32, Text, Texts, Varint, Varints,
};

/// The request of a signal.
pub(super) const fn request(signal: Signal) -> &'static Shape {
    match signal {
        Signal::Traces => &TRACES,
        Signal::Metrics => &METRICS,
        Signal::Logs => &LOGS,
    }
}

macro_rules! shapes {
    ($($name:ident: $size:expr, { $($tag:literal $field:ident: $form:expr $(, $optional:ident)?;)* })*) => {
        $(static $name: Shape = Shape { size: $size, fields: &[$(Field {
            tag: $tag,
            name: stringify!($field),
            form: $form,
            is_optional: shapes!(@is_optional $($optional)?),
        }),*] };)*
    };
    (@is_optional optional) => { true };
    (@is_optional) => { false };
}

shapes! {
    TRACES: 0, { 1 resourceSpans: Messages(&RESOURCE_SPANS); }
    METRICS: 0, { 1 resourceMetrics: Messages(&RESOURCE_METRICS); }
    LOGS: 0, { 1 resourceLogs: Messages(&RESOURCE_LOGS); }

    RESOURCE_SPANS: size_of::<ResourceSpans>(), {
        1 resource: Message(&RESOURCE);
        2 scopeSpans: Messages(&SCOPE_SPANS);
        3 schemaUrl: Text;
    }
    SCOPE_SPANS: size_of::<ScopeSpans>(), {
        1 scope: Message(&SCOPE);
        2 spans: Messages(&SPAN);
        3 schemaUrl: Text;
    }
    SPAN: size_of::<Span>(), {
        1 traceId: Id;
        2 spanId: Id;
        3 traceState: Text;
        4 parentSpanId: Id;
        16 flags: Fixed32;
        5 name: Text;
        6 kind: Varint;
        7 startTimeUnixNano: Fixed64;
        8 endTimeUnixNano: Fixed64;
        9 attributes: Messages(&KEY_VALUE);
        10 droppedAttributesCount: Varint;
        11 events: Messages(&EVENT);
        12 droppedEventsCount: Varint;
        13 links: Messages(&LINK);
        14 droppedLinksCount: Varint;
        15 status: Message(&STATUS);
    }
    EVENT: size_of::<Event>(), {
        1 timeUnixNano: Fixed64;
        2 name: Text;
        3 attributes: Messages(&KEY_VALUE);
        4 droppedAttributesCount: Varint;
    }
    LINK: size_of::<Link>(), {
        1 traceId: Id;
        2 spanId: Id;
        3 traceState: Text;
        4 attributes: Messages(&KEY_VALUE);
        5 droppedAttributesCount: Varint;
        6 flags: Fixed32;
    }
    STATUS: size_of::<Status>(), {
        2 message: Text;
        3 code: Varint;
    }

    RESOURCE_METRICS: size_of::<ResourceMetrics>(), {
        1 resource: Message(&RESOURCE);
        2 scopeMetrics: Messages(&SCOPE_METRICS);
        3 schemaUrl: Text;
    }
    SCOPE_METRICS: size_of::<ScopeMetrics>(), {
        1 scope: Message(&SCOPE);
        2 metrics: Messages(&METRIC);
        3 schemaUrl: Text;
    }
    METRIC: size_of::<Metric>(), {
        1 name: Text;
        2 description: Text;
        3 unit: Text;
        5 gauge: Message(&GAUGE);
        7 sum: Message(&SUM);
        9 histogram: Message(&HISTOGRAM);
        10 exponentialHistogram: Message(&EXPONENTIAL_HISTOGRAM);
        11 summary: Message(&SUMMARY);
        12 metadata: Messages(&KEY_VALUE);
    }
    GAUGE: 0, { 1 dataPoints: Messages(&NUMBER_POINT); }
    SUM: 0, {
        1 dataPoints: Messages(&NUMBER_POINT);
        2 aggregationTemporality: Varint;
        3 isMonotonic: Bool;
    }
    HISTOGRAM: 0, {
        1 dataPoints: Messages(&HISTOGRAM_POINT);
        2 aggregationTemporality: Varint;
    }
    EXPONENTIAL_HISTOGRAM: 0, {
        1 dataPoints: Messages(&EXPONENTIAL_POINT);
        2 aggregationTemporality: Varint;
    }
    SUMMARY: 0, { 1 dataPoints: Messages(&SUMMARY_POINT); }
    NUMBER_POINT: size_of::<NumberDataPoint>(), {
        7 attributes: Messages(&KEY_VALUE);
        2 startTimeUnixNano: Fixed64;
        3 timeUnixNano: Fixed64;
        4 asDouble: Double, optional;
        6 asInt: SFixed64, optional;
        5 exemplars: Messages(&EXEMPLAR);
        8 flags: Varint;
    }
    HISTOGRAM_POINT: size_of::<HistogramDataPoint>(), {
        9 attributes: Messages(&KEY_VALUE);
        2 startTimeUnixNano: Fixed64;
        3 timeUnixNano: Fixed64;
        4 count: Fixed64;
        5 sum: Double, optional;
        6 bucketCounts: Fixed64s;
        7 explicitBounds: Doubles;
        8 exemplars: Messages(&EXEMPLAR);
        10 flags: Varint;
        11 min: Double, optional;
        12 max: Double, optional;
    }
    EXPONENTIAL_POINT: size_of::<ExponentialHistogramDataPoint>(), {
        1 attributes: Messages(&KEY_VALUE);
        2 startTimeUnixNano: Fixed64;
        3 timeUnixNano: Fixed64;
        4 count: Fixed64;
        5 sum: Double, optional;
        6 scale: SInt32;
        7 zeroCount: Fixed64;
        8 positive: Message(&BUCKETS);
        9 negative: Message(&BUCKETS);
        10 flags: Varint;
        11 exemplars: Messages(&EXEMPLAR);
        12 min: Double, optional;
        13 max: Double, optional;
        14 zeroThreshold: Double;
    }
    BUCKETS: size_of::<Buckets>(), {
        1 offset: SInt32;
        2 bucketCounts: Varints;
    }
    SUMMARY_POINT: size_of::<SummaryDataPoint>(), {
        7 attributes: Messages(&KEY_VALUE);
        2 startTimeUnixNano: Fixed64;
        3 timeUnixNano: Fixed64;
        4 count: Fixed64;
        5 sum: Double;
        6 quantileValues: Messages(&QUANTILE);
        8 flags: Varint;
    }
    QUANTILE: size_of::<ValueAtQuantile>(), {
        1 quantile: Double;
        2 value: Double;
    }
    EXEMPLAR: size_of::<Exemplar>(), {
        7 filteredAttributes: Messages(&KEY_VALUE);
        2 timeUnixNano: Fixed64;
        3 asDouble: Double, optional;
        6 asInt: SFixed64, optional;
        4 spanId: Id;
        5 traceId: Id;
    }

    RESOURCE_LOGS: size_of::<ResourceLogs>(), {
        1 resource: Message(&RESOURCE);
        2 scopeLogs: Messages(&SCOPE_LOGS);
        3 schemaUrl: Text;
    }
    SCOPE_LOGS: size_of::<ScopeLogs>(), {
        1 scope: Message(&SCOPE);
        2 logRecords: Messages(&LOG_RECORD);
        3 schemaUrl: Text;
    }
    LOG_RECORD: size_of::<LogRecord>(), {
        1 timeUnixNano: Fixed64;
        11 observedTimeUnixNano: Fixed64;
        2 severityNumber: Varint;
        3 severityText: Text;
        5 body: Message(&VALUE);
        6 attributes: Messages(&KEY_VALUE);
        7 droppedAttributesCount: Varint;
        8 flags: Fixed32;
        9 traceId: Id;
        10 spanId: Id;
        12 eventName: Text;
    }

    RESOURCE: size_of::<Resource>(), {
        1 attributes: Messages(&KEY_VALUE);
        2 droppedAttributesCount: Varint;
        3 entityRefs: Messages(&ENTITY);
    }
    ENTITY: size_of::<EntityRef>(), {
        1 schemaUrl: Text;
        2 type: Text;
        3 idKeys: Texts;
        4 descriptionKeys: Texts;
    }
    SCOPE: size_of::<InstrumentationScope>(), {
        1 name: Text;
        2 version: Text;
        3 attributes: Messages(&KEY_VALUE);
        4 droppedAttributesCount: Varint;
    }
    KEY_VALUE: size_of::<KeyValue>(), {
        1 key: Text;
        2 value: Message(&VALUE);
    }
    VALUE: size_of::<AnyValue>(), {
        1 stringValue: Text, optional;
        2 boolValue: Bool, optional;
        3 intValue: Int64, optional;
        4 doubleValue: Double, optional;
        5 arrayValue: Message(&ARRAY);
        6 kvlistValue: Message(&KEY_VALUES);
        7 bytesValue: Bytes, optional;
    }
    ARRAY: 0, { 1 values: Messages(&VALUE); }
    KEY_VALUES: 0, { 1 values: Messages(&KEY_VALUE); }
}
