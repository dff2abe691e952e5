//! The TOML format of a script.
//!
//! Everything has a default: a script with only `[[device]]` is one idle H100. Unknown keys, values
//! out of range and unknown NVML names are rejected with file and line. `example.toml` in this crate
//! documents every key.

mod device;
mod fault;
mod phase;
mod scalar;

use std::fs;
use std::path::{Path, PathBuf};

use phasemeter_meter::units::Nanos;
use serde::Deserialize;

use crate::device::Device;
use crate::model::{Clock, Model, System};
use crate::replay::ReplayError;
use device::{DeviceText, DriverText};
use fault::{FaultText, ScriptedFault};
use scalar::{Millis, UnixMillis};

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {path}")]
    Read {
        /// The script.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The text is not TOML or not a script.
    #[error("{path}: invalid script")]
    Parse {
        /// The script.
        path: PathBuf,
        /// Position and problem.
        source: Box<toml::de::Error>,
    },
    /// A fault is invalid.
    #[error("{path}: fault {number}: {problem}")]
    Fault {
        /// The script.
        path: PathBuf,
        /// Number of the fault, counted from 1.
        number: usize,
        /// The problem and its fix.
        problem: String,
    },
    /// A recorded log cannot be used.
    #[error("{path}: cannot replay a log on device {device}")]
    Replay {
        /// The script.
        path: PathBuf,
        /// The index of the device.
        device: usize,
        /// The problem with the log.
        source: ReplayError,
    },
}

impl Model {
    /// Loads a script file. Logs are relative to its directory.
    ///
    /// # Errors
    /// Returns an error if the file or one of its logs cannot be read or is invalid.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let read = |source| ScriptError::Read { path: path.to_owned(), source };
        Self::parse(&fs::read_to_string(path).map_err(read)?, path)
    }

    /// Parses a script's text; errors name `path`.
    ///
    /// # Errors
    /// Returns an error if the text or one of its logs cannot be read or is invalid.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScriptError> {
        let parse = |source| ScriptError::Parse { path: path.to_owned(), source: Box::new(source) };
        toml::from_str::<ScriptText>(text).map_err(parse)?.validate(path)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScriptText {
    time: Clock,
    start_unix_ms: Option<UnixMillis>,
    length_ms: Option<Millis>,
    uptime_s: Option<u64>,
    driver_version: String,
    nvml_version: String,
    cuda_version: i32,
    driver: DriverText,
    device: Vec<DeviceText>,
    fault: Vec<FaultText>,
}

impl Default for ScriptText {
    fn default() -> Self {
        Self {
            time: Clock::Real,
            start_unix_ms: None,
            length_ms: None,
            uptime_s: None,
            driver_version: "575.57.08".to_owned(),
            nvml_version: "12.575.57.08".to_owned(),
            cuda_version: 12_090,
            driver: DriverText::default(),
            device: Vec::new(),
            fault: Vec::new(),
        }
    }
}

impl ScriptText {
    fn validate(self, path: &Path) -> Result<Model, ScriptError> {
        let mut devices = Vec::with_capacity(self.device.len());
        for (index, device) in self.device.into_iter().enumerate() {
            let replay =
                |source| ScriptError::Replay { path: path.to_owned(), device: index, source };
            devices.push(device.validate(index, &self.driver, path).map_err(replay)?);
        }
        let longest = devices.iter().map(|device: &Device| device.track.length()).max();
        let length = self.length_ms.map_or(longest.unwrap_or_default(), Millis::nanos);

        let mut faults = Vec::new();
        let mut xids = Vec::new();
        for (number, fault) in (1..).zip(self.fault) {
            let invalid = |problem| ScriptError::Fault { path: path.to_owned(), number, problem };
            match fault.validate(length, devices.len()).map_err(invalid)? {
                ScriptedFault::Fault(fault) => faults.push(fault),
                ScriptedFault::Xid(xid, count) => xids.extend(std::iter::repeat_n(xid, count)),
            }
        }
        xids.sort_by_key(|xid| xid.at);

        Ok(Model {
            system: System {
                driver_version: self.driver_version,
                nvml_version: self.nvml_version,
                cuda_version: self.cuda_version,
            },
            clock: self.time,
            start: self.start_unix_ms.map(|start| start.0),
            uptime: self.uptime_s.map(Nanos::from_secs),
            length,
            devices,
            faults,
            xids,
        })
    }
}
