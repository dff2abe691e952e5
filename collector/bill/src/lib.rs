//! What follows from reports: who pays, whether a change worked, cost data for FinOps tools, and tracks in a profile.
//!
//! ```text
//! JSON report → Report → Biller → Bill → text, JSON
//!                      → Pair → Comparison → text, JSON; trial → Record → JSON
//!                      → Overlay → profile with tracks
//!             → Summary → page, live view
//! ```
//!
//! Reads reports through types of its own, which accept only what they need. Money stays an integer
//! in nano-dollars, and every sum equals that of its reports.

#![forbid(unsafe_code)]

// Reports.
mod amount;
mod calendar;
mod division;
pub mod error;
pub mod holder;
pub mod read;
mod read_error;
pub mod report;
mod validate;

// Bills.
pub mod bill;
pub mod dimension;
pub mod gpu_names;
pub mod invoice;
mod notes;
mod payer;
mod sessions;
mod spread;
pub mod totals;
mod workload;

// Runs in progress.
pub mod status;

// Comparisons.
pub mod compare;
pub mod trial;

// Profiles.
pub mod overlay;

// Output.
pub mod bill_json;
pub mod bill_text;
pub mod csv;
pub mod focus;
mod format;
pub mod printed_bill;
