//! A number that is not known but estimated: low, expected and high.
//!
//! This room must not know what is estimated.

/// Three values of one kind: low ≤ expected ≤ high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Estimate<T> {
    /// At least, if all goes badly.
    pub low: T,
    /// What to count on.
    pub expected: T,
    /// At most, if all goes well.
    pub high: T,
}

impl<T: Copy> Estimate<T> {
    /// What is known: the same at worst and at best.
    pub const fn of(known: T) -> Self {
        Self { low: known, expected: known, high: known }
    }
}

impl<T> Estimate<T> {
    /// The same of each value. The order holds where `f` never falls.
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Estimate<U> {
        Estimate { low: f(self.low), expected: f(self.expected), high: f(self.high) }
    }

    /// The low value with the low one, and so on. The order holds where `f` never falls.
    pub fn zip<U, V>(self, other: Estimate<U>, f: impl Fn(T, U) -> V) -> Estimate<V> {
        Estimate {
            low: f(self.low, other.low),
            expected: f(self.expected, other.expected),
            high: f(self.high, other.high),
        }
    }
}
