//! Sets of metrics.

/// A set of metrics. Each contains the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MetricSet {
    /// Time, effective time, cost and waste.
    Minimal,
    /// And what dashboards and alert rules need: utilization, memory, power, energy, temperature, health,
    /// throttling and prices.
    Default,
    /// And each link and fan, limits, clocks, traffic, video engines and other utilization sources.
    All,
}

impl MetricSet {
    /// All sets, the smallest first.
    pub const ALL: [Self; 3] = [Self::Minimal, Self::Default, Self::All];

    /// Its name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Default => "default",
            Self::All => "all",
        }
    }
}
