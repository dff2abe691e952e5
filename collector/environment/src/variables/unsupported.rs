//! The variables of OpenTelemetry's specification that have no effect.
//!
//! The specification's list is `tests/fixtures/otel-variables.txt`, which a test compares with the
//! variables that are read.

/// The former name of the configuration file, entities, batch processors (the queue is limited in bytes), other
/// exporters, obsolete names, a timeout beside that of a request, and limits of what no span has:
/// events, and attributes of links.
pub const UNSUPPORTED: [&str; 21] = [
    "OTEL_EXPERIMENTAL_CONFIG_FILE",
    "OTEL_ENTITIES",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BLRP_EXPORT_TIMEOUT",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_EXPORTER_OTLP_SPAN_INSECURE",
    "OTEL_EXPORTER_OTLP_METRIC_INSECURE",
    "OTEL_EXPORTER_ZIPKIN_ENDPOINT",
    "OTEL_EXPORTER_ZIPKIN_TIMEOUT",
    "OTEL_EXPORTER_ZIPKIN_PROTOCOL",
    "OTEL_EXPORTER_PROMETHEUS_HOST",
    "OTEL_EXPORTER_PROMETHEUS_PORT",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
];
