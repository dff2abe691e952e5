//! Test controls of the library: `crate::Control` calls them from Rust, `ctypes` from Python.

use std::path::PathBuf;

use super::raw::Text;
use super::session;

/// Sets virtual time to `nanos` after the script's start.
#[unsafe(no_mangle)]
extern "C" fn fakeNvmlSetTime(nanos: u64) {
    session::set_virtual_time(nanos);
}

/// Virtual time, in nanoseconds after the script's start.
#[unsafe(no_mangle)]
extern "C" fn fakeNvmlTime() -> u64 {
    session::virtual_time().0
}

/// Sets the script that the next `nvmlInit` plays.
#[unsafe(no_mangle)]
extern "C" fn fakeNvmlSetScript(path: Text) {
    if let Ok(path) = path.get() {
        session::set_script(PathBuf::from(path));
    }
}
