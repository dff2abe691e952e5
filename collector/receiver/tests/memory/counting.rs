//! An allocator that counts what the current thread allocates.

#![allow(unsafe_code, reason = "an allocator is unsafe; it passes everything on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static TOTAL: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Notes that the memory of this thread has grown, or shrunk.
fn note(by: isize) {
    let live = LIVE.get() + by;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
    TOTAL.set(TOTAL.get() + usize::try_from(by).unwrap_or(0));
}

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size().cast_signed());
        // SAFETY: as for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-layout.size().cast_signed());
        // SAFETY: as for this function.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may be in memory.
        note(size.cast_signed());
        note(-layout.size().cast_signed());
        // SAFETY: as for this function.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Bytes that were allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// The most at a time, beside what there was before.
    pub(crate) peak: usize,
    /// All together.
    pub(crate) total: usize,
}

/// Counts what this allocates.
pub(crate) fn counted(run: impl FnOnce()) -> Counts {
    let before = LIVE.get();
    PEAK.set(before);
    TOTAL.set(0);
    run();
    Counts { peak: usize::try_from(PEAK.get() - before).unwrap_or(0), total: TOTAL.get() }
}
