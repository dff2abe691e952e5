//! Injected faults and their effect on calls.

use phasemeter_meter::units::Nanos;

use crate::error_code::ErrorCode;

/// A fault that affects calls between two instants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Start.
    pub from: Nanos,
    /// End, exclusive.
    pub until: Nanos,
    /// The device whose calls are affected; `None`: every call.
    pub device: Option<usize>,
    /// The functions affected; empty: all.
    pub functions: Vec<String>,
    /// The effect on such a call.
    pub effect: Effect,
}

/// The effect of a fault on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call returns this error.
    Fail(ErrorCode),
    /// The call takes this much longer.
    Delay(Nanos),
    /// The call does not return before the fault ends.
    Hang,
    /// A list is said to have this many entries.
    Count(u32),
    /// Samples of this time are stamped this many milliseconds later, or earlier if negative.
    ShiftStamps(i64),
}

/// An XID: an error that the driver reports as an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xid {
    /// Instant of the event.
    pub at: Nanos,
    /// The device; `None`: all devices.
    pub device: Option<usize>,
    /// XID number.
    pub code: u64,
}

/// The combined effect of all faults on one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// The call hangs until this instant.
    HangUntil(Nanos),
    /// A delay, followed by an error if there is one.
    After(Nanos, Option<ErrorCode>),
}

/// The effect of `faults` on a call of `function` at `t`. The first error wins; delays add up.
#[must_use]
pub fn outcome(faults: &[Fault], function: &str, device: Option<usize>, t: Nanos) -> FaultOutcome {
    let mut delay = Nanos::ZERO;
    let mut error = None;
    for fault in faults.iter().filter(|fault| fault.affects(function, device, t)) {
        match fault.effect {
            Effect::Hang => return FaultOutcome::HangUntil(fault.until),
            Effect::Delay(by) => delay += by,
            Effect::Fail(code) => error = error.or(Some(code)),
            Effect::Count(_) | Effect::ShiftStamps(_) => {}
        }
    }
    FaultOutcome::After(delay, error)
}

/// The wrong number of entries that a call of `function` reports at `t`, if any.
#[must_use]
pub fn count(faults: &[Fault], function: &str, device: Option<usize>, t: Nanos) -> Option<u32> {
    let counts = faults.iter().filter(|fault| fault.affects(function, device, t));
    counts.into_iter().find_map(|fault| match fault.effect {
        Effect::Count(count) => Some(count),
        Effect::Fail(_) | Effect::Delay(_) | Effect::Hang | Effect::ShiftStamps(_) => None,
    })
}

/// The sum of all shifts of the stamp of a sample of this device at `t`, in milliseconds.
#[must_use]
pub fn stamp_shift(faults: &[Fault], device: usize, t: Nanos) -> i64 {
    let shifts = faults.iter().filter_map(|fault| match fault.effect {
        Effect::ShiftStamps(millis) => Some((fault, millis)),
        Effect::Fail(_) | Effect::Delay(_) | Effect::Hang | Effect::Count(_) => None,
    });
    let affects = |fault: &Fault| {
        fault.from <= t && t < fault.until && fault.device.is_none_or(|it| it == device)
    };
    shifts.filter(|(fault, _)| affects(fault)).map(|(_, millis)| millis).sum()
}

impl Fault {
    fn affects(&self, function: &str, device: Option<usize>, t: Nanos) -> bool {
        self.from <= t
            && t < self.until
            && (self.device.is_none() || self.device == device)
            && (self.functions.is_empty() || self.functions.iter().any(|name| name == function))
    }
}
