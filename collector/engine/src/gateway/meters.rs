//! The meters whose costs pass here, by which the cost of a span is proved.
//!
//! Anyone can write attributes. A cost counts if it names a meter by its instance ID, and `phasemeter.gpu.cost` of that
//! instance passes here: then the time of its GPUs is not billed here, and the span needs no other cost.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Number of meters from which on those that have sent nothing for long are forgotten.
const MANY: usize = 32_768;

/// The meters whose costs pass here, by their instance IDs.
#[derive(Debug, Default)]
pub(super) struct KnownMeters {
    /// This one, which may receive what it has sent.
    own: String,
    recent: HashSet<u64>,
    before: HashSet<u64>,
    hasher: RandomState,
}

impl KnownMeters {
    pub(super) fn new(own: String) -> Self {
        Self { own, ..Self::default() }
    }

    /// This meter.
    pub(super) fn own(&self) -> &str {
        &self.own
    }

    /// A meter has sent its costs.
    pub(super) fn see(&mut self, instance: &str) {
        if self.recent.len() >= MANY {
            self.before = std::mem::take(&mut self.recent);
        }
        self.recent.insert(self.hasher.hash_one(instance));
    }

    pub(super) fn contains(&self, instance: &str) -> bool {
        let id = self.hasher.hash_one(instance);
        instance == self.own || self.recent.contains(&id) || self.before.contains(&id)
    }
}

/// That a span has a cost already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It names this meter.
    By(String),
    /// It names no meter, or no meter states such a cost.
    Invalid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meters_are_limited_and_those_that_send_are_known() {
        let mut meters = KnownMeters::new("own".to_owned());
        for n in 0..5 * MANY {
            meters.see(&n.to_string());
            if n % MANY == 0 {
                meters.see("agent");
            }
            assert!(meters.recent.len() <= MANY && meters.before.len() <= MANY);
        }
        assert!(meters.contains("agent") && meters.contains("own") && !meters.contains("0"));
    }
}
