//! The terminal as a full screen with keys: raw mode, which ends when this is dropped.

use std::io::{self, Write, stdin, stdout};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Switches to the other screen and hides the cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";

/// Shows the cursor and switches back.
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// The size of a terminal that does not state it.
const DEFAULT_SIZE: (usize, usize) = (24, 80);

/// The terminal of this process. Its earlier state is restored when this is dropped.
pub(super) struct FullScreen {
    before: Termios,
}

impl FullScreen {
    /// Switches to a full screen.
    pub(super) fn enter() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Flush, &raw)?;
        let screen = Self { before };
        write(ENTER)?;
        Ok(screen)
    }

    /// Rows and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(stdout()).map(|it| (it.ws_row.into(), it.ws_col.into()));
        size.ok().filter(|size| *size != (0, 0)).unwrap_or(DEFAULT_SIZE)
    }

    /// Draws lines from the top, and clears the rest.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let mut text = "\x1b[H".to_owned();
        for (place, line) in lines.iter().enumerate() {
            // After the last line the screen would scroll.
            text.push_str(if place == 0 { "" } else { "\r\n" });
            text.push_str(line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        write(text.as_bytes())
    }

    /// The keys that were pressed, after at most `wait`; `None` once the terminal is gone.
    pub(super) fn read(&self, wait: Duration) -> io::Result<Option<Vec<u8>>> {
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let input = stdin();
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut ready, Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Some(Vec::new())),
            result => result?,
        };
        let mut bytes = [0; 64];
        match read(stdin(), &mut bytes) {
            Ok(0) | Err(Errno::IO) => Ok(None),
            Ok(count) => Ok(Some(bytes.get(..count).unwrap_or_default().to_vec())),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Some(Vec::new())),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        // Nothing can be done for a terminal that is gone.
        let _ = write(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.before);
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
