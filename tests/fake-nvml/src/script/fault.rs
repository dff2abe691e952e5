//! `[[fault]]`: what goes wrong.

use phasemeter_meter::units::Nanos;
use serde::Deserialize;

use super::scalar::Millis;
use crate::SYMBOLS;
use crate::fault::{Effect, Fault, Xid};
use crate::refusal::Refusal;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultText {
    #[serde(default)]
    at_ms: u64,
    for_ms: Option<Millis>,
    device: Option<usize>,
    #[serde(default)]
    functions: Vec<String>,
    refuse: Option<Refusal>,
    delay_ms: Option<Millis>,
    #[serde(default)]
    hang: bool,
    xid: Option<u64>,
}

/// What a `[[fault]]` is.
pub(super) enum Trouble {
    Fault(Fault),
    Xid(Xid),
}

impl FaultText {
    /// What it is in a script of `length` with so many `devices`, or what is wrong with it.
    pub(super) fn understood(self, length: Nanos, devices: usize) -> Result<Trouble, String> {
        if let Some(device) = self.device.filter(|device| *device >= devices) {
            return Err(format!("there is no device {device}: the script has {devices}"));
        }
        let listed = |name: &String| SYMBOLS.lines().any(|symbol| symbol == name);
        if let Some(name) = self.functions.iter().find(|name| !listed(name)) {
            return Err(format!("NVML has no function {name}: see symbols.txt"));
        }
        let at = Nanos::from_millis(self.at_ms);
        let effect = match (self.refuse, self.delay_ms, self.hang, self.xid) {
            (Some(refusal), None, false, None) => Effect::Refuse(refusal),
            (None, Some(delay), false, None) => Effect::Delay(delay.nanos()),
            (None, None, true, None) => Effect::Hang,
            (None, None, false, Some(code)) => {
                return Ok(Trouble::Xid(Xid { at, device: self.device, code }));
            }
            _ => return Err("give one of refuse, delay_ms, hang and xid".to_owned()),
        };
        let until = match self.for_ms {
            Some(lasts) => at + lasts.nanos(),
            // A call that hangs comes back at the end of the script, so that tests end.
            None if effect == Effect::Hang => length,
            None => Nanos(u64::MAX),
        };
        let (device, functions) = (self.device, self.functions);
        Ok(Trouble::Fault(Fault { from: at, until, device, functions, effect }))
    }
}
