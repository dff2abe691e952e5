//! Recorded windows and the advice expected on them, as files that people read and edit: JSON, an
//! object a line or more, a list in one line.
//!
//! ```text
//! NAME.window.json   what a policy is shown   phasemeter.window/0.1
//! NAME.advice.json   what it should answer    phasemeter.advice/0.1
//! ```
//!
//! Both name what they are in `schema`, and a key that is not known is refused. What is read back
//! is what was written, to the last bit: instants, times and money are whole numbers of nanoseconds
//! and nano-USD, doubles have all the digits they need, and `null` stands for a number that is not
//! there. Instants are above 2^53, so what reads them as doubles loses their last digits. This
//! room must not know where windows come from, nor who judges them.

mod advice;
mod layout;
mod value;
mod window;

use std::io::{self, Write};

use serde::de::DeserializeOwned;

use crate::fault::{Violation, join};
use crate::recommendation::Recommendation;
use crate::window::Window;

/// Writes a window.
///
/// # Errors
/// Where `out` cannot be written to.
pub fn write_window(window: &Window, out: impl Write) -> io::Result<()> {
    layout::write(&window::File::from(window), out)
}

/// Reads a window; `file` is named where it is wrong.
///
/// # Errors
/// Unless it is one, as the contract has it.
pub fn read_window(file: &str, json: &[u8]) -> Result<Window, Unusable> {
    let window = parse::<window::File>(file, json)?.into();
    let violations = window::violations(&window);
    if violations.is_empty() {
        Ok(window)
    } else {
        Err(Unusable::Window { file: file.to_owned(), violations })
    }
}

/// Writes advice.
///
/// # Errors
/// Where `out` cannot be written to.
pub fn write_advice(advice: &[Recommendation], out: impl Write) -> io::Result<()> {
    layout::write(&advice::File::from(advice), out)
}

/// Reads advice; `file` is named where it is wrong. Whether a policy might give it is not asked: it
/// is there to be compared.
///
/// # Errors
/// Unless it is advice.
pub fn read_advice(file: &str, json: &[u8]) -> Result<Vec<Recommendation>, Unusable> {
    parse::<advice::File>(file, json).map(Into::into)
}

fn parse<T: DeserializeOwned>(file: &str, json: &[u8]) -> Result<T, Unusable> {
    serde_json::from_slice(json).map_err(|source| Unusable::Json { file: file.to_owned(), source })
}

/// Why a recorded file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It is no JSON, or not that of such a file.
    #[error("{file}: {source}")]
    Json {
        /// Which file.
        file: String,
        /// What is wrong, and in which line.
        source: serde_json::Error,
    },
    /// No policy would ever be shown this.
    #[error("{file}: {}", join(violations))]
    Window {
        /// Which file.
        file: String,
        /// Everything that is wrong.
        violations: Vec<Violation>,
    },
}
