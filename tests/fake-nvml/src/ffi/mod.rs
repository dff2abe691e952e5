//! The C library: NVML's functions over a [`Model`](crate::Model), each a line or two.
//!
//! A parameter's type says what NVML's contract says of it ([`raw`]), so that only that room, and
//! the exports as such, are unsafe. Nothing here panics: pointers are checked for null, handles are
//! numbers looked up in tables, locks are recovered from poison.
//!
//! What is not written here answers `NVML_ERROR_NOT_SUPPORTED` ([`stubs`]).
#![allow(unsafe_code, reason = "C calls it: exported names, and pointers that C gives")]
#![allow(non_snake_case, reason = "NVML's names")]

mod call;
mod control;
mod events;
mod gpm;
mod identity;
mod lifecycle;
mod processes;
mod raw;
mod readings;
mod samples;
mod session;
mod stubs;
