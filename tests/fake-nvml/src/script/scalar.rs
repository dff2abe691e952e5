//! Single values of a script. Each is validated while parsing, so that errors name the line.

use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, PPM, Timestamp, Utilization};
use serde::Deserialize;

use crate::device::BusId;

/// A duration in milliseconds, never zero.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Millis(u64);

impl Millis {
    pub(super) const fn of(millis: u64) -> Self {
        Self(millis)
    }

    pub(super) const fn nanos(self) -> Nanos {
        Nanos::from_millis(self.0)
    }
}

impl TryFrom<u64> for Millis {
    type Error = &'static str;

    fn try_from(millis: u64) -> Result<Self, Self::Error> {
        if millis == 0 { Err("expected at least one millisecond") } else { Ok(Self(millis)) }
    }
}

/// An instant in milliseconds since 1970.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct UnixMillis(pub(super) Timestamp);

impl TryFrom<u64> for UnixMillis {
    type Error = &'static str;

    fn try_from(millis: u64) -> Result<Self, Self::Error> {
        Timestamp::from_millis(millis).map(Self).ok_or("expected an instant before 2262")
    }
}

/// Percent, 0–100, rounded to four decimals.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Percent(pub(super) Utilization);

impl Percent {
    pub(super) const fn full() -> Self {
        Self(Utilization::FULL)
    }
}

impl TryFrom<f64> for Percent {
    type Error = &'static str;

    fn try_from(percent: f64) -> Result<Self, Self::Error> {
        let ppm = scaled(percent, f64::from(PPM) / 100.0);
        ppm.and_then(Utilization::from_ppm).map(Self).ok_or("expected a percentage, 0 to 100")
    }
}

/// Watts, rounded to three decimals.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
pub(super) struct Watts(pub(super) Milliwatts);

impl Watts {
    /// Whole watts.
    pub(super) fn of(watts: u16) -> Self {
        Self(Milliwatts::new(u32::from(watts) * 1_000).unwrap_or_default())
    }
}

impl TryFrom<f64> for Watts {
    type Error = &'static str;

    fn try_from(watts: f64) -> Result<Self, Self::Error> {
        let milliwatts = scaled(watts, 1_000.0);
        milliwatts.and_then(Milliwatts::new).map(Self).ok_or("expected 0 to 1,000,000 watts")
    }
}

/// Memory in mebibytes.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct Mebibytes(pub(super) Bytes);

impl Mebibytes {
    pub(super) fn of(mebibytes: u32) -> Self {
        Self(Bytes::from_mebibytes(u64::from(mebibytes)).unwrap_or_default())
    }
}

impl TryFrom<u64> for Mebibytes {
    type Error = &'static str;

    fn try_from(mebibytes: u64) -> Result<Self, Self::Error> {
        Bytes::from_mebibytes(mebibytes).map(Self).ok_or("expected at most 4 TiB")
    }
}

/// The width of a counter in bits.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "u32")]
pub(super) struct Bits(pub(super) u32);

impl TryFrom<u32> for Bits {
    type Error = &'static str;

    fn try_from(bits: u32) -> Result<Self, Self::Error> {
        if (1..=u64::BITS).contains(&bits) { Ok(Self(bits)) } else { Err("expected 1 to 64 bits") }
    }
}

/// A PCI address as `nvidia-smi` writes it.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct BusText(pub(super) BusId);

impl TryFrom<String> for BusText {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        BusId::parse(&text).map(Self).ok_or("expected a PCI address such as 00000000:17:00.0")
    }
}

/// `value × by`, rounded; `None` if negative or too large.
fn scaled(value: f64, by: f64) -> Option<u32> {
    let scaled = (value * by).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range check comes first"
    )]
    (0.0..=f64::from(u32::MAX)).contains(&scaled).then_some(scaled as u32)
}
