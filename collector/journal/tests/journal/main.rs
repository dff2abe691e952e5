//! Runs that are killed and made again, from journals as they were written and from damaged ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

mod damage;
mod given_up;
mod made_again;
mod power;
mod run;
