//! What policies are asked and should answer, recorded in files that people read and edit: JSON,
//! an object a line or more, a list in one line.
//!
//! ```text
//! NAME.window.json    what a recommender is shown   phasemeter.window/0.1
//! NAME.advice.json    what it should answer         phasemeter.advice/0.1
//! NAME.request.json   what a pricer is asked        phasemeter.quote-request/0.1
//! NAME.quote.json     what it should answer         phasemeter.quote/0.1
//! ```
//!
//! Each names what it is in `schema`, and a key that is not known is refused. What is read back is
//! what was written, to the last bit: instants, times and money are whole numbers of nanoseconds
//! and nano-USD, doubles have all the digits they need, and `null` stands for a number, or a quote,
//! that is not there. Instants are above 2^53, so what reads them as doubles loses their last
//! digits. This room must not know where questions come from, nor who answers them.

mod advice;
mod layout;
mod price;
mod quote;
mod request;
mod value;
mod window;

use std::io::{self, Write};

use serde::de::DeserializeOwned;

use crate::error::{Violation, join};
use crate::quote::{Quote, QuoteRequest};
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
    promised(file, window::violations(&window))?;
    Ok(window)
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

/// Writes a quote request.
///
/// # Errors
/// Where `out` cannot be written to.
pub fn write_request(request: &QuoteRequest, out: impl Write) -> io::Result<()> {
    layout::write(&request::File::from(request), out)
}

/// Reads a quote request; `file` is named where it is wrong.
///
/// # Errors
/// Unless it is one, as the contract has it.
pub fn read_request(file: &str, json: &[u8]) -> Result<QuoteRequest, Unusable> {
    let request = parse::<request::File>(file, json)?.into();
    promised(file, request::violations(&request))?;
    Ok(request)
}

/// Writes a quote, or that there is none.
///
/// # Errors
/// Where `out` cannot be written to.
pub fn write_quote(quote: Option<&Quote>, out: impl Write) -> io::Result<()> {
    layout::write(&quote::File::from(quote), out)
}

/// Reads a quote, or that there is none; `file` is named where it is wrong. Whether a policy might
/// give it is not asked: it is there to be compared.
///
/// # Errors
/// Unless it is one.
pub fn read_quote(file: &str, json: &[u8]) -> Result<Option<Quote>, Unusable> {
    parse::<quote::File>(file, json).map(Into::into)
}

fn parse<T: DeserializeOwned>(file: &str, json: &[u8]) -> Result<T, Unusable> {
    serde_json::from_slice(json).map_err(|source| Unusable::Json { file: file.to_owned(), source })
}

fn promised(file: &str, violations: Vec<Violation>) -> Result<(), Unusable> {
    if violations.is_empty() {
        Ok(())
    } else {
        Err(Unusable::Impossible { file: file.to_owned(), violations })
    }
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
    /// No policy would ever be shown, or asked, this.
    #[error("{file}: {}", join(violations))]
    Impossible {
        /// Which file.
        file: String,
        /// Everything that is wrong.
        violations: Vec<Violation>,
    },
}
