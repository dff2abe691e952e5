//! Price books of the user, read from files and laid over the built-in one.

use std::io;
use std::path::{Path, PathBuf};

use phasemeter_meter::price::user_book::{self, BookError};
use phasemeter_meter::price::{BookRow, PriceBook};

/// The largest book that is read: a million rows.
const MAX_BYTES: u64 = 128 << 20;

/// The name of the built-in book, in place of a file.
pub const BUILT_IN: &str = "built-in";

/// Why a price book cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BookFileError {
    /// It cannot be read.
    #[error("{}: cannot be read; check its name and permissions", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It is too large.
    #[error("{}: is larger than 128 MiB; keep the instance types in use only", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not UTF-8.
    #[error("{}: is not UTF-8; save it as CSV in UTF-8", .path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// A line of it is invalid.
    #[error("{}: {error}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The error.
        error: BookError,
    },
}

impl BookFileError {
    /// Whether the file could not be opened or read.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable { .. })
    }
}

/// The built-in book with these files over it, in order.
///
/// # Errors
/// Returns an error if a file cannot be read or is invalid.
pub fn load(paths: &[PathBuf]) -> Result<PriceBook, BookFileError> {
    paths.iter().try_fold(PriceBook::built_in(), |book, path| Ok(book.overlaid(rows(path)?)))
}

/// The book of a file alone, or the built-in one.
///
/// # Errors
/// Returns an error if the file cannot be read or is invalid.
pub fn load_alone(path: &Path) -> Result<PriceBook, BookFileError> {
    if path.as_os_str() == BUILT_IN {
        return Ok(PriceBook::built_in());
    }
    rows(path).map(PriceBook::of)
}

fn rows(path: &Path) -> Result<Vec<BookRow>, BookFileError> {
    let text = read(path)?;
    let source = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    user_book::parse(&text, &source)
        .map_err(|error| BookFileError::Invalid { path: path.to_owned(), error })
}

/// The text of a file.
fn read(path: &Path) -> Result<String, BookFileError> {
    let path = path.to_owned();
    let file = std::fs::File::open(&path);
    match file.and_then(|file| phasemeter_files::read(file, MAX_BYTES)) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(BookFileError::TooLarge { path })
        }
        Err(source) => Err(BookFileError::Unreadable { path, source }),
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| BookFileError::NotText { path }),
    }
}
