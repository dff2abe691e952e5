//! The world of prices, and what both worlds speak of, as wit-bindgen writes it.
//!
//! A crate of its own, because the macros that it exports have the same names in both worlds.
//! Policies name the crate `phasemeter-policy`, not this one.
#![allow(missing_docs, clippy::all, unused_qualifications, reason = "generated")]

wit_bindgen::generate!({
    path: "../wit/v0.1",
    world: "pricing-policy",
    pub_export_macro: true,
    default_bindings_module: "phasemeter_policy::bindings::prices",
});
