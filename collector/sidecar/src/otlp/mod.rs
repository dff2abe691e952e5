//! What goes on the wire, and how it gets there.

pub mod client;
