//! Phasemeter.
fn main() {}
