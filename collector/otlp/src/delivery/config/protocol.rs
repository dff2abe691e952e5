//! The transports and encodings of OTLP.

use std::fmt::{self, Display, Formatter};

/// The transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Grpc,
    HttpProtobuf,
    HttpJson,
}

impl Protocol {
    /// Whether a request is one POST to a URL.
    pub(crate) const fn is_http(self) -> bool {
        matches!(self, Self::HttpProtobuf | Self::HttpJson)
    }
}

impl Display for Protocol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc => "grpc",
            Self::HttpProtobuf => "http/protobuf",
            Self::HttpJson => "http/json",
        })
    }
}

/// The compression of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
}
