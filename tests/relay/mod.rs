//! A TCP relay to an address, as the network between two programs: counts what it carries, delays it, and can be
//! cut, or carry nothing without a word. Shared by path.

#![allow(dead_code, reason = "each user uses a part")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are read at once, and how many such pieces are on their way at most in each direction.
const PIECE: usize = 64 * 1_024;
const PIECES: usize = 1_024;

/// A local port that forwards to another, until the program ends.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Where to connect to.
    pub(crate) address: SocketAddr,
    link: Arc<Link>,
}

#[derive(Debug)]
struct Link {
    target: Mutex<SocketAddr>,
    /// How long a byte is on its way, in each direction.
    delay: Duration,
    sent: AtomicU64,
    is_cut: AtomicBool,
    is_silent: AtomicBool,
    /// How often it has carried nothing for a time: older connections never carry anything again.
    silences: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// Opens a relay without a delay.
    pub(crate) fn to(target: SocketAddr) -> io::Result<Self> {
        Self::delayed(target, Duration::ZERO)
    }

    /// Opens a relay over which a request and its response take this long together.
    pub(crate) fn delayed(target: SocketAddr, round_trip: Duration) -> io::Result<Self> {
        Self::listening(([127, 0, 0, 1], 0).into(), target, round_trip / 2)
    }

    /// Opens a relay without a delay at this address.
    pub(crate) fn at(address: SocketAddr, target: SocketAddr) -> io::Result<Self> {
        Self::listening(address, target, Duration::ZERO)
    }

    fn listening(address: SocketAddr, target: SocketAddr, delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (sent, is_cut, is_silent, silences, open) = Default::default();
        let target = Mutex::new(target);
        let link = Arc::new(Link { target, delay, sent, is_cut, is_silent, silences, open });
        let accepting = Arc::clone(&link);
        thread::spawn(move || {
            // Both ends notice a broken connection themselves.
            listener.incoming().flatten().for_each(|client| _ = accepting.connect(client));
        });
        Ok(Self { address, link })
    }

    /// Bytes sent to the target so far.
    pub(crate) fn sent(&self) -> u64 {
        self.link.sent.load(Ordering::Relaxed)
    }

    /// Breaks all connections, and each new one at once, until [`Self::mend`].
    pub(crate) fn cut(&self) {
        self.link.is_cut.store(true, Ordering::SeqCst);
        let mut open = self.link.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.drain(..).for_each(|stream| _ = stream.shutdown(Shutdown::Both));
    }

    /// Breaks all connections, and forwards new ones to another address.
    pub(crate) fn redirect(&self, target: SocketAddr) {
        self.cut();
        *self.link.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
        self.mend();
    }

    /// From now on carries nothing of any connection, and neither closes nor refuses one, as if the other end was gone;
    /// until [`Self::speak`], when new connections work, and those until then stay dead.
    pub(crate) fn fall_silent(&self) {
        self.link.is_silent.store(true, Ordering::SeqCst);
    }

    /// Carries what new connections have.
    pub(crate) fn speak(&self) {
        self.link.silences.fetch_add(1, Ordering::SeqCst);
        self.link.is_silent.store(false, Ordering::SeqCst);
    }

    /// Connects again.
    pub(crate) fn mend(&self) {
        self.link.is_cut.store(false, Ordering::SeqCst);
    }
}

impl Link {
    /// Whether a connection that was made after this many silences carries nothing.
    fn is_dead(&self, silences: u64) -> bool {
        self.is_silent.load(Ordering::SeqCst) || self.silences.load(Ordering::SeqCst) != silences
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        let target = *self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let server = TcpStream::connect(target)?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            open.push(stream.try_clone()?);
        }
        let (from_server, to_client) = (server.try_clone()?, client.try_clone()?);
        self.carry(client, server, true);
        self.carry(from_server, to_client, false);
        Ok(())
    }

    /// Carries all that one end sends to the other, until it ends or the connection breaks.
    fn carry(self: &Arc<Self>, mut from: TcpStream, mut to: TcpStream, is_counted: bool) {
        let (pieces, arriving) = mpsc::sync_channel::<(Instant, Vec<u8>)>(PIECES);
        let link = Arc::clone(self);
        let silences = self.silences.load(Ordering::SeqCst);
        thread::spawn(move || {
            for (at, piece) in arriving {
                if link.is_dead(silences) {
                    continue;
                }
                thread::sleep((at + link.delay).saturating_duration_since(Instant::now()));
                if to.write_all(&piece).is_err() {
                    break;
                }
                let counted = if is_counted { piece.len() as u64 } else { 0 };
                link.sent.fetch_add(counted, Ordering::Relaxed);
            }
            if !link.is_dead(silences) {
                _ = to.shutdown(Shutdown::Write);
            }
        });
        thread::spawn(move || {
            let mut buffer = vec![0; PIECE];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                let piece = buffer.get(..read).unwrap_or_default().to_vec();
                if pieces.send((Instant::now(), piece)).is_err() {
                    break;
                }
            }
        });
    }
}
