//! Exit statuses, after sysexits.h; 126 and 127 are those of shells. Clap exits with 2 for usage
//! errors.

/// What was checked does not hold: an alert opened.
pub(super) const CHECK_FAILED: u8 = 1;
/// Invalid usage, as of clap.
pub(super) const EX_USAGE: u8 = 2;
/// Invalid data.
pub(super) const EX_DATAERR: u8 = 65;
/// An input cannot be opened or read.
pub(super) const EX_NOINPUT: u8 = 66;
/// No usable driver or GPU.
pub(super) const EX_UNAVAILABLE: u8 = 69;
/// An internal error.
pub(super) const EX_SOFTWARE: u8 = 70;
/// An operating system error.
pub(super) const EX_OSERR: u8 = 71;
/// The output exists, or is also an input.
pub(super) const EX_CANTCREAT: u8 = 73;
/// A write or the delivery failed.
pub(super) const EX_IOERR: u8 = 74;
/// Invalid configuration.
pub(super) const EX_CONFIG: u8 = 78;
/// A command exists but cannot be executed.
pub(super) const NOT_EXECUTABLE: u8 = 126;
/// A command was not found.
pub(super) const NOT_FOUND: u8 = 127;

/// Shells add this to the number of the signal that ended a command.
pub(super) const SIGNAL_OFFSET: i32 = 128;
