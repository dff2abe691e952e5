//! Windows written down as policies are shown them, to test others against.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use phasemeter_rules::fixture;
use phasemeter_rules::window::Window;

use super::Failure;

/// Where windows are written to.
pub(super) struct Dump {
    path: PathBuf,
    written: u64,
}

impl Dump {
    /// Into the folder of this name, where there is one; else into a file of it, which holds the
    /// last window.
    pub(super) fn to(path: &Path) -> Self {
        Self { path: path.to_owned(), written: 0 }
    }

    /// Writes a window.
    pub(super) fn write(&mut self, window: &Window) -> Result<(), Failure> {
        self.written += 1;
        let path = if self.path.is_dir() {
            self.path.join(format!("{:04}.window.json", self.written))
        } else {
            self.path.clone()
        };
        let write = || {
            let mut file = BufWriter::new(File::create(&path)?);
            fixture::write_window(window, &mut file)?;
            file.flush()
        };
        write().map_err(|source| Failure::Write { path: path.clone(), source })
    }
}
