//! The allocator of policies: takes memory in order, and takes back only the last block.
//!
//! Each evaluation has an instance of its own, whose memory the host reclaims as a whole, so freeing
//! more would only cost time. The first half MiB is part of the module's initial memory: growing a
//! memory is a system call, and another one when the host resets it.

/// Unallocated addresses.
#[derive(Debug)]
struct Unallocated {
    next: usize,
    end: usize,
}

impl Unallocated {
    /// Takes a block, if one is left. `align` is a power of two.
    const fn take(&mut self, size: usize, align: usize) -> Option<usize> {
        let Some(start) = self.next.checked_add(align - 1) else { return None };
        let start = start & !(align - 1);
        match start.checked_add(size) {
            Some(next) if next <= self.end => {
                self.next = next;
                Some(start)
            }
            _ => None,
        }
    }

    /// Takes a block back if it was the last one taken.
    const fn put_back(&mut self, start: usize, size: usize) {
        if start + size == self.next {
            self.next = start;
        }
    }

    /// Resizes a block where it is: if it is the last one taken and the new size is left.
    const fn resize(&mut self, start: usize, size: usize, new_size: usize) -> bool {
        let is_last = start + size == self.next;
        let fits = is_last && new_size <= self.end - start;
        if fits {
            self.next = start + new_size;
        }
        fits
    }

    /// Adds memory: to the end if it continues there, else in place of what is left.
    const fn add(&mut self, start: usize, end: usize) {
        if start != self.end {
            self.next = start;
        }
        self.end = end;
    }
}

#[cfg(target_arch = "wasm32")]
mod global {
    use core::alloc::{GlobalAlloc, Layout};
    use core::arch::wasm32::memory_grow;
    use core::cell::UnsafeCell;
    use core::ptr::{copy_nonoverlapping, null_mut};

    use super::Unallocated;

    /// Bytes of the initial memory: windows of up to thirty GPUs fit.
    const INITIAL: usize = 512 << 10;
    /// Bytes per page of WebAssembly.
    const PAGE: usize = 64 << 10;
    /// The fewest pages by which memory grows.
    const MIN_PAGES: usize = 4;

    /// Zeros, which take no space in the module.
    #[repr(C, align(16))]
    struct Initial(UnsafeCell<[u8; INITIAL]>);

    struct Heap(UnsafeCell<Unallocated>);

    // SAFETY: this target has one thread.
    unsafe impl Sync for Initial {}
    // SAFETY: as above.
    unsafe impl Sync for Heap {}

    static MEMORY: Initial = Initial(UnsafeCell::new([0; INITIAL]));

    #[global_allocator]
    static HEAP: Heap = Heap(UnsafeCell::new(Unallocated { next: 0, end: 0 }));

    impl Heap {
        #[expect(clippy::mut_from_ref, reason = "one thread, and no reference is kept")]
        fn unallocated(&self) -> &mut Unallocated {
            // SAFETY: there is one thread, and no method of `Unallocated` calls back.
            unsafe { &mut *self.0.get() }
        }

        /// Adds memory for a block that did not fit, and takes the block.
        #[cold]
        fn grow(&self, layout: Layout) -> Option<usize> {
            let unallocated = self.unallocated();
            if unallocated.end == 0 {
                let start = MEMORY.0.get() as usize;
                unallocated.add(start, start + INITIAL);
                if let Some(start) = unallocated.take(layout.size(), layout.align()) {
                    return Some(start);
                }
            }
            let bytes = layout.size().checked_add(layout.align())?;
            let pages = bytes.div_ceil(PAGE).max(MIN_PAGES);
            let start = memory_grow(0, pages);
            if start == usize::MAX {
                return None;
            }
            // The end of 4 GiB is not an address.
            unallocated.add(start * PAGE, (start + pages).checked_mul(PAGE)?);
            unallocated.take(layout.size(), layout.align())
        }
    }

    // SAFETY: blocks come from memory that nothing else uses, and do not overlap, since a block is
    // taken from addresses after all others.
    unsafe impl GlobalAlloc for Heap {
        #[inline]
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let taken = self.unallocated().take(layout.size(), layout.align());
            taken.or_else(|| self.grow(layout)).map_or(null_mut(), |start| start as *mut u8)
        }

        #[inline]
        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            self.unallocated().put_back(block as usize, layout.size());
        }

        #[inline]
        unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            if self.unallocated().resize(block as usize, layout.size(), new_size) {
                return block;
            }
            // SAFETY: the caller has checked the new size, and the blocks do not overlap.
            unsafe {
                let new = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
                if !new.is_null() {
                    copy_nonoverlapping(block, new, layout.size().min(new_size));
                }
                new
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_follow_each_other() {
        let mut unallocated = Unallocated { next: 3, end: 32 };
        assert_eq!(unallocated.take(2, 1), Some(3));
        assert_eq!(unallocated.take(8, 8), Some(8));
        assert_eq!(unallocated.take(16, 16), Some(16));
        assert_eq!(unallocated.take(1, 1), None);
        assert_eq!(unallocated.take(0, 4), Some(32));
        assert_eq!(unallocated.take(usize::MAX, 1), None);
    }

    #[test]
    fn only_the_last_block_is_put_back_or_resized() {
        let mut unallocated = Unallocated { next: 16, end: 64 };
        let [first, last] = [(); 2].map(|()| unallocated.take(16, 8).unwrap());
        assert!(!unallocated.resize(first, 16, 8));
        unallocated.put_back(first, 16);
        assert_eq!(unallocated.next, 48);
        assert!(unallocated.resize(last, 16, 32) && unallocated.next == 64);
        assert!(!unallocated.resize(last, 32, 33));
        assert!(unallocated.resize(last, 32, 4) && unallocated.next == 36);
        unallocated.put_back(last, 4);
        assert_eq!(unallocated.next, 32);
    }

    #[test]
    fn added_memory_continues_the_rest_or_replaces_it() {
        let mut unallocated = Unallocated { next: 8, end: 16 };
        unallocated.add(16, 32);
        assert_eq!((unallocated.next, unallocated.end), (8, 32));
        unallocated.add(64, 128);
        assert_eq!((unallocated.next, unallocated.end), (64, 128));
    }
}
