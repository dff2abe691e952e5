//! Loads the driver's library in a child process before this one does.
//!
//! While a library is being loaded, the C library keeps a lock that every thread takes when it starts. So one
//! whose loading hangs, on a file system that does not answer or in its own code, would hang this process,
//! and the command would not start; one that ends its process would end this one. Initializing the driver has
//! no such effect, and happens in this process only, since it may take seconds.

use std::io::{self, Read, Write};
use std::process::Stdio;

use phasemeter_process::end_now;
use phasemeter_sources::live::nvml::{NvmlUnusable, load_library};

use super::group_probe::own_program;
use phasemeter_cli::LOAD_TRIAL;

/// Loads the library in a child process, and waits for that, on a thread that may wait for good.
pub(super) fn load() -> Result<(), NvmlUnusable> {
    let mut command = own_program(LOAD_TRIAL);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Without a child, as near a limit of processes, there is no trial.
    let Ok(mut child) = command.spawn() else { return Ok(()) };
    let mut answer = Vec::new();
    // A read error counts as the end.
    let _ = child.stdout.take().map(|mut out| out.read_to_end(&mut answer));
    // It may count against a limit until it is reaped; the thread that attends to the command may have done so.
    let _ = child.wait();
    if answer.is_empty() { Err(NvmlUnusable::LibraryEnds) } else { Ok(()) }
}

/// The body of the hidden command: answers once loading has ended, successfully or not.
pub(super) fn child_main() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // Why it fails is found out by the parent, which then loads it.
    let _ = load_library();
    io::stdout().write_all(b"loaded")?;
    io::stdout().flush()?;
    // Without what the library would do at the end.
    end_now(0)
}
