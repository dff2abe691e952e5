//! Parameters as C gives them, with what NVML's contract promises of them as their type.
//!
//! The types can be made by a C caller only, so a value of one is that caller's promise.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::slice;

use crate::refusal::Refusal;

/// What a call comes to.
pub(super) type Answer = Result<(), Refusal>;

/// Where a value is to be written; null or valid.
pub(super) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// A value to be read and written; null or valid and initialized.
pub(super) type InOut<'a, T> = Option<&'a mut T>;

/// Writes a value.
pub(super) fn put<T>(out: Out<'_, T>, value: T) -> Answer {
    out.ok_or(Refusal::InvalidArgument)?.write(value);
    Ok(())
}

/// Room for text; null or valid for as many bytes as the parameter beside it says.
#[repr(transparent)]
pub(super) struct Buffer(*mut c_char);

impl Buffer {
    /// Writes `text` and a zero byte.
    pub(super) fn put(self, length: u32, text: &str) -> Answer {
        if self.0.is_null() {
            return Err(Refusal::InvalidArgument);
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if text.len() >= length {
            return Err(Refusal::InsufficientSize);
        }
        // SAFETY: not null, so by contract valid for `length` bytes, and nobody else's during the
        // call. Bytes have no alignment and may be anything.
        let bytes = unsafe { slice::from_raw_parts_mut(self.0.cast::<MaybeUninit<u8>>(), length) };
        for (to, from) in bytes.iter_mut().zip(text.bytes().chain([0])) {
            to.write(from);
        }
        Ok(())
    }
}

/// Text that ends with a zero byte; null or valid.
#[repr(transparent)]
pub(super) struct Text(*const c_char);

impl Text {
    /// The text, where it is UTF-8.
    pub(super) fn get(&self) -> Result<&str, Refusal> {
        if self.0.is_null() {
            return Err(Refusal::InvalidArgument);
        }
        // SAFETY: not null, so by contract it ends with a zero byte and stays as it is for the
        // call, which this borrow does not outlive.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| Refusal::InvalidArgument)
    }
}

/// An array; null or valid and initialized for as many entries as the parameter beside it says.
#[repr(transparent)]
pub(super) struct Array<T>(*mut T);

impl<T> Array<T> {
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The entries.
    pub(super) fn entries(&mut self, count: u32) -> Result<&mut [T], Refusal> {
        let count = usize::try_from(count).map_err(|_| Refusal::InvalidArgument)?;
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(Refusal::InvalidArgument);
        }
        // SAFETY: not null and aligned, so by contract valid and initialized for `count` entries,
        // and nobody else's during the call, which this borrow does not outlive.
        Ok(unsafe { slice::from_raw_parts_mut(self.0, count) })
    }

    /// Hands out a list as NVML does: `count` says how much room there is, and then how much there
    /// is to say. Where that is more, nothing is written.
    pub(super) fn fill(
        mut self,
        count: InOut<'_, u32>,
        list: impl ExactSizeIterator<Item = T>,
    ) -> Answer {
        let count = count.ok_or(Refusal::InvalidArgument)?;
        let room = *count;
        *count = u32::try_from(list.len()).map_err(|_| Refusal::Unknown)?;
        if *count == 0 {
            return Ok(());
        }
        if self.is_null() || room < *count {
            return Err(Refusal::InsufficientSize);
        }
        for (to, from) in self.entries(*count)?.iter_mut().zip(list) {
            *to = from;
        }
        Ok(())
    }
}

/// A structure that an array follows; null or valid, the array for as many entries as the structure
/// says.
#[repr(transparent)]
pub(super) struct Headed<H, T>(*mut H, PhantomData<*mut T>);

impl<H: Copy, T> Headed<H, T> {
    /// The structure and its array.
    pub(super) fn parts(self) -> Result<(H, Array<T>), Refusal> {
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(Refusal::InvalidArgument);
        }
        // SAFETY: not null and aligned, so by contract valid and initialized.
        let head = unsafe { self.0.read() };
        // SAFETY: just behind the structure, which is valid.
        let array = unsafe { self.0.add(1) };
        Ok((head, Array(array.cast())))
    }
}

/// Structures say their own version as size and number, and so does this.
pub(super) fn version<T>(number: u32) -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(0) | number << 24
}
