//! The contract, as wit-bindgen writes it: the only room that knows there are two worlds.
#![allow(missing_docs, clippy::all, unused_qualifications, reason = "generated")]

/// The world of advice.
pub mod advice {
    wit_bindgen::generate!({
        path: "wit/v0.1",
        world: "recommender-policy",
        pub_export_macro: true,
        default_bindings_module: "phasemeter_policy::bindings::advice",
        with: {
            "phasemeter:policy/types@0.1.0": phasemeter_policy_prices::phasemeter::policy::types,
            "phasemeter:policy/log@0.1.0": phasemeter_policy_prices::phasemeter::policy::log,
        },
    });
}

/// The world of prices.
pub use phasemeter_policy_prices as prices;
