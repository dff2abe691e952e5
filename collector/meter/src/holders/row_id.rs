//! Identifies a row of the table of holders.

/// A row. Later ones have larger numbers.
pub(super) type RowId = u64;
