//! Which endpoint a configuration is for.

/// Which endpoint is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// What the environment names. A signal that it names no endpoint for is not sent.
    Environment,
    /// What the environment names, else the specification's default on this machine:
    /// `http://localhost:4318`, with grpc `http://localhost:4317`.
    Default,
    /// This one, for every signal, whatever endpoint the environment names. It is read as
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` is.
    Endpoint(&'a str),
}
