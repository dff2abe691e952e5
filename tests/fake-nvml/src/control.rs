//! A handle on a loaded fake: which script it plays, and its virtual time.
#![allow(unsafe_code, reason = "loading a library and calling into it cannot be checked")]

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::Library;
use phasemeter_meter::units::Nanos;

/// A fake NVML that is loaded into this process. While it is held the library is not unloaded, so
/// a driver reload needs it dropped first.
#[derive(Debug)]
pub struct Control {
    library: Library,
    path: PathBuf,
}

/// Why a fake cannot be controlled.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It cannot be loaded, or is no fake.
    #[error("{path} is not a fake NVML that can be loaded")]
    Load {
        /// The library.
        path: PathBuf,
        /// What the loader says.
        source: libloading::Error,
    },
    /// A path that C cannot say.
    #[error("{path} contains a zero byte")]
    ZeroByte {
        /// The path.
        path: PathBuf,
    },
}

impl Control {
    /// Loads a fake. Whoever loads the same path in this process gets the same one.
    ///
    /// # Errors
    /// Where the file cannot be loaded.
    pub fn open(path: &Path) -> Result<Self, ControlError> {
        // SAFETY: the fake's initializers are Rust's own; any other library at this path is the
        // test's mistake, and no worse than running it.
        let loaded = unsafe { Library::new(path) };
        let load = |source| ControlError::Load { path: path.to_owned(), source };
        Ok(Self { library: loaded.map_err(load)?, path: path.to_owned() })
    }

    /// Moves virtual time to `t` after the script's start; calls that wait for it go on. Real time
    /// ignores it.
    ///
    /// # Errors
    /// Where the library is no fake.
    pub fn set_time(&self, t: Nanos) -> Result<(), ControlError> {
        // SAFETY: `ffi::control` defines it with this signature.
        let found = unsafe { self.library.get::<extern "C" fn(u64)>(b"fakeNvmlSetTime\0") };
        found.map_err(|source| self.not_a_fake(source))?(t.0);
        Ok(())
    }

    /// Names the script that the next `nvmlInit` plays, instead of the environment's.
    ///
    /// # Errors
    /// Where the library is no fake or the path contains a zero byte.
    pub fn set_script(&self, path: &Path) -> Result<(), ControlError> {
        let zero = |_| ControlError::ZeroByte { path: path.to_owned() };
        let text = CString::new(path.as_os_str().as_bytes()).map_err(zero)?;
        // SAFETY: `ffi::control` defines it with this signature; it copies the text.
        let found =
            unsafe { self.library.get::<extern "C" fn(*const c_char)>(b"fakeNvmlSetScript\0") };
        found.map_err(|source| self.not_a_fake(source))?(text.as_ptr());
        Ok(())
    }

    fn not_a_fake(&self, source: libloading::Error) -> ControlError {
        ControlError::Load { path: self.path.clone(), source }
    }
}
