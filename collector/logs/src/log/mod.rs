//! What logs of every format share: opening and decompressing, lines, rejected rows, and checks of their clocks.

#[cfg(test)]
pub(crate) mod chunked_reader;
pub(crate) mod clock_jump;
mod given_model;
pub(crate) mod lines;
mod rejected;
pub(crate) mod stream;

pub use given_model::GivenModel;
pub use rejected::{RejectedRow, RejectedRows};
pub use stream::{Input, OpenedInputs, decode};
