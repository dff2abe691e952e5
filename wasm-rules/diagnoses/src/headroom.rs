//! Memory that a job keeps free.

/// Share of the memory that a job leaves free: inputs vary in length, and allocators fragment. An assumption.
pub const FREE_MEMORY: f64 = 0.1;

/// Share of the memory in use from which it is nearly full: the highest threshold of the published guides.
pub const NEARLY_FULL: f64 = 0.95;
