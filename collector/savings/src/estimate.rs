//! An estimated value: low, expected and high.

/// Three values: low ≤ expected ≤ high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Estimate<T> {
    /// Lower bound.
    pub low: T,
    /// Expected value.
    pub expected: T,
    /// Upper bound.
    pub high: T,
}

impl<T: Copy> Estimate<T> {
    /// An exact value: low, expected and high are equal.
    pub const fn of(known: T) -> Self {
        Self { low: known, expected: known, high: known }
    }
}

impl<T> Estimate<T> {
    /// Applies `f` to each value. The order is preserved if `f` is monotonic.
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Estimate<U> {
        Estimate { low: f(self.low), expected: f(self.expected), high: f(self.high) }
    }

    /// Combines low with low, expected with expected, high with high. The order is preserved if `f`
    /// is monotonic in both arguments.
    pub fn zip<U, V>(self, other: Estimate<U>, f: impl Fn(T, U) -> V) -> Estimate<V> {
        Estimate {
            low: f(self.low, other.low),
            expected: f(self.expected, other.expected),
            high: f(self.high, other.high),
        }
    }
}
