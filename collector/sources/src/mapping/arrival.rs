//! When a value arrived.

use phasemeter_meter::units::Nanos;

/// When a value arrived, by a clock that may run backwards between GPUs, but counts as standing still if it does for
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivedAt {
    /// When it arrived.
    pub at: Nanos,
    /// By how much its own time is later.
    pub ahead: Nanos,
}

impl From<Nanos> for ArrivedAt {
    fn from(at: Nanos) -> Self {
        Self { at, ahead: Nanos::ZERO }
    }
}
