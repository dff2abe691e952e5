//! A wall clock that tests set while the binary runs, by a preloaded library. Other clocks, and those of
//! other processes, are not affected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The wall clock of one command.
pub(crate) struct WallClock {
    dir: TempDir,
}

impl WallClock {
    /// A clock that is right. Builds the library with the C compiler, which Rust needs to link.
    pub(crate) fn new() -> Self {
        let clock = Self { dir: TempDir::new().unwrap() };
        clock.set(0);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wall_clock/preload.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
        let built = compiler.arg(clock.library()).arg(source).status().unwrap();
        assert!(built.success(), "cc: {built}");
        clock
    }

    /// Lets the command see this clock.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.library()).env("WALL_CLOCK_OFFSET", self.offset());
    }

    /// Sets the clock to this many seconds from now; negative ones are in the past.
    pub(crate) fn set(&self, seconds: i64) {
        let new = self.dir.path().join("new");
        fs::write(&new, seconds.to_string()).unwrap();
        fs::rename(new, self.offset()).unwrap();
    }

    fn library(&self) -> PathBuf {
        self.dir.path().join("preload.so")
    }

    fn offset(&self) -> PathBuf {
        self.dir.path().join("offset")
    }
}
