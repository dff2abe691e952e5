//! Every function of `symbols.txt` that no other room defines. `build.rs` writes the list.

use nvml_wrapper_sys::bindings::{nvmlDevice_t, nvmlReturn_t};

use super::call::{code, index_of, meet};
use super::session;
use crate::refusal::Refusal;

/// Whatever a function's parameters are, C lets it look at the first only.
macro_rules! stubs {
    ($(fn $name:ident();)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(first: nvmlDevice_t) -> nvmlReturn_t {
            unsupported(stringify!($name), first)
        }
    )*};
}

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));

/// Not supported, unless a fault says otherwise. What stands first is a device's handle where it
/// could be one: a GPU that is lost says so on every call.
fn unsupported(function: &str, first: nvmlDevice_t) -> nvmlReturn_t {
    code(session::current().and_then(|session| {
        let index = index_of(first).filter(|index| *index < session.model.devices.len());
        let device = index.filter(|_| function.starts_with("nvmlDevice"));
        meet(&session, function, device)?;
        Err(Refusal::NotSupported)
    }))
}
