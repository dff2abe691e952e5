//! What the difference of two values of a counter means: the one rule for all counters, of work, energy,
//! traffic, errors and throttling.

/// How a counter changed between two of its values, of which the second is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rise {
    /// It counted this much.
    By(u64),
    /// It fell, so it was reset: it began again at zero and counted this much since. What it counted between the
    /// first value and the reset is unknown.
    SinceReset(u64),
}

impl Rise {
    /// The change from one value to a later one.
    #[inline]
    #[must_use]
    pub const fn between(before: u64, now: u64) -> Self {
        match now.checked_sub(before) {
            Some(by) => Self::By(by),
            None => Self::SinceReset(now),
        }
    }

    /// What is known to be counted: the least that a total grows.
    #[must_use]
    pub const fn counted(self) -> u64 {
        match self {
            Self::By(count) | Self::SinceReset(count) => count,
        }
    }

    /// What was counted in the whole time between both values, for a mean over that time; `None` if a part of
    /// it is unknown.
    #[must_use]
    pub const fn complete(self) -> Option<u64> {
        match self {
            Self::By(count) => Some(count),
            Self::SinceReset(_) => None,
        }
    }

    /// Whether the counter was reset.
    #[must_use]
    pub const fn is_reset(self) -> bool {
        matches!(self, Self::SinceReset(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_value_is_a_reset() {
        let rise = Rise::between(1_000, 1_300);
        assert_eq!((rise.counted(), rise.complete(), rise.is_reset()), (300, Some(300), false));
        assert_eq!(Rise::between(1_000, 1_000), Rise::By(0));
        let reset = Rise::between(1_000, 20);
        assert_eq!((reset.counted(), reset.complete(), reset.is_reset()), (20, None, true));
        assert_eq!(Rise::between(u64::MAX, 0), Rise::SinceReset(0));
    }
}
