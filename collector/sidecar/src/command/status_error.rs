//! Why a run in progress cannot be shown.

use std::io;

use phasemeter_bill::status::SummaryError;

/// Why there is no report of a run in progress.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The address is malformed, or has no such host.
    #[error("{0}: not an address; expected HOST:PORT, like 127.0.0.1:8081")]
    Address(String),
    /// Nothing listens there.
    #[error(
        "{address}: nothing answers; start `phasemeter run`, `agent` or `gateway` with --health-listen {address}"
    )]
    Connect {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The connection broke, or took too long.
    #[error("{address}: the answer was cut; try again")]
    Cut {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It does not answer with a report.
    #[error(
        "{address}: {answer}; try again, or check that it is the --health-listen of Phasemeter, at a loopback address or localhost"
    )]
    Refused {
        /// The address.
        address: String,
        /// Its status and the first line of its answer.
        answer: String,
    },
    /// The answer is not a report.
    #[error("{0}: {1}")]
    Report(String, SummaryError),
}
