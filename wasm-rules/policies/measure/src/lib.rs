//! Names missing information, and what a profile would decide.
//!
//! A need is given instead of a recommendation that would be a guess: which column, attribute or setting
//! is missing, for which GPUs, and what it would tell.

mod change;
mod change_text;
mod load;
mod needs;
mod profiles;
mod troughs;

use phasemeter_policy::{Response, Window};

phasemeter_policy::settings! {
    /// Observed time below which a run is too short to judge, in seconds.
    min_seconds: number = 1790.0 in 0.0..=86400.0;
    /// Share of unobserved time from which it is missing.
    max_unobserved: number = 0.2 in 0.0..=1.0;
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let mut recommendations = profiles::recommend(settings, window);
    recommendations.extend(troughs::recommend(settings, window));
    let changes = change_text::response(&change::changes(settings, window), window);
    recommendations.extend(changes.recommendations);
    Response::of(recommendations, needs::needs(settings, window).into_iter().chain(changes.needs))
}

phasemeter_policy::recommender!(fn recommend);
