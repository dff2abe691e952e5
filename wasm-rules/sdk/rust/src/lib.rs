//! Writes policies for Phasemeter: advice and prices, in WebAssembly, in some twenty lines.
//!
//! ```
//! use phasemeter_policy::words::percent;
//! use phasemeter_policy::{Gpu, Policy, Recommendation, Recommender, Saving, Target, Window};
//!
//! phasemeter_policy::settings! {
//!     /// A GPU is named from this share of its observed time free on.
//!     free_share: number = 0.5 in 0.0..=1.0;
//! }
//!
//! struct Release;
//!
//! impl Policy for Release {
//!     const NAME: &'static str = "release";
//!     const VERSION: &'static str = env!("CARGO_PKG_VERSION");
//!     const SUMMARY: &'static str = "Advises to give back GPUs that nobody holds.";
//!     type Settings = Settings;
//! }
//!
//! impl Recommender for Release {
//!     fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
//!         let free = |gpu: &Gpu| gpu.share(|accounts| accounts.idle_free);
//!         let idle = window.gpus.iter().filter(|gpu| free(gpu) >= settings.free_share);
//!         idle.map(|gpu| Recommendation {
//!             code: "release.free".into(),
//!             target: Target::Idle,
//!             lever: "autoscale".into(),
//!             title: "Give this GPU back".into(),
//!             action: "Scale its node group down while nothing runs on it.".into(),
//!             rationale: format!("It was free for {} of its time.", percent(free(gpu))),
//!             saving: Saving::part(gpu.lost_idle(), [0.5, 0.8, 0.9]),
//!             confidence: gpu.certainty(),
//!             evidence: vec![("free.share".into(), free(gpu))],
//!             gpus: vec![gpu.id.clone()],
//!         })
//!         .collect()
//!     }
//! }
//!
//! phasemeter_policy::recommender!(Release);
//! # fn main() {}
//! ```
//!
//! `cargo build --release --target wasm32-unknown-unknown` makes the policy of it, `cargo test`
//! tests it natively, on windows that [`testing`] makes. The contract itself is in `wit/`: every
//! field with its meaning, unit and range.

pub mod bindings;
mod export;
mod gpu;
mod saving;

pub mod column;
pub mod log;
pub mod settings;
pub mod testing;
pub mod words;

pub use bindings::advice::exports::phasemeter::policy::recommender::{
    Account, Accounts, Gpu, Pattern, PatternKind, Recommendation, Saving, Target, Waste, Window,
};
pub use bindings::prices::exports::phasemeter::policy::pricer::{Quote, QuoteRequest};
pub use bindings::prices::phasemeter::policy::types::{Plan, Price};
pub use export::{ExportedPricer, ExportedRecommender};
pub use gpu::{groups, same_model};
pub use saving::{MOST_HEADROOM, recovered, targets};
pub use settings::{Given, SettingError, Value};

/// What every policy is.
pub trait Policy {
    /// 1–64 of `a`–`z`, `0`–`9` and `-`, a letter first. A policy replaces one of the same name.
    const NAME: &'static str;
    /// For people: `env!("CARGO_PKG_VERSION")`.
    const VERSION: &'static str;
    /// What it does, in one line of at most 200 bytes.
    const SUMMARY: &'static str;
    /// What can be set, as [`settings!`] makes it; `()` for nothing.
    type Settings: settings::Settings;
}

/// A policy that advises.
pub trait Recommender: Policy {
    /// Its advice on a window: at most 64 recommendations. None is a good answer.
    fn recommend(settings: &Self::Settings, window: &Window) -> Vec<Recommendation>;
}

/// A policy that prices.
pub trait Pricer: Policy {
    /// What such a GPU costs; `None` for "not mine, ask the next".
    fn quote(settings: &Self::Settings, request: &QuoteRequest) -> Option<Quote>;
}
