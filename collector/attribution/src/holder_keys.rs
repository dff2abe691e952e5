//! What identifies a holder of a GPU.

/// What identifies a holder of a GPU, of which either is enough: a pod may be known by its UID or by its name. Without
/// any it is nobody, or one that no span names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderKeys([Option<u64>; 2]);

impl HolderKeys {
    /// Nobody.
    pub const NOBODY: Self = Self([None; 2]);

    /// A holder with these keys.
    #[must_use]
    pub const fn new(keys: [Option<u64>; 2]) -> Self {
        Self(keys)
    }

    /// Whether any key is of both.
    #[must_use]
    pub fn are_of(&self, other: &Self) -> bool {
        self.iter().any(|key| other.iter().any(|it| it == key))
    }

    /// The keys that are known.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter().flatten()
    }
}
