//! Newtypes for every unit: time, utilization, memory, power, energy, temperature, clocks.
//!
//! Constructors for external data return `None` if a value is out of range.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Nanoseconds per second.
pub const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Nanoseconds per hour, the time unit of every rate.
pub const NANOS_PER_HOUR: u64 = 3_600 * NANOS_PER_SECOND;

/// Parts per million in one.
pub const PPM: u32 = 1_000_000;

/// An instant in nanoseconds since the Unix epoch, before 2262-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timestamp(u64);

impl Timestamp {
    /// The first instant out of range, 2262-01-01T00:00:00Z, in nanoseconds.
    pub const END: u64 = 9_214_646_400 * NANOS_PER_SECOND;

    /// The first instant: 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// The last instant.
    pub const LAST: Self = Self(Self::END - 1);

    /// From nanoseconds since the epoch; `None` from 2262 on.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Option<Self> {
        if nanos < Self::END { Some(Self(nanos)) } else { None }
    }

    /// From milliseconds since the epoch; `None` outside 1970–2261.
    #[must_use]
    pub fn from_millis(millis: u64) -> Option<Self> {
        millis.checked_mul(1_000_000).and_then(Self::from_nanos)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The UTC second that contains this instant, in seconds since the epoch.
    #[must_use]
    pub const fn whole_second(self) -> u64 {
        self.0 / NANOS_PER_SECOND
    }

    /// Start of the UTC second that contains this instant.
    #[must_use]
    pub const fn floor_second(self) -> Self {
        self.floor(Nanos::SECOND)
    }

    /// The first UTC second that begins at this instant or after it.
    #[must_use]
    pub fn ceil_second(self) -> Self {
        (self + (Nanos::SECOND - Nanos(1))).floor_second()
    }

    /// This instant rounded down to a multiple of `step` since the epoch.
    #[must_use]
    pub const fn floor(self, step: Nanos) -> Self {
        if step.0 == 0 { self } else { Self(self.0 - self.0 % step.0) }
    }

    /// Time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// This instant minus `by`; saturates at 1970.
    #[must_use]
    pub const fn saturating_sub(self, by: Nanos) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

/// Saturates at [`Timestamp::LAST`].
impl Add<Nanos> for Timestamp {
    type Output = Self;

    fn add(self, by: Nanos) -> Self {
        Self(self.0.saturating_add(by.0)).min(Self::LAST)
    }
}

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Nanos(pub u64);

/// Saturates after 584 years.
impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Nanos {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// One second.
    pub const SECOND: Self = Self(NANOS_PER_SECOND);

    /// From whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(NANOS_PER_SECOND))
    }

    /// From whole milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Seconds as a float, for display; sums stay integers.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }

    /// This duration times `by`; saturates at the maximum.
    #[must_use]
    pub const fn saturating_mul(self, by: u64) -> Self {
        Self(self.0.saturating_mul(by))
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

/// Utilization in parts per million, 0 to 1,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u32"))]
pub struct Utilization(u32);

impl Utilization {
    /// 0%.
    pub const ZERO: Self = Self(0);
    /// 100%.
    pub const FULL: Self = Self(PPM);

    /// From parts per million; `None` above one million.
    #[must_use]
    pub const fn from_ppm(ppm: u32) -> Option<Self> {
        if ppm <= PPM { Some(Self(ppm)) } else { None }
    }

    /// From whole percent, the unit of NVML; `None` above 100.
    #[must_use]
    pub const fn from_percent(percent: u32) -> Option<Self> {
        if percent <= 100 { Some(Self(percent * (PPM / 100))) } else { None }
    }

    /// Parts per million.
    #[must_use]
    pub const fn ppm(self) -> u32 {
        self.0
    }

    /// Percent, 0–100, for display.
    #[must_use]
    pub fn percent(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }

    /// Ratio, 0–1, for OTLP and JSON.
    #[must_use]
    pub fn ratio(self) -> f64 {
        f64::from(self.0) / f64::from(PPM)
    }
}

/// Above one million.
#[cfg(feature = "serde")]
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("utilization above 100%")]
pub struct AboveFull;

#[cfg(feature = "serde")]
impl TryFrom<u32> for Utilization {
    type Error = AboveFull;

    fn try_from(ppm: u32) -> Result<Self, AboveFull> {
        Self::from_ppm(ppm).ok_or(AboveFull)
    }
}

impl fmt::Display for Utilization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent())
    }
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bytes(u64);

impl Bytes {
    /// One mebibyte, the unit of `nvidia-smi`.
    pub const MEBIBYTE: u64 = 1 << 20;
    /// Upper bound, 4 TiB: larger values are misreadings.
    pub const MAX: u64 = 1 << 42;

    /// From bytes; `None` above [`Bytes::MAX`].
    #[must_use]
    pub const fn new(bytes: u64) -> Option<Self> {
        if bytes <= Self::MAX { Some(Self(bytes)) } else { None }
    }

    /// From mebibytes; `None` above [`Bytes::MAX`].
    #[must_use]
    pub const fn from_mebibytes(mebibytes: u64) -> Option<Self> {
        if mebibytes <= Self::MAX / Self::MEBIBYTE {
            Some(Self(mebibytes * Self::MEBIBYTE))
        } else {
            None
        }
    }

    /// In bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Power in milliwatts, the unit of NVML; at most 1 MW.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Milliwatts(u32);

impl Milliwatts {
    /// From milliwatts; `None` above 1 MW.
    #[must_use]
    pub const fn new(milliwatts: u32) -> Option<Self> {
        if milliwatts <= 1_000_000_000 { Some(Self(milliwatts)) } else { None }
    }

    /// In milliwatts.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// In watts, for OTLP and JSON.
    #[must_use]
    pub fn watts(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }
}

/// Energy in millijoules, the unit of `nvmlDeviceGetTotalEnergyConsumption`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Millijoules(pub u64);

impl Millijoules {
    /// In joules, for OTLP and JSON.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "2^53 mJ is 285 years at 1 kW")]
    pub fn joules(self) -> f64 {
        self.0 as f64 / 1_000.0
    }
}

/// Temperature in degrees Celsius.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Celsius(pub i16);

/// Clock frequency in megahertz.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Megahertz(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_saturates_before_2262() {
        assert!(Timestamp::from_nanos(Timestamp::END - 1).is_some());
        assert!(Timestamp::from_nanos(Timestamp::END).is_none());
        let last = Timestamp::from_nanos(Timestamp::END - 1).unwrap();
        assert_eq!(last + Nanos::SECOND, last);
    }

    #[test]
    fn constructors_reject_out_of_range_values() {
        assert!(Utilization::from_percent(101).is_none());
        assert!(Utilization::from_ppm(PPM + 1).is_none());
        assert!(Bytes::from_mebibytes(u64::MAX).is_none());
        assert!(Milliwatts::new(u32::MAX).is_none());
    }
}
