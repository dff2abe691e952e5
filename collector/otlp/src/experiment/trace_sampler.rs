//! Trace sampling: the samplers of `OTEL_TRACES_SAMPLER`.
//!
//! Only spans and the exemplars that refer to them depend on it, never money or metrics.

use super::ids::TraceId;

/// Decides whether a trace is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSampler {
    /// Whether a parent's decision is inherited.
    pub parent_based: bool,
    /// The decision without a parent.
    pub root: Root,
}

/// The decision for a trace without a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// Every trace.
    AlwaysOn,
    /// No trace.
    AlwaysOff,
    /// A fraction of traces, decided by trace ID.
    TraceIdRatio(Ratio),
}

/// `parentbased_always_on`.
impl Default for TraceSampler {
    fn default() -> Self {
        Self { parent_based: true, root: Root::AlwaysOn }
    }
}

impl TraceSampler {
    /// The sampler of this name, with `ratio` if it uses one; `None` if the name, in lower case, is
    /// unknown.
    #[must_use]
    pub fn named(name: &str, ratio: Ratio) -> Option<Self> {
        let (parent_based, root) = match name.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, name),
        };
        let root = match root {
            "always_on" => Root::AlwaysOn,
            "always_off" => Root::AlwaysOff,
            "traceidratio" => Root::TraceIdRatio(ratio),
            _ => return None,
        };
        Some(Self { parent_based, root })
    }

    /// Whether the trace is recorded. `parent`: whether its parent is recorded, if there is one.
    #[must_use]
    pub fn samples(&self, trace: &TraceId, parent: Option<bool>) -> bool {
        if let Some(parent) = parent.filter(|_| self.parent_based) {
            return parent;
        }
        match self.root {
            Root::AlwaysOn => true,
            Root::AlwaysOff => false,
            Root::TraceIdRatio(ratio) => ratio.takes(trace),
        }
    }
}

/// A fraction of traces, in units of 1 ÷ 2⁶³.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u64);

impl Ratio {
    /// Every trace.
    pub const ALL: Self = Self(1 << 63);

    /// From a number between 0 and 1; `None` outside.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 2^63; smaller differences do not matter"
    )]
    pub fn new(ratio: f64) -> Option<Self> {
        (0.0..=1.0).contains(&ratio).then_some(Self((ratio * Self::ALL.0 as f64) as u64))
    }

    /// Compares the upper 63 of the last 64 bits of the ID, like the SDKs for Go and Rust, so that
    /// samplers with the same ratio agree.
    fn takes(self, trace: &TraceId) -> bool {
        let low = trace.as_bytes().iter().skip(8);
        low.fold(0, |bits: u64, byte| bits << 8 | u64::from(*byte)) >> 1 < self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace(low: u64) -> TraceId {
        TraceId::new((1_u128 << 64 | u128::from(low)).to_be_bytes()).unwrap()
    }

    fn named(name: &str) -> TraceSampler {
        TraceSampler::named(name, Ratio::new(0.25).unwrap()).unwrap()
    }

    #[test]
    fn samplers_match_their_names() {
        // Name; a root with a low and with a high ID; under a recorded parent, and not.
        for (name, expected) in [
            ("always_on", [true, true, true, true]),
            ("always_off", [false, false, false, false]),
            ("traceidratio", [true, false, true, true]),
            ("parentbased_always_on", [true, true, true, false]),
            ("parentbased_always_off", [false, false, true, false]),
            ("parentbased_traceidratio", [true, false, true, false]),
        ] {
            let sampler = named(name);
            let decided = [
                sampler.samples(&trace(0), None),
                sampler.samples(&trace(u64::MAX), None),
                sampler.samples(&trace(0), Some(true)),
                sampler.samples(&trace(0), Some(false)),
            ];
            assert_eq!(decided, expected, "{name}");
        }
        assert_eq!(TraceSampler::default(), named("parentbased_always_on"));
    }

    #[test]
    fn unknown_sampler_is_rejected() {
        for name in
            ["", "jaeger_remote", "parentbased_", "ALWAYS_ON", "parentbased_parentbased_always_on"]
        {
            assert_eq!(TraceSampler::named(name, Ratio::ALL), None, "{name}");
        }
        for ratio in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(Ratio::new(ratio), None);
        }
    }

    proptest! {
        /// A higher ratio samples a superset of the traces of a lower one.
        #[test]
        fn higher_ratio_samples_superset(low: u64, a in 0.0..=1.0, b in 0.0..=1.0) {
            let (less, more) = if a < b { (a, b) } else { (b, a) };
            let takes = |ratio| Ratio::new(ratio).unwrap().takes(&trace(low));
            prop_assert!(takes(more) || !takes(less));
            prop_assert!(takes(1.0) && !takes(0.0));
        }
    }
}
