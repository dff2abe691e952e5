//! The C library: NVML's functions on a [`Model`](crate::Model), each a line or two.
//!
//! A parameter's type expresses its NVML contract ([`raw`]), so that only that module and the
//! exports themselves are unsafe. Nothing here panics: pointers are checked for null, handles are
//! numbers looked up in tables, poisoned locks are recovered.
//!
//! Functions not implemented here return `NVML_ERROR_NOT_SUPPORTED` ([`stubs`]).
#![allow(unsafe_code, reason = "called from C: exported names and raw pointers")]
#![allow(non_snake_case, reason = "NVML's names")]

mod call;
mod control;
mod events;
mod fields;
mod gpm;
mod handles;
mod identity;
mod lifecycle;
mod load;
mod mig;
mod processes;
mod raw;
mod readings;
mod samples;
mod session;
mod stubs;
