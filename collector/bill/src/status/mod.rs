//! A run in progress, from its report so far: a page, and a live view.

mod page;
mod screen;
mod summary;
#[cfg(test)]
mod tests;

pub use page::render;
pub use screen::{Key, Screen};
pub use summary::{
    Summary, SummaryCost, SummaryError, SummaryGpu, SummaryPhase, SummaryPhases,
    SummaryRecommendation,
};
