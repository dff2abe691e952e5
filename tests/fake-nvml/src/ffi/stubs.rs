//! Every function of `symbols.txt` that no other module defines. `build.rs` generates the list.

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use super::call::{apply_faults, code, place_of};
use super::session;
use crate::error_code::ErrorCode;

/// In the C calling convention a function may ignore all parameters but the first.
macro_rules! stubs {
    ($(fn $name:ident();)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(first: nvmlDevice_t) -> nvmlReturn_t {
            unsupported(stringify!($name), first)
        }
    )*};
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));

/// Returns "not supported" unless a fault applies. If the first parameter can be a device handle it is
/// treated as one, since a lost GPU fails every call.
fn unsupported(function: &str, first: nvmlDevice_t) -> nvmlReturn_t {
    code(session::current().and_then(|session| {
        let index = place_of(first).map(|(index, _)| index);
        let index = index.filter(|index| *index < session.model.devices.len());
        let device = index.filter(|_| function.starts_with("nvmlDevice"));
        apply_faults(&session, function, device)?;
        Err(ErrorCode::NotSupported)
    }))
}
