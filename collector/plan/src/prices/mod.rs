//! `prices`: what a price book lists, how old it is, and how two books differ.

mod age;
mod diff;
mod list;

pub use self::age::age;
pub use self::diff::diff;
pub use self::list::{Filter, list, show};
