//! Installs the built library where programs look for it.
//!
//! Every test installs its own copy: a library keeps its state per path, so tests in one process do
//! not share any.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::control::{Control, ControlError};
use crate::model::Model;
use crate::script::ScriptError;

/// The environment variable that names the script.
pub const SCRIPT_VARIABLE: &str = "FAKE_NVML_SCRIPT";

/// The environment variable for a fault of loading: the path of a file until whose existence it hangs, or
/// `abort`, which ends the process.
pub const LOAD_VARIABLE: &str = "FAKE_NVML_LOAD";

/// Cargo's file name for the shared library.
const BUILT: &str = "libfake_nvml.so";

/// A fake NVML in a directory, with its script.
#[derive(Clone, Debug)]
pub struct Fake {
    dir: PathBuf,
}

/// Why a fake could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The shared library is not where cargo puts it.
    #[error(
        "no {BUILT} beside {executable}: run this from a test, bench or example of a package \
             that depends on fake-nvml"
    )]
    NotBuilt {
        /// The running executable.
        executable: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot install the fake NVML in {dir}")]
    Write {
        /// The target directory.
        dir: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
}

impl Fake {
    /// Copies the library into `dir` as `libnvidia-ml.so.1` and writes its script beside it.
    ///
    /// # Errors
    /// Returns an error if the library was not built or the directory cannot be written.
    pub fn install(dir: &Path, script: &str) -> Result<Self, InstallError> {
        let fake = Self { dir: dir.to_owned() };
        fake.replace(script)?;
        Ok(fake)
    }

    /// Puts another library, with this script, in the place of the installed one, as an update of the driver does.
    /// A program that has loaded the old one keeps it.
    ///
    /// # Errors
    /// Returns an error if the library was not built or the directory cannot be written.
    pub fn replace(&self, script: &str) -> Result<(), InstallError> {
        let write = |source| InstallError::Write { dir: self.dir.clone(), source };
        let new = self.dir.join("new");
        fs::write(&new, script).and_then(|()| fs::rename(&new, self.script())).map_err(write)?;
        fs::copy(built()?, &new).and_then(|_| fs::rename(&new, self.library())).map_err(write)
    }

    /// Path of the library, for `Nvml::builder().lib_path(…)`.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.dir.join("libnvidia-ml.so.1")
    }

    /// Path of the script.
    #[must_use]
    pub fn script(&self) -> PathBuf {
        self.dir.join("script.toml")
    }

    /// The environment with which a program loads this driver and no other, and shares its GPUs with no program of
    /// another driver.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 3] {
        [
            ("LD_LIBRARY_PATH", self.dir.clone().into_os_string()),
            (SCRIPT_VARIABLE, self.script().into_os_string()),
            ("RUNTIME_DIRECTORY", self.dir.clone().into_os_string()),
        ]
    }

    /// Loads the library into this process and sets its script.
    ///
    /// # Errors
    /// Returns an error if the library cannot be loaded.
    pub fn load(&self) -> Result<Control, ControlError> {
        let control = Control::open(&self.library())?;
        control.set_script(&self.script())?;
        Ok(control)
    }

    /// The model of the same script, for the ground truth.
    ///
    /// # Errors
    /// Returns an error if the script cannot be read or is invalid.
    pub fn model(&self) -> Result<Model, ScriptError> {
        Model::load(&self.script())
    }
}

/// Finds the built library: beside a test's executable, or in `deps` beside any other, or beside the directory of an
/// example.
fn built() -> Result<PathBuf, InstallError> {
    let executable = env::current_exe().unwrap_or_default();
    let dir = executable.parent().unwrap_or(Path::new(""));
    let candidates = ["", "deps", "../deps"].map(|deps| dir.join(deps).join(BUILT));
    candidates.into_iter().find(|path| path.is_file()).ok_or(InstallError::NotBuilt { executable })
}
