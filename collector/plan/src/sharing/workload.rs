//! A workload that shares a GPU.

use crate::units::{Ratio, Size};

/// A workload as measured alone on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Peak memory.
    pub memory: Size,
    /// Utilization of the whole GPU.
    pub utilization: Ratio,
}
