//! None.
fn main() {}
