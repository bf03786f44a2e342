// SPDX-License-Identifier: Apache-2.0

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::element::{DType, Element};
use crate::error::{Error, Result, Status};
use crate::shared::Link;
use crate::ticket::Ticket;

#[derive(Clone, Copy, PartialEq)]
enum Owner {
    /// Freed by `cohort_free()`.
    Cohort,
    /// The program's own memory, never freed here.
    Program,
}

/// Elements on a rank's device
///
/// [`Comm::alloc`](crate::Comm::alloc) and related functions create a `Buffer`. All communicators
/// of its device accept it; others return [`Status::INVALID`]. No operation uses a `Buffer` that
/// the program holds: a call takes its buffers, and the [`Ticket`] returns them once nothing uses
/// them.
///
/// Dropping a `Buffer`, on any thread, frees the memory by `cohort_free()`, which may block as
/// `cudaFree()` may. If another thread is inside the communicator, the memory is freed by the
/// communicator's next allocation, or when the group closes. If the program still has the `Buffer`
/// when [`Group::close`](crate::Group::close) closes the group, the memory stays allocated.
pub struct Buffer<T: Element> {
    link: Link,
    memory: *mut c_void,
    len: usize,
    owner: Owner,
    /// Whether an abandoned operation may still use the memory, which is then never freed or used
    /// again.
    is_lost: AtomicBool,
    element: PhantomData<T>,
}

// SAFETY: the pointer is to device memory, which only C's functions access; any thread may use a
// link.
unsafe impl<T: Element> Send for Buffer<T> {}
// SAFETY: operations can only read a shared buffer.
unsafe impl<T: Element> Sync for Buffer<T> {}

impl<T: Element> Buffer<T> {
    pub(crate) fn new(link: Link, memory: *mut c_void, len: usize) -> Buffer<T> {
        let (owner, is_lost, element) = (Owner::Cohort, AtomicBool::new(false), PhantomData);
        Buffer { link, memory, len, owner, is_lost, element }
    }

    pub(crate) fn borrowed(link: Link, memory: *mut c_void, len: usize) -> Buffer<T> {
        let mut buffer = Buffer::new(link, memory, len);
        buffer.owner = Owner::Program;
        buffer
    }

    /// Return the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Return whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Return the address on the device, for kernels. On the host platform it is host memory.
    pub fn as_ptr(&self) -> *mut T {
        self.memory.cast()
    }

    /// Return the same memory as `len` elements of another type.
    pub(crate) fn retyped<U: Element>(self, len: usize) -> Buffer<U> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the link moves out of a value that is never dropped.
        let link = unsafe { ptr::read(&this.link) };
        let is_lost = AtomicBool::new(this.is_lost.load(Ordering::SeqCst));
        Buffer { link, memory: this.memory, len, owner: this.owner, is_lost, element: PhantomData }
    }

    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
    }

    /// Return the address, for `call` on a communicator of `link`.
    pub(crate) fn place(&self, link: &Link, call: &'static str) -> Result<Place> {
        let (own, wanted) = (self.link.location(), link.location());
        if own != wanted {
            let text = format!(
                "the buffer is on device {} of platform {:?}, but the communicator on {} of {:?}",
                own.1, own.0, wanted.1, wanted.0
            );
            return Err(Error::new(Status::INVALID, call, text));
        }
        if self.is_lost.load(Ordering::SeqCst) {
            let text = "the buffer may be in use by an operation whose abort did not complete";
            return Err(Error::new(Status::STATE, call, text));
        }
        Ok(Place { memory: self.memory, len: self.len, dtype: Some(T::DTYPE) })
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        let is_lost = *self.is_lost.get_mut();
        if self.owner == Owner::Cohort && !is_lost && !self.memory.is_null() {
            self.link.free(self.memory);
        }
    }
}

impl<T: Element> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer of {} {} at {:?}", self.len, T::DTYPE.name(), self.memory)
    }
}

/// The address of an operand, and the number and type of its elements.
#[derive(Clone, Copy)]
pub struct Place {
    pub(crate) memory: *mut c_void,
    pub(crate) len: usize,
    /// `None` if the operand is missing on this rank, or if its type is checked elsewhere.
    pub(crate) dtype: Option<DType>,
}

impl Place {
    /// Return the address of an element.
    pub(crate) fn at(self, index: usize) -> *mut c_void {
        let size = self.dtype.map_or(0, DType::size);
        self.memory.cast::<u8>().wrapping_add(index.wrapping_mul(size)).cast()
    }

