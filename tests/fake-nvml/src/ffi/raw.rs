//! C parameters whose types express the guarantees of NVML's contract.
//!
//! Only a C caller can construct these types, so a value carries that caller's guarantee.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::slice;

use crate::error_code::ErrorCode;

/// The result of a call.
pub(super) type NvmlResult = Result<(), ErrorCode>;

/// An output parameter; null or valid.
pub(super) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// An input and output parameter; null or valid and initialized.
pub(super) type InOut<'a, T> = Option<&'a mut T>;

/// Writes a value.
pub(super) fn put<T>(out: Out<'_, T>, value: T) -> NvmlResult {
    out.ok_or(ErrorCode::InvalidArgument)?.write(value);
    Ok(())
}

/// A text buffer; null or valid for as many bytes as its length parameter specifies.
#[repr(transparent)]
pub(super) struct Buffer(*mut c_char);

impl Buffer {
    /// Writes `text` and a zero byte.
    pub(super) fn put(self, length: u32, text: &str) -> NvmlResult {
        if self.0.is_null() {
            return Err(ErrorCode::InvalidArgument);
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if text.len() >= length {
            return Err(ErrorCode::InsufficientSize);
        }
        // SAFETY: not null, so by contract valid for `length` bytes and not shared during the
        // call. Bytes need no alignment and may have any value.
        let bytes = unsafe { slice::from_raw_parts_mut(self.0.cast::<MaybeUninit<u8>>(), length) };
        for (to, from) in bytes.iter_mut().zip(text.bytes().chain([0])) {
            to.write(from);
        }
        Ok(())
    }
}

/// Zero-terminated text; null or valid.
#[repr(transparent)]
pub(super) struct Text(*const c_char);

impl Text {
    /// Returns the text if it is UTF-8.
    pub(super) fn get(&self) -> Result<&str, ErrorCode> {
        if self.0.is_null() {
            return Err(ErrorCode::InvalidArgument);
        }
        // SAFETY: not null, so by contract zero-terminated and unchanged during the call, which
        // this borrow does not outlive.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map_err(|_| ErrorCode::InvalidArgument)
    }
}

/// An array; null or valid and initialized for as many entries as its count parameter specifies.
#[repr(transparent)]
pub(super) struct Array<T>(*mut T);

impl<T> Array<T> {
    pub(super) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The entries.
    pub(super) fn entries(&mut self, count: u32) -> Result<&mut [T], ErrorCode> {
        let count = usize::try_from(count).map_err(|_| ErrorCode::InvalidArgument)?;
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(ErrorCode::InvalidArgument);
        }
        // SAFETY: not null and aligned, so by contract valid and initialized for `count` entries
        // and not shared during the call, which this borrow does not outlive.
        Ok(unsafe { slice::from_raw_parts_mut(self.0, count) })
    }

    /// Returns a list as NVML does: `count` is the capacity on input and the list's length on output.
    /// If the capacity is too small, no entry is written. `wrong`: the length that it reports, if another one.
    pub(super) fn fill(
        mut self,
        count: InOut<'_, u32>,
        wrong: Option<u32>,
        list: impl ExactSizeIterator<Item = T>,
    ) -> NvmlResult {
        let count = count.ok_or(ErrorCode::InvalidArgument)?;
        let capacity = *count;
        let length = u32::try_from(list.len()).map_err(|_| ErrorCode::Unknown)?;
        *count = wrong.unwrap_or(length);
        if *count == 0 {
            return Ok(());
        }
        if self.is_null() || capacity < length {
            return Err(ErrorCode::InsufficientSize);
        }
        for (to, from) in self.entries(length)?.iter_mut().zip(list) {
            *to = from;
        }
        Ok(())
    }
}

/// A structure followed by an array; null or valid, the array for as many entries as the structure
/// specifies.
#[repr(transparent)]
pub(super) struct Headed<H, T>(*mut H, PhantomData<*mut T>);

impl<H: Copy, T> Headed<H, T> {
    /// The structure and its array.
    pub(super) fn parts(self) -> Result<(H, Array<T>), ErrorCode> {
        if self.0.is_null() || !self.0.is_aligned() {
            return Err(ErrorCode::InvalidArgument);
        }
        // SAFETY: not null and aligned, so by contract valid and initialized.
        let head = unsafe { self.0.read() };
        // SAFETY: directly after the structure, which is valid.
        let array = unsafe { self.0.add(1) };
        Ok((head, Array(array.cast())))
    }
}

/// NVML's structure version: size and number.
pub(super) fn version<T>(number: u32) -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(0) | number << 24
}
