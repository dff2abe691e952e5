//! The built library where programs look for it.
//!
//! Every test installs its own copy: a library keeps its state by its path, so tests in one process
//! do not meet.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::control::{Control, ControlError};
use crate::model::Model;
use crate::script::ScriptError;

/// The environment variable that names the script.
pub const SCRIPT_VARIABLE: &str = "FAKE_NVML_SCRIPT";

/// What cargo calls the shared library.
const BUILT: &str = "libfake_nvml.so";

/// A fake NVML in a folder, with its script.
#[derive(Clone, Debug)]
pub struct Fake {
    folder: PathBuf,
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
        /// The executable that asks.
        executable: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot install the fake NVML in {folder}")]
    Write {
        /// Where it should go.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Fake {
    /// Copies the library into `folder` as `libnvidia-ml.so.1` and writes its script beside it.
    ///
    /// # Errors
    /// Where the library was not built or the folder cannot be written.
    pub fn install(folder: &Path, script: &str) -> Result<Self, InstallError> {
        let write = |source| InstallError::Write { folder: folder.to_owned(), source };
        let fake = Self { folder: folder.to_owned() };
        fs::copy(built()?, fake.library()).map_err(write)?;
        fs::write(fake.script(), script).map_err(write)?;
        Ok(fake)
    }

    /// The library: for `Nvml::builder().lib_path(…)`.
    #[must_use]
    pub fn library(&self) -> PathBuf {
        self.folder.join("libnvidia-ml.so.1")
    }

    /// The script.
    #[must_use]
    pub fn script(&self) -> PathBuf {
        self.folder.join("script.toml")
    }

    /// What a program's environment needs to find this driver and no other.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        [
            ("LD_LIBRARY_PATH", self.folder.clone().into_os_string()),
            (SCRIPT_VARIABLE, self.script().into_os_string()),
        ]
    }

    /// Loads the library into this process and hands it the script.
    ///
    /// # Errors
    /// Where the library cannot be loaded.
    pub fn load(&self) -> Result<Control, ControlError> {
        let control = Control::open(&self.library())?;
        control.set_script(&self.script())?;
        Ok(control)
    }

    /// The same script as the library's, to ask what was true.
    ///
    /// # Errors
    /// Where the script cannot be read or understood.
    pub fn model(&self) -> Result<Model, ScriptError> {
        Model::load(&self.script())
    }
}

/// The built library: beside a test's executable, or in `deps` beside any other.
fn built() -> Result<PathBuf, InstallError> {
    let executable = env::current_exe().unwrap_or_default();
    let folder = executable.parent().unwrap_or(Path::new(""));
    let places = [folder.join(BUILT), folder.join("deps").join(BUILT)];
    places.into_iter().find(|place| place.is_file()).ok_or(InstallError::NotBuilt { executable })
}
