// SPDX-License-Identifier: Apache-2.0

use std::ffi::c_void;
use std::fmt;

use crate::buffer::{sealed, Buffer, Place, Source, Target};
use crate::comm::Comm;
use crate::element::{DType, Element};
use crate::error::{Error, Result, Status};
use crate::shared::Link;

/// Stands for the unknown element type of an [`AnyBuffer`] in the signatures of calls
#[derive(Debug)]
pub enum Untyped {}

/// Elements on a rank's device, of a type that is known only at run time
///
/// All calls that accept a [`Buffer`] accept it. A call with two `AnyBuffer`s compares their
/// types. [`AnyBuffer::downcast`] returns a `Buffer` with the same memory.
pub struct AnyBuffer {
    bytes: Buffer<u8>,
    dtype: DType,
}

impl AnyBuffer {
    /// Return the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Return the number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }

    /// Return whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Return the address on the device, as [`Buffer::as_ptr`] does.
    pub fn as_ptr(&self) -> *mut c_void {
        self.bytes.as_ptr().cast()
    }

    /// Convert to a buffer with a static element type.
    ///
    /// # Errors
    ///
    /// The buffer itself if its elements are not of type `T`.
    pub fn downcast<T: Element>(self) -> std::result::Result<Buffer<T>, AnyBuffer> {
        if self.dtype != T::DTYPE {
            return Err(self);
        }
        let len = self.len();
        Ok(self.bytes.retyped(len))
    }
}

impl<T: Element> From<Buffer<T>> for AnyBuffer {
    fn from(buffer: Buffer<T>) -> AnyBuffer {
        let bytes = buffer.len() * T::DTYPE.size();
        AnyBuffer { bytes: buffer.retyped(bytes), dtype: T::DTYPE }
    }
}

impl Comm {
    /// Allocate uninitialized memory for `len` elements of type `dtype`: `cohort_alloc()`
    ///
    /// # Errors
    ///
    /// The errors of [`Comm::alloc`].
    pub fn alloc_any(&self, dtype: DType, len: usize) -> Result<AnyBuffer> {
        let bytes = len.checked_mul(dtype.size()).ok_or_else(|| {
            let text = format!("{} elements are too many bytes for memory", len);
            Error::new(Status::INVALID, "cohort_alloc", text)
        })?;
        Ok(AnyBuffer { bytes: self.alloc(bytes)?, dtype })
    }
}

impl sealed::Sealed for AnyBuffer {}

impl Source for AnyBuffer {
    type Element = Untyped;
    type Kept = AnyBuffer;

    fn place(&self, link: &Link, call: &'static str) -> Result<Place> {
        let place = self.bytes.place(link, call)?;
        Ok(Place { len: self.len(), dtype: Some(self.dtype), ..place })
    }

    unsafe fn kept(self) -> AnyBuffer {
        self
    }

    fn lose(self) {
        self.bytes.lose();
    }
}

impl Target for AnyBuffer {}

impl fmt::Debug for AnyBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyBuffer of {} {} at {:?}", self.len(), self.dtype.name(), self.as_ptr())
    }
}
