//! What a GPU can be asked, and how often it is worth asking.

use phasemeter_meter::units::Nanos;

/// One question to the driver: what it costs and how often it is asked is kept for each.
///
/// They are asked in this order. A reading has the time of utilization, and is complete with the
/// process list: what comes before it goes into a reading, what comes after it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Memory in use.
    Memory,
    /// Power drawn.
    Power,
    /// The energy counter.
    Energy,
    /// The temperature of the die.
    Temperature,
    /// The clocks of the multiprocessors and the memory.
    Clocks,
    /// Utilization, polled.
    Utilization,
    /// How many processes compute.
    Processes,
    /// XIDs.
    Events,
    /// The driver's ring of utilization samples.
    Samples,
    /// Hardware counters.
    Gpm,
    /// The driver's counters.
    Counters,
    /// How busy the video engines were.
    Video,
}

impl Metric {
    /// Every metric, in the order of asking.
    pub const ALL: [Self; 12] = [
        Self::Memory,
        Self::Power,
        Self::Energy,
        Self::Temperature,
        Self::Clocks,
        Self::Utilization,
        Self::Processes,
        Self::Events,
        Self::Samples,
        Self::Gpm,
        Self::Counters,
        Self::Video,
    ];

    /// Its name in logs and self-telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Power => "power",
            Self::Energy => "energy",
            Self::Temperature => "temperature",
            Self::Clocks => "clocks",
            Self::Utilization => "utilization",
            Self::Processes => "processes",
            Self::Events => "events",
            Self::Samples => "samples",
            Self::Gpm => "gpm",
            Self::Counters => "counters",
            Self::Video => "video",
        }
    }

    /// How often it is asked while it is cheap; zero: at every tick. The ring says itself how often
    /// it wants to be drained.
    ///
    /// Temperature, clocks and the energy counter move slowly or only ever grow; a process list
    /// takes milliseconds and holds the driver's lock; GPM means nothing over less than 100 ms.
    #[must_use]
    pub const fn period(self) -> Nanos {
        match self {
            Self::Utilization | Self::Memory | Self::Power => Nanos::ZERO,
            Self::Gpm => Nanos::from_millis(200),
            Self::Energy
            | Self::Temperature
            | Self::Clocks
            | Self::Processes
            | Self::Events
            | Self::Samples
            | Self::Counters
            | Self::Video => Nanos::SECOND,
        }
    }
}
