//! Values of the protocol: attributes, resources, the scope, number points.
//!
//! Every double is finite, since it comes from integers.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::metrics::v1::NumberDataPoint;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::resource::v1::Resource;
use phasemeter_meter::units::{NANOS_PER_SECOND, PPM, Timestamp};

use crate::experiment::Attributes;

/// The schema of `hw.*`, and of detected resource attributes.
pub const SCHEMA: &str = "https://opentelemetry.io/schemas/1.44.0";

/// A string attribute.
pub(super) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key.to_owned(), Value::StringValue(value.into()))
}

/// A string array attribute.
pub(super) fn texts(key: &str, values: impl Iterator<Item = String>) -> KeyValue {
    let value = |text| AnyValue { value: Some(Value::StringValue(text)) };
    let values = values.map(value).collect();
    attribute(key.to_owned(), Value::ArrayValue(ArrayValue { values }))
}

/// A boolean attribute.
pub(super) fn flag(key: impl Into<String>, value: bool) -> KeyValue {
    attribute(key.into(), Value::BoolValue(value))
}

/// A double attribute.
pub(super) fn number(key: impl Into<String>, value: f64) -> KeyValue {
    attribute(key.into(), Value::DoubleValue(value))
}

/// An integer attribute.
pub(super) fn whole(key: &str, value: u64) -> KeyValue {
    attribute(key.to_owned(), Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn attribute(key: String, value: Value) -> KeyValue {
    KeyValue { key, value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// A resource with these attributes.
pub(super) fn resource(attributes: &Attributes) -> Resource {
    let attributes = attributes.iter().map(|(key, value)| text(key, value)).collect();
    Resource { attributes, ..Resource::default() }
}

/// The resource of a workload. It names Phasemeter as its instrumentation, so that it has at least
/// one attribute beside its identity: without any, Prometheus has no `target_info` of it.
pub(super) fn workload_resource(attributes: &Attributes) -> Resource {
    let mut described = resource(attributes);
    let distribution = [
        ("telemetry.distro.name", "phasemeter"),
        ("telemetry.distro.version", env!("CARGO_PKG_VERSION")),
    ];
    let missing = distribution.into_iter().filter(|(key, _)| !attributes.contains_key(*key));
    described.attributes.extend(missing.map(|(key, value)| text(key, value)));
    described
}

/// The instrumentation scope.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "phasemeter".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// Seconds of Σ utilization × time in ppm·ns.
pub(super) fn weighted_seconds(weighted: u128) -> f64 {
    weighted as f64 / (f64::from(PPM) * NANOS_PER_SECOND as f64)
}

/// The start of a point. Its time is that of its round, which it gets when the round leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start(u64);

impl Start {
    /// No start: an instantaneous value.
    pub(super) const NONE: Self = Self(0);

    /// The start of a sum or of a mean.
    pub(super) const fn at(at: Timestamp) -> Self {
        Self(at.as_nanos())
    }

    /// Nanoseconds since the epoch; zero without a start.
    pub(super) const fn as_nanos(self) -> u64 {
        self.0
    }
}

/// A double point.
pub(super) fn double(start: Start, attributes: Vec<KeyValue>, value: f64) -> NumberDataPoint {
    point(start, attributes, number_data_point::Value::AsDouble(value))
}

/// An integer point.
pub(super) fn integer(start: Start, attributes: Vec<KeyValue>, value: u64) -> NumberDataPoint {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    point(start, attributes, number_data_point::Value::AsInt(value))
}

fn point(
    start: Start,
    attributes: Vec<KeyValue>,
    value: number_data_point::Value,
) -> NumberDataPoint {
    NumberDataPoint {
        attributes,
        start_time_unix_nano: start.as_nanos(),
        value: Some(value),
        ..NumberDataPoint::default()
    }
}
