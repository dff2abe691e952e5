//! SIGINT and SIGTERM as a request to end: what is open is closed, and nothing is lost.
//!
//! They are received on a thread, so that whoever waits for something else is woken. This room must
//! not know what ends.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Receives these signals until it is dropped.
pub(super) struct Interrupt {
    receiver: Receiver<()>,
    handle: Handle,
}

impl Interrupt {
    /// From now on they end nothing by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            signals.forever().map_while(|_| sender.send(()).ok()).for_each(drop);
        })?;
        Ok(Self { receiver, handle })
    }

    /// Waits so long for one; whether one came.
    pub(super) fn comes_within(&self, wait: Duration) -> bool {
        match self.receiver.recv_timeout(wait) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            // The thread that receives is gone: waiting is all that is left.
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(wait);
                false
            }
        }
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.handle.close();
    }
}
