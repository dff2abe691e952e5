//! Where a stored request is.

/// A request that is stored and not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Its number in its stream.
    pub sequence: u64,
    /// The items in it.
    pub items: u64,
    /// When it was stored, in nanoseconds since 1970.
    pub stored_at: u64,
    /// Bytes of the payload.
    pub length: u32,
}

/// A pending request, and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) pending: Pending,
    /// The first sequence number of its segment.
    pub(crate) segment: u64,
    /// Of its record.
    pub(crate) offset: u64,
}
