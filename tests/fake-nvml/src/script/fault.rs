//! `[[fault]]`: an injected fault.

use phasemeter_meter::units::Nanos;
use serde::Deserialize;

use super::scalar::Millis;
use crate::SYMBOLS;
use crate::error_code::ErrorCode;
use crate::fault::{Effect, Fault, Xid};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultText {
    #[serde(default)]
    at_ms: u64,
    for_ms: Option<Millis>,
    device: Option<usize>,
    #[serde(default)]
    functions: Vec<String>,
    error: Option<ErrorCode>,
    delay_ms: Option<Millis>,
    #[serde(default)]
    hang: bool,
    xid: Option<u64>,
    #[serde(default = "once")]
    count: usize,
    shift_stamps_ms: Option<i64>,
    entries: Option<u32>,
}

const fn once() -> usize {
    1
}

/// A validated `[[fault]]`.
pub(super) enum ScriptedFault {
    Fault(Fault),
    /// As often.
    Xid(Xid, usize),
}

impl FaultText {
    /// Validates it for a script of `length` with this many devices.
    ///
    /// # Errors
    /// Returns the problem and its fix.
    pub(super) fn validate(self, length: Nanos, devices: usize) -> Result<ScriptedFault, String> {
        if let Some(device) = self.device.filter(|device| *device >= devices) {
            return Err(format!("no device {device}; the script has {devices}"));
        }
        let listed = |name: &String| SYMBOLS.lines().any(|symbol| symbol == name);
        if let Some(name) = self.functions.iter().find(|name| !listed(name)) {
            return Err(format!("unknown NVML function {name}; see symbols.txt"));
        }
        let at = Nanos::from_millis(self.at_ms);
        let Self { error, delay_ms, hang, xid, shift_stamps_ms, entries, .. } = self;
        let effect = match (error, delay_ms, hang, xid, shift_stamps_ms, entries) {
            (Some(code), None, false, None, None, None) => Effect::Fail(code),
            (None, Some(delay), false, None, None, None) => Effect::Delay(delay.nanos()),
            (None, None, true, None, None, None) => Effect::Hang,
            (None, None, false, None, Some(millis), None) => Effect::ShiftStamps(millis),
            (None, None, false, None, None, Some(entries)) => Effect::Count(entries),
            (None, None, false, Some(code), None, None) => {
                return Ok(ScriptedFault::Xid(Xid { at, device: self.device, code }, self.count));
            }
            _ => {
                let effects = "error, delay_ms, hang, xid, shift_stamps_ms and entries";
                return Err(format!("expected exactly one of {effects}"));
            }
        };
        let until = match self.for_ms {
            Some(lasts) => at + lasts.nanos(),
            // A hanging call returns at the end of the script, so that tests end.
            None if effect == Effect::Hang => length,
            None => Nanos(u64::MAX),
        };
        let (device, functions) = (self.device, self.functions);
        Ok(ScriptedFault::Fault(Fault { from: at, until, device, functions, effect }))
    }
}
