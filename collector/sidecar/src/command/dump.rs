//! Dumps the windows that policies evaluate, for testing other policies.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use phasemeter_rules::fixture;
use phasemeter_rules::window::Window;

use super::error::CommandError;
use super::files;

/// Writes windows to a path.
pub(super) struct Dump {
    path: PathBuf,
    written: u64,
}

impl Dump {
    /// Writes to files in this directory if it exists, else to this file, which keeps the last
    /// window.
    pub(super) fn to(path: &Path) -> Self {
        Self { path: path.to_owned(), written: 0 }
    }

    /// Writes a window.
    pub(super) fn write(&mut self, window: &Window) -> Result<(), CommandError> {
        self.written += 1;
        let path = if self.path.is_dir() {
            self.path.join(format!("{:04}.window.json", self.written))
        } else {
            self.path.clone()
        };
        let write = || {
            let mut file = BufWriter::new(files::open_empty(&path, files::PUBLIC)?);
            fixture::write_window(window, &mut file)?;
            file.flush()
        };
        write().map_err(CommandError::write(&path))
    }
}
