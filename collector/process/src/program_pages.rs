//! Lets go of pages of this program's file.
//!
//! A start, and an evaluation of policies, use most of the program once: megabytes of code and constants that stay
//! resident until memory is short, on a node that meters its GPUs for months. There they count as the process's: in
//! what tools show, and in what the kernel's out-of-memory killer weighs.

use std::ffi::c_void;
use std::ptr;

use libc::{MADV_DONTNEED, PF_W, PT_LOAD, c_int, dl_iterate_phdr, dl_phdr_info, madvise};

/// Unmaps the pages of the program that are as in its file. Those still in use are mapped again as they are used, from
/// the kernel's cache or from the file. Breakpoints of a debugger in them are lost.
pub fn release_program_pages() {
    // SAFETY: `release_program` fulfills the contract of a callback and takes no data.
    unsafe { dl_iterate_phdr(Some(release_program), ptr::null_mut()) };
}

/// Called with the program, which is listed first, and then, since it does not return 0, with no library.
unsafe extern "C" fn release_program(
    info: *mut dl_phdr_info,
    _size: usize,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a valid description, which it does not change during the call.
    let info = unsafe { &*info };
    // SAFETY: it has so many program headers, which are part of the program.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    // SAFETY: has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Ok(page) = u64::try_from(page) else { return 1 };
    for header in headers {
        // What is not writable is never changed: not even by relocation, whose pages are in a writable segment.
        if header.p_type != PT_LOAD || header.p_flags & PF_W != 0 {
            continue;
        }
        let start = info.dlpi_addr + header.p_vaddr;
        let end = (start + header.p_memsz) / page * page;
        let start = start.next_multiple_of(page);
        let Some(length) = end.checked_sub(start).and_then(|it| usize::try_from(it).ok()) else {
            continue;
        };
        let address = ptr::with_exposed_provenance_mut(usize::try_from(start).unwrap_or_default());
        // SAFETY: these pages are mapped from the program's file as long as it runs, and equal the file, so that what
        // is read from them after the call is what was read before. The kernel does the same if memory is short.
        // It may refuse, which changes nothing.
        unsafe { madvise(address, length, MADV_DONTNEED) };
    }
    1
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SIZE: usize = 8 << 20;

    /// Constants that nothing but the test uses.
    static CONSTANTS: [u8; SIZE] = [7; SIZE];

    /// Variables, and constants that are relocated.
    static mut VARIABLE: u64 = 5;
    static RELOCATED: [&str; 2] = ["a", "b"];

    fn resident_of_program() -> usize {
        let program = std::env::current_exe().unwrap().display().to_string();
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut sum, mut counts) = (0, false);
        for line in smaps.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            if !words[0].ends_with(':') {
                counts = words.last() == Some(&program.as_str());
            } else if counts && words[0] == "Rss:" {
                sum += words[1].parse::<usize>().unwrap() << 10;
            }
        }
        sum
    }

    #[test]
    fn pages_of_the_program_are_released_and_keep_their_contents() {
        let sum =
            || std::hint::black_box(&CONSTANTS).iter().map(|it| usize::from(*it)).sum::<usize>();
        assert_eq!(sum(), 7 * SIZE);
        // SAFETY: no other code uses it.
        unsafe { VARIABLE = 6 };
        let before = resident_of_program();
        assert!(before >= SIZE, "{before}");
        release_program_pages();
        let after = resident_of_program();
        assert!(after + SIZE / 2 <= before, "{before}, {after}");
        assert_eq!(sum(), 7 * SIZE);
        // SAFETY: as above.
        assert_eq!(unsafe { VARIABLE }, 6);
        assert_eq!(*std::hint::black_box(&RELOCATED), ["a", "b"]);
    }
}
