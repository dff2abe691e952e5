//! Whether a trace is recorded: the samplers of `OTEL_TRACES_SAMPLER`.
//!
//! Only spans and the exemplars that name them depend on it, never money or metrics. This room
//! must not know what is in a trace.

use super::ids::TraceId;

/// Decides whether a trace is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceSampler {
    /// Where there is a parent, it decides.
    pub parent_based: bool,
    /// What decides otherwise.
    pub root: Root,
}

/// What decides about a trace that nobody decided about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// Every trace.
    AlwaysOn,
    /// No trace.
    AlwaysOff,
    /// A share of all traces, told from their ids.
    TraceIdRatio(Ratio),
}

/// `parentbased_always_on`.
impl Default for TraceSampler {
    fn default() -> Self {
        Self { parent_based: true, root: Root::AlwaysOn }
    }
}

impl TraceSampler {
    /// The sampler of this name, with `ratio` where it takes one; `None` where there is no such
    /// sampler here.
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

    /// Whether the trace is recorded. `parent`: whether its parent is, where it has one.
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

/// A share of all traces, in 1 ÷ 2⁶³.
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
        reason = "between 0 and 2^63, and below a unit nothing is told apart"
    )]
    pub fn new(ratio: f64) -> Option<Self> {
        (0.0..=1.0).contains(&ratio).then_some(Self((ratio * Self::ALL.0 as f64) as u64))
    }

    /// By the upper 63 of the last 64 bits of the id, as the SDKs for Go and Rust do: whoever
    /// samples the same trace at the same ratio decides the same.
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
    fn each_sampler_decides_as_its_name_says() {
        // Name; a root of a low and of a high id; under a parent that is recorded, and not.
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
    fn what_is_unknown_is_not_guessed() {
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
        /// Who samples more traces samples all of those that are sampled with less.
        #[test]
        fn a_higher_ratio_takes_more(low: u64, a in 0.0..=1.0, b in 0.0..=1.0) {
            let (less, more) = if a < b { (a, b) } else { (b, a) };
            let takes = |ratio| Ratio::new(ratio).unwrap().takes(&trace(low));
            prop_assert!(takes(more) || !takes(less));
            prop_assert!(takes(1.0) && !takes(0.0));
        }
    }
}
