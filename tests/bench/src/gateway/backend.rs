//! A backend in this process: Phasemeter's receiver.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;

use phasemeter_otlp::EncodedRequest;
use phasemeter_receiver::{ListenAddress, Receiver, ReceiverConfig};

use crate::BenchError;

/// A backend, which runs until it is dropped.
pub(crate) struct Backend {
    receiver: Receiver,
    received: mpsc::Receiver<EncodedRequest>,
}

impl Backend {
    /// Listens on a free port.
    pub(crate) fn start() -> Result<Self, BenchError> {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listen = vec![ListenAddress::Tcp(free)];
        let config = ReceiverConfig { listen, ..ReceiverConfig::default() };
        let (receiver, received) = Receiver::start(config).map_err(|_| BenchError::Forwarding)?;
        Ok(Self { receiver, received })
    }

    /// Its address.
    pub(super) fn address(&self) -> SocketAddr {
        match self.receiver.addresses().first() {
            Some(ListenAddress::Tcp(address)) => *address,
            _ => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        }
    }

    /// Its endpoint.
    pub(crate) fn endpoint(&self) -> String {
        self.receiver.addresses().first().map(ListenAddress::endpoint).unwrap_or_default()
    }

    /// An endpoint where nothing listens.
    pub(crate) fn unreachable() -> Result<String, BenchError> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::Network)?;
        let address = listener.local_addr().map_err(BenchError::Network)?;
        Ok(format!("http://{address}"))
    }

    /// The next request, within this time.
    pub(crate) fn next(&self, within: Duration) -> Option<EncodedRequest> {
        self.received.recv_timeout(within).ok()
    }
}
