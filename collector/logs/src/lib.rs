//! Recorded readings: logs of `nvidia-smi`, recorded metrics of other programs, and the demo's simulated ones.
//!
//! A source is pulled; the identities of its GPUs grow as it is read.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::io;

use phasemeter_meter::device_metric::{Component, DeviceMetric, DeviceValue};
use phasemeter_meter::device_totals::LinkRates;
use phasemeter_meter::holder::HolderChange;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, GpuIdentity, Reading};
use phasemeter_meter::units::Timestamp;

pub mod demo;
pub mod file_id;
pub mod log;
#[cfg(feature = "full")]
pub mod metric_log;
pub mod nvidia_smi;
pub mod paced;

/// A source of readings.
pub trait Source {
    /// The next reading, with its GPU as an index into [`Source::gpus`]; `None` at the end. The
    /// readings of one GPU are in the order of measurement, as far as its clock allows.
    ///
    /// # Errors
    /// Returns an error if the source cannot continue. It must not be called again after an error.
    fn next(&mut self) -> Result<Option<(usize, Reading)>, SourceError>;

    /// The GPUs found so far, in order of first appearance. The list only grows; [`Source::next`]
    /// may complete identities and qualify names.
    fn gpus(&self) -> &[GpuIdentity];

    /// The source of the polled utilization of a GPU, by its index in [`Source::gpus`].
    /// `None` if it is that of the configuration.
    fn basis(&self, _gpu: usize) -> Option<Basis> {
        None
    }

    /// The counters of a GPU, with the reading returned last.
    fn counts(&self) -> Counts {
        Counts::NONE
    }

    /// Rates of the links of a GPU, with the reading returned last, of sources that count no traffic.
    fn rates(&self) -> LinkRates {
        LinkRates::NONE
    }

    /// What was found out about holders with the reading returned last, each with its GPU as an index
    /// into [`Source::gpus`]; takes effect before that reading. At the end, what was found out since.
    fn take_holder_changes(&mut self) -> Vec<(usize, HolderChange)> {
        Vec::new()
    }

    /// Records that the reading returned last was rejected downstream, with the reason, among the
    /// source's rejected rows.
    fn reject(&mut self, reason: &str);
}

/// The counters of a GPU up to a reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// An XID error since the previous reading.
    pub xid: Option<u32>,
    /// Bytes over the PCIe link in both directions so far. Their zero is arbitrary.
    pub pcie: Option<u64>,
    /// The same over all NVLink links.
    pub nvlink: Option<u64>,
}

impl Counts {
    /// Nothing.
    pub const NONE: Self = Self { xid: None, pcie: None, nvlink: None };

    /// The traffic as device metrics at the instant of the reading.
    pub fn traffic(self, at: Timestamp) -> impl Iterator<Item = DeviceMetric> {
        let links = [
            (Component::Pcie, Quantity::PcieReceived, self.pcie),
            (Component::NvLink(0), Quantity::NvlinkReceived, self.nvlink),
        ];
        links.into_iter().filter_map(move |(component, quantity, bytes)| {
            Some(DeviceMetric { at, component, quantity, value: DeviceValue::Total(bytes?) })
        })
    }
}

/// Why a source cannot be used or cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be opened, or reading it failed.
    #[error("{input}: cannot be read; check that it exists and is readable")]
    Unreadable {
        /// The file, as given by the user.
        input: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The input is a directory.
    #[error("{input}: is a directory; name its log files")]
    Directory {
        /// The directory, as given by the user.
        input: String,
    },
    /// It was given twice, perhaps by another path, and would be counted twice.
    #[error("{input}: given twice, first as {first}; name each log once")]
    Duplicate {
        /// The file, as given by the user.
        input: String,
        /// The same file, as given first.
        first: String,
    },
    /// It can be read, but not metered.
    #[error(transparent)]
    Log(#[from] nvidia_smi::LogError),
    /// It has metrics that cannot be metered.
    #[cfg(feature = "full")]
    #[error(transparent)]
    MetricLog(#[from] metric_log::MetricLogError),
}
