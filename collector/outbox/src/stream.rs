//! The streams of an outbox.

/// Requests of a stream stay in order. Streams are independent of one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream(u8);

impl Stream {
    /// The number of streams.
    pub const COUNT: usize = 3;

    /// All of them, by number.
    pub const ALL: [Self; Self::COUNT] = [Self(0), Self(1), Self(2)];

    /// Its number, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
