//! The file that a script comes in: TOML, whose keys these types are.
//!
//! Everything has a default: a script of nothing but `[[device]]` is one idle H100. Unknown keys,
//! values out of range and names that NVML does not have are refused, with file and line where
//! there is one. `example.toml` beside this crate explains every key.

mod device;
mod fault;
mod phase;
mod scalar;

use std::fs;
use std::path::{Path, PathBuf};

use phasemeter_meter::units::Nanos;
use serde::Deserialize;

use crate::device::Device;
use crate::model::{Model, System, Time};
use crate::replay::ReplayError;
use device::{DeviceText, DriverText};
use fault::{FaultText, Trouble};
use scalar::{Millis, UnixMillis};

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// There is no such file, or it cannot be read.
    #[error("cannot read the script {path}")]
    Read {
        /// The script.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is not TOML, or says what a script cannot say.
    #[error("{path} is no script")]
    Parse {
        /// The script.
        path: PathBuf,
        /// Where, and what.
        source: Box<toml::de::Error>,
    },
    /// A fault names what there is not.
    #[error("{path}: fault {number}: {problem}")]
    Fault {
        /// The script.
        path: PathBuf,
        /// Which fault, counted from 1.
        number: usize,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// A recorded log cannot be used.
    #[error("{path}: the replay of device {device}")]
    Replay {
        /// The script.
        path: PathBuf,
        /// The index of the device.
        device: usize,
        /// What is wrong with the log.
        source: ReplayError,
    },
}

impl Model {
    /// The model of a script file. Logs it replays are looked for beside it.
    ///
    /// # Errors
    /// Where the file or a log it names cannot be read or understood.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let read = |source| ScriptError::Read { path: path.to_owned(), source };
        Self::parse(&fs::read_to_string(path).map_err(read)?, path)
    }

    /// The model of a script's text; errors name `path`.
    ///
    /// # Errors
    /// Where the text or a log it names cannot be read or understood.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScriptError> {
        let parse = |source| ScriptError::Parse { path: path.to_owned(), source: Box::new(source) };
        toml::from_str::<ScriptText>(text).map_err(parse)?.understood(path)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScriptText {
    time: Time,
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
            time: Time::Real,
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
    fn understood(self, path: &Path) -> Result<Model, ScriptError> {
        let mut devices = Vec::with_capacity(self.device.len());
        for (index, device) in self.device.into_iter().enumerate() {
            let replay =
                |source| ScriptError::Replay { path: path.to_owned(), device: index, source };
            devices.push(device.understood(index, &self.driver, path).map_err(replay)?);
        }
        let longest = devices.iter().map(|device: &Device| device.track.length()).max();
        let length = self.length_ms.map_or(longest.unwrap_or_default(), Millis::nanos);

        let mut faults = Vec::new();
        let mut xids = Vec::new();
        for (number, fault) in (1..).zip(self.fault) {
            let wrong = |problem| ScriptError::Fault { path: path.to_owned(), number, problem };
            match fault.understood(length, devices.len()).map_err(wrong)? {
                Trouble::Fault(fault) => faults.push(fault),
                Trouble::Xid(xid) => xids.push(xid),
            }
        }
        xids.sort_by_key(|xid| xid.at);

        Ok(Model {
            system: System {
                driver_version: self.driver_version,
                nvml_version: self.nvml_version,
                cuda_version: self.cuda_version,
            },
            time: self.time,
            start: self.start_unix_ms.map(|start| start.0),
            uptime: self.uptime_s.map(Nanos::from_secs),
            length,
            devices,
            faults,
            xids,
        })
    }
}
