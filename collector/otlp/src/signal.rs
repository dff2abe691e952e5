//! The signals of OTLP, and their names in the protocol.

/// A signal. Each has its own endpoint, order and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Data points.
    Metrics,
    /// Log records, including events.
    Logs,
}

impl Signal {
    /// Every signal, in display order.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// The name in text: `traces`, `metrics`, `logs`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// The name in a variable: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    #[must_use]
    pub fn in_variable(self) -> String {
        self.name().to_uppercase()
    }

    /// The member of a partial success in JSON that has the number of rejected items.
    #[cfg(feature = "full")]
    #[must_use]
    pub const fn rejected_field(self) -> &'static str {
        match self {
            Self::Traces => "rejectedSpans",
            Self::Metrics => "rejectedDataPoints",
            Self::Logs => "rejectedLogRecords",
        }
    }

    /// The path of http/protobuf.
    #[must_use]
    pub const fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
            Self::Logs => "/v1/logs",
        }
    }

    /// The gRPC method.
    #[must_use]
    pub const fn grpc_method(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }
}

/// One value per signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BySignal<T> {
    /// The value of [`Signal::Traces`].
    pub traces: T,
    /// The value of [`Signal::Metrics`].
    pub metrics: T,
    /// The value of [`Signal::Logs`].
    pub logs: T,
}

impl<T> BySignal<T> {
    /// Calls `value` for each signal in turn.
    pub fn each(mut value: impl FnMut(Signal) -> T) -> Self {
        Self {
            traces: value(Signal::Traces),
            metrics: value(Signal::Metrics),
            logs: value(Signal::Logs),
        }
    }

    /// The value of a signal.
    pub const fn of(&self, signal: Signal) -> &T {
        match signal {
            Signal::Traces => &self.traces,
            Signal::Metrics => &self.metrics,
            Signal::Logs => &self.logs,
        }
    }

    /// The value of a signal, mutably.
    pub const fn get_mut(&mut self, signal: Signal) -> &mut T {
        match signal {
            Signal::Traces => &mut self.traces,
            Signal::Metrics => &mut self.metrics,
            Signal::Logs => &mut self.logs,
        }
    }

    /// All values with their signals, in the order of [`Signal::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Signal, &T)> {
        Signal::ALL.into_iter().map(|signal| (signal, self.of(signal)))
    }
}
