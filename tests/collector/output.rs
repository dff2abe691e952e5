//! Output of passing tests: the test runner captures `println!` and `eprintln!`.

use std::io::{self, Write};

/// Prints a line on standard error.
pub(crate) fn print(line: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "{line}");
}