    /// Return the element type as a number of C; the number is not valid if there is no type.
    pub(crate) fn code(self) -> c_int {
        self.dtype.map_or(-1, DType::code)
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// An operand that an operation may read: a [`Buffer`], an [`Arc`] of one, or the [`Ticket`] of
/// an operation in flight on the same communicator
///
/// An operation that takes a ticket is queued after that ticket's operation, so the program need
/// not wait in between. Only an operation or a wait can get the buffer out of the ticket:
///
/// ```compile_fail,E0133
/// fn out_of_flight<S: cohort::Source>(ticket: S) -> S::Kept {
///     ticket.kept()
/// }
/// ```
pub trait Source: sealed::Sealed + Send + Sized + 'static {
    /// The element type, or [`Untyped`](crate::Untyped).
    type Element;
    /// The type that the operation's ticket returns.
    type Kept: Send + 'static;

    /// Return the address of the elements, or an error if `call` on `link` must not use them.
    #[doc(hidden)]
    fn place(&self, link: &Link, call: &'static str) -> Result<Place>;

    /// Return the operand, for the ticket to hold.
    ///
    /// # Safety
    ///
    /// The operation that takes `self` must be queued after the operations that already use the
    /// elements, and its ticket must hold the result.
    #[doc(hidden)]
    unsafe fn kept(self) -> Self::Kept;

    /// Leak the memory, because something may still use it.
    #[doc(hidden)]
    fn lose(self);
}

/// An operand that an operation may write: every [`Source`] except an [`Arc`]
pub trait Target: Source {}

impl<T: Element> sealed::Sealed for Buffer<T> {}

impl<T: Element> Source for Buffer<T> {
    type Element = T;
    type Kept = Buffer<T>;

    fn place(&self, link: &Link, call: &'static str) -> Result<Place> {
        Buffer::place(self, link, call)
    }

    unsafe fn kept(self) -> Buffer<T> {
        self
    }

    fn lose(self) {
        Buffer::lose(&self);
    }
}

impl<T: Element> Target for Buffer<T> {}

impl<T: Element> sealed::Sealed for Arc<Buffer<T>> {}

impl<T: Element> Source for Arc<Buffer<T>> {
    type Element = T;
    type Kept = Arc<Buffer<T>>;

    fn place(&self, link: &Link, call: &'static str) -> Result<Place> {
        Buffer::place(self, link, call)
    }

    unsafe fn kept(self) -> Arc<Buffer<T>> {
        self
    }

    fn lose(self) {
        Buffer::lose(&self);
    }
}

impl<O: Source> sealed::Sealed for Option<O> {}

/// An operand that exists only on some ranks.
impl<O: Source> Source for Option<O> {
    type Element = O::Element;
    type Kept = Option<O::Kept>;

    fn place(&self, link: &Link, call: &'static str) -> Result<Place> {
        match self {
            Some(operand) => operand.place(link, call),
            None => Ok(Place { memory: ptr::null_mut(), len: 0, dtype: None }),
        }
    }

    unsafe fn kept(self) -> Option<O::Kept> {
        // SAFETY: the caller's promise.
        self.map(|operand| unsafe { operand.kept() })
    }

    fn lose(self) {
        if let Some(operand) = self {
            operand.lose();
        }
    }
}

impl<O: Target> Target for Option<O> {}

macro_rules! in_flight {
    ($kept:ty, $held:ident => $buffer:expr) => {
        impl<T: Element> sealed::Sealed for Ticket<$kept> {}

        impl<T: Element> Source for Ticket<$kept> {
            type Element = T;
            type Kept = $kept;

            fn place(&self, link: &Link, call: &'static str) -> Result<Place> {
                if !self.is_of(link) {
                    let text = "the buffer is in flight on another communicator; wait for it";
                    return Err(Error::new(Status::INVALID, call, text));
                }
                let $held = self.held();
                Buffer::place($buffer, link, call)
            }

            unsafe fn kept(self) -> $kept {
                self.superseded()
            }

            fn lose(self) {
                mem::forget(self.superseded());
            }
        }

        impl<T: Element> Target for Ticket<$kept> {}
    };
}

in_flight!(Buffer<T>, buffer => buffer);
in_flight!((Buffer<T>, Vec<T>), both => &both.0);

/// Return whether the buffers of a call with this error may still be in use.
pub(crate) fn is_wedged(error: &Error) -> bool {
    error.status() == Status::WEDGED
}

/// Return an error of `call` unless `what` has `wanted` elements.
pub(crate) fn want(call: &'static str, what: &str, len: usize, wanted: usize) -> Result<()> {
    if len == wanted {
        return Ok(());
    }
    let text = format!("{} has {} elements, not {}", what, len, wanted);
    Err(Error::new(Status::INVALID, call, text))
}
