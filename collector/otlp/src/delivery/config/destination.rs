//! The endpoint that a configuration uses.

/// The endpoint to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// The endpoint in the environment. A signal without one is not exported.
    Environment,
    /// The endpoint in the environment, else the specification's default: `http://localhost:4318`,
    /// for gRPC `http://localhost:4317`.
    Default,
    /// This endpoint for every signal, whatever the environment contains; parsed like
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`.
    Endpoint(&'a str),
}
