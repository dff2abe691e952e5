//! Text for people: pages of 80 columns, tables, charts and numbers.
//!
//! ```text
//! numbers, money → tables, charts, facts → Page → text
//! ```
//!
//! No text exceeds the page, and text of others cannot send control sequences to the terminal. No I/O.

#![forbid(unsafe_code)]

pub mod chart;
pub mod duration;
pub mod escape;
pub mod json_escape;
pub mod money;
pub mod number;
pub mod page;
pub mod percent;
pub mod printed;
pub mod quantity;
pub mod table;
pub mod wrap;
