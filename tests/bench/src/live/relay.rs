//! Counts the bytes on the wire: a TCP relay to an address.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::BenchError;

/// A local port that forwards to another.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    sent: Arc<AtomicU64>,
}

impl Relay {
    /// Opens a relay, which runs until the program ends.
    pub(super) fn to(target: SocketAddr) -> Result<Self, BenchError> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::Network)?;
        let address = listener.local_addr().map_err(BenchError::Network)?;
        let sent = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&sent);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                // The client notices a broken connection itself.
                thread::spawn(move || _ = relay(client, target, &counted));
            }
        });
        Ok(Self { address, sent })
    }

    /// Bytes sent to the target so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

fn relay(mut client: TcpStream, target: SocketAddr, counted: &AtomicU64) -> io::Result<()> {
    let mut server = TcpStream::connect(target)?;
    let (mut responses, mut back) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let copied = io::copy(&mut responses, &mut back);
        copied.and_then(|_| back.shutdown(Shutdown::Write))
    });
    let mut buffer = [0; 8 * 1024];
    loop {
        let read = client.read(&mut buffer)?;
        if read == 0 {
            return server.shutdown(Shutdown::Write);
        }
        server.write_all(buffer.get(..read).unwrap_or_default())?;
        counted.fetch_add(read as u64, Ordering::Relaxed);
    }
}
