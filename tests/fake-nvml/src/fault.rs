//! What goes wrong, and when.
//!
//! This room must not know devices or time beyond the instants it is given.

use phasemeter_meter::units::Nanos;

use crate::refusal::Refusal;

/// Something that goes wrong for calls between two instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it begins.
    pub from: Nanos,
    /// When it is over.
    pub until: Nanos,
    /// The device whose calls it meets; `None`: every call.
    pub device: Option<usize>,
    /// The functions it meets; empty: all.
    pub functions: Vec<String>,
    /// What happens to such a call.
    pub effect: Effect,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is refused.
    Refuse(Refusal),
    /// It takes so much longer.
    Delay(Nanos),
    /// It does not come back before the fault is over.
    Hang,
}

/// An XID: an error that the driver reports as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xid {
    /// When.
    pub at: Nanos,
    /// Which device; `None`: all of them.
    pub device: Option<usize>,
    /// Which error.
    pub code: u64,
}

/// What a call meets before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Nothing before this instant.
    HangUntil(Nanos),
    /// A wait, and after it perhaps a refusal.
    After(Nanos, Option<Refusal>),
}

/// What a call of `function` at `t` meets. The first refusal counts; delays add up.
#[must_use]
pub fn obstacle(faults: &[Fault], function: &str, device: Option<usize>, t: Nanos) -> Obstacle {
    let mut delay = Nanos::ZERO;
    let mut refusal = None;
    for fault in faults.iter().filter(|fault| fault.meets(function, device, t)) {
        match fault.effect {
            Effect::Hang => return Obstacle::HangUntil(fault.until),
            Effect::Delay(by) => delay += by,
            Effect::Refuse(code) => refusal = refusal.or(Some(code)),
        }
    }
    Obstacle::After(delay, refusal)
}

impl Fault {
    fn meets(&self, function: &str, device: Option<usize>, t: Nanos) -> bool {
        self.from <= t
            && t < self.until
            && (self.device.is_none() || self.device == device)
            && (self.functions.is_empty() || self.functions.iter().any(|name| name == function))
    }
}
