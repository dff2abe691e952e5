//! Prices: a rate per GPU-hour with its provenance.
//!
//! A price is given by the user, quoted by a policy, or found in the [`PriceBook`], in that order.
//! Otherwise the GPU is [`Unpriced`], which is not free.

mod book;
mod listing;
mod plan;
mod priced;
mod row;
mod suggest;
mod unpriced;
pub mod user_book;

pub use book::{PriceBook, Query};
pub use listing::Listing;
pub use plan::{ParsePlanError, PaymentPlan};
pub use priced::{Price, PriceRange, STALE_AFTER_DAYS};
pub use row::{BookRow, LISTED_PLANS, ListedPrice};
pub use unpriced::Unpriced;
