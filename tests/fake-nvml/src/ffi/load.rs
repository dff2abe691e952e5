//! What loading the library does: nothing, unless a test asks for a fault.

use std::path::Path;
use std::time::Duration;
use std::{env, process, thread};

use crate::install::LOAD_VARIABLE;

/// Polling interval for the file.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Run by the dynamic linker before `dlopen` returns.
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

extern "C" fn load() {
    let Some(fault) = env::var_os(LOAD_VARIABLE) else { return };
    if fault == "abort" {
        process::abort();
    }
    while !Path::new(&fault).exists() {
        thread::sleep(POLL_INTERVAL);
    }
}
