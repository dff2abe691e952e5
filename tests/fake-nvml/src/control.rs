//! Controls a loaded fake: its script and its virtual time.
#![allow(unsafe_code, reason = "loading a library and calling into it cannot be checked")]

use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libloading::Library;
use phasemeter_meter::units::Nanos;

/// A fake NVML loaded into this process. The library stays loaded for as long as this exists, so
/// drop it before testing a driver reload.
#[derive(Debug)]
pub struct Control {
    library: Library,
    path: PathBuf,
}

/// Why a fake cannot be controlled.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The library cannot be loaded or is not a fake NVML.
    #[error("cannot load {path} as a fake NVML")]
    Load {
        /// The library.
        path: PathBuf,
        /// The loader's error.
        source: libloading::Error,
    },
    /// A path that cannot be passed to C.
    #[error("{path} contains a zero byte")]
    ZeroByte {
        /// The path.
        path: PathBuf,
    },
}

impl Control {
    /// Loads a fake. Loading the same path again in this process returns the same library.
    ///
    /// # Errors
    /// Returns an error if the file cannot be loaded.
    pub fn open(path: &Path) -> Result<Self, ControlError> {
        // SAFETY: the fake has only Rust's own initializers; loading any other library is the
        // test's mistake, and no worse than running it.
        let loaded = unsafe { Library::new(path) };
        let load = |source| ControlError::Load { path: path.to_owned(), source };
        Ok(Self { library: loaded.map_err(load)?, path: path.to_owned() })
    }

    /// Sets virtual time to `t` after the script's start and wakes calls that wait for it. No effect
    /// in real time.
    ///
    /// # Errors
    /// Returns an error if the library is not a fake NVML.
    pub fn set_time(&self, t: Nanos) -> Result<(), ControlError> {
        // SAFETY: `ffi::control` defines it with this signature.
        let found = unsafe { self.library.get::<extern "C" fn(u64)>(b"fakeNvmlSetTime\0") };
        found.map_err(|source| self.not_a_fake(source))?(t.0);
        Ok(())
    }

    /// Virtual time since the script's start.
    ///
    /// # Errors
    /// Returns an error if the library is not a fake NVML.
    pub fn time(&self) -> Result<Nanos, ControlError> {
        // SAFETY: `ffi::control` defines it with this signature.
        let found = unsafe { self.library.get::<extern "C" fn() -> u64>(b"fakeNvmlTime\0") };
        Ok(Nanos(found.map_err(|source| self.not_a_fake(source))?()))
    }

    /// Sets the script that the next `nvmlInit` plays, overriding the environment.
    ///
    /// # Errors
    /// Returns an error if the library is not a fake NVML or the path contains a zero byte.
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
