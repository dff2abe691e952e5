//! Device metrics: what a source measures of a GPU and of its components beside its readings.
//!
//! They are exported and posted to no account.

use std::fmt;

use crate::quantity::Quantity;
use crate::units::{Timestamp, Utilization};

/// One device metric at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceMetric {
    /// When the value was true; for a mean, the end of its interval.
    pub at: Timestamp,
    /// The GPU, or a component of it.
    pub component: Component,
    /// What was measured of it.
    pub quantity: Quantity,
    /// The value.
    pub value: DeviceValue,
}

/// A GPU or a component of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Component {
    /// The GPU itself.
    Gpu,
    /// Its PCIe link.
    Pcie,
    /// One of its NVLink links, by number.
    NvLink(u8),
    /// One of its fans, by number.
    Fan(u8),
    /// One of its MIG instances.
    Mig(MigId),
}

/// The UUID of a MIG instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MigId([u8; 16]);

impl MigId {
    /// Parses `MIG-` and a UUID, as drivers from 470 on write it; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let uuid = text.strip_prefix("MIG-")?;
        let is_valid = |(at, byte): (usize, u8)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        };
        if uuid.len() != 36 || !uuid.bytes().enumerate().all(is_valid) {
            return None;
        }
        let digits: String = uuid.split('-').collect();
        u128::from_str_radix(&digits, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

/// `MIG-` and the UUID, as the driver writes it.
impl fmt::Display for MigId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MIG-")?;
        for (at, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The value of a device metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum DeviceValue {
    /// The mean of a share over an interval.
    Mean {
        /// Start of the interval; it ends at [`DeviceMetric::at`].
        from: Timestamp,
        /// The share of the interval, or of a capacity, in use.
        share: Utilization,
    },
    /// A cumulative counter: of a share nanoseconds, of a rate bytes, otherwise a number. Its zero is arbitrary: only
    /// its increase has a meaning.
    Total(u64),
    /// The value at an instant, in the unit of the quantity and within its range.
    Now(i64),
}
