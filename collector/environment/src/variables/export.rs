//! The variables of export: intervals, temporality, limits, and which signals are exported.

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::encode::{
    Aggregation, AttributeLimits, ExemplarFilter, ExportSettings, Limits, TemporalityPreference,
};
use phasemeter_otlp::{ExporterList, Signal};

use super::Reader;

impl Reader<'_> {
    pub(super) fn export(&mut self) -> ExportSettings {
        let default = ExportSettings::default();
        let every = self.value("OTEL_METRIC_EXPORT_INTERVAL", "milliseconds", "60000", |text| {
            let millis = text.parse().ok().filter(|millis: &u64| *millis > 0)?;
            Some(Nanos::from_secs(millis.div_ceil(1_000)))
        });
        let metrics = self.value(
            "PHASEMETER_METRICS",
            "minimal, default or all, then keep:METRIC or drop:METRIC, separated by commas",
            "default",
            |text| text.parse().ok(),
        );
        let aggregation = self.value(
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "explicit_bucket_histogram or base2_exponential_bucket_histogram",
            "explicit_bucket_histogram",
            Aggregation::named,
        );
        let temporality = self.value(
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            "cumulative, delta or lowmemory",
            "cumulative",
            TemporalityPreference::named,
        );
        let exemplars = self.value(
            "OTEL_METRICS_EXEMPLAR_FILTER",
            "trace_based or always_off",
            "trace_based",
            ExemplarFilter::named,
        );
        ExportSettings {
            every: every.unwrap_or(default.every),
            metrics: metrics.unwrap_or(default.metrics),
            aggregation: aggregation.unwrap_or(default.aggregation),
            temporality: temporality.unwrap_or(default.temporality),
            exemplars: exemplars.unwrap_or(default.exemplars),
            limits: self.limits(),
            by_holder: default.by_holder,
        }
    }

    fn limits(&mut self) -> Limits {
        let Limits { span, log_record, span_links } = Limits::default();
        let count = self.limit("OTEL_ATTRIBUTE_COUNT_LIMIT", "128");
        let length = self.limit("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "no limit");
        let general = "that of all attributes";
        let mut of = |names: [&'static str; 2], default: AttributeLimits| AttributeLimits {
            count: self.limit(names[0], general).or(count).unwrap_or(default.count),
            value_length: self.limit(names[1], general).or(length).or(default.value_length),
        };
        let span =
            of(["OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"], span);
        let log_record = of(
            ["OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT"],
            log_record,
        );
        let span_links = self.limit("OTEL_SPAN_LINK_COUNT_LIMIT", "128").unwrap_or(span_links);
        Limits { span, log_record, span_links }
    }

    fn limit(&mut self, variable: &'static str, default: &'static str) -> Option<u32> {
        self.value(variable, "a number, 0 or more", default, |text| text.parse().ok())
    }

    /// Whether the exporter of every signal is `none`.
    pub(super) fn exports_nothing(&mut self) -> bool {
        let exported = Signal::ALL.map(|signal| {
            let variable = ExporterList::variable(signal);
            let list = ExporterList::parse(&self.text(&variable).unwrap_or_default());
            for name in &list.unsupported {
                self.ignore_element(&variable, name, "otlp or none");
            }
            list.is_exported
        });
        exported == [false; 3]
    }
}
