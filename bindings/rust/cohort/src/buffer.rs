// SPDX-License-Identifier: Apache-2.0

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::element::Element;
use crate::error::{Error, Result, Status};
use crate::shared::Link;
use crate::ticket::Ticket;

#[derive(Clone, Copy, PartialEq)]
enum Owner {
    /// Freed by `cohort_free()`.
    Cohort,
    /// The program's own: never freed here.
    Program,
}

/// Elements on a rank's device
///
/// From [`Comm::alloc`](crate::Comm::alloc) and its siblings; for communicators of the same
/// device ([`Status::INVALID`]). No operation uses a `Buffer`
/// that the program has: a call takes its buffers, and the [`Ticket`] gives them back once
/// nothing can touch them any more.
///
/// Dropping it frees the memory by `cohort_free()`, from any thread, which blocks as
/// `cudaFree()` may. If another thread is inside the communicator, the memory is freed by the
/// communicator's next allocation, or when the group closes. Memory that is still held when
/// [`Group::close`](crate::Group::close) has closed the group stays allocated.
pub struct Buffer<T: Element> {
    link: Link,
    memory: *mut c_void,
    len: usize,
    owner: Owner,
    /// An operation that was given up may still touch it: it is never freed, nor used.
    is_lost: AtomicBool,
    element: PhantomData<T>,
}

// SAFETY: the pointer is to memory of a device, which only C's functions touch; a link may be
// used by any thread.
unsafe impl<T: Element> Send for Buffer<T> {}
// SAFETY: a shared buffer can only be read from by operations.
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

    /// How many elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is on the device: for kernels. On the host platform, memory of the process.
    pub fn as_ptr(&self) -> *mut T {
        self.memory.cast()
    }

    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
    }

    /// Where it is, for `call` on a communicator of `link`.
    pub(crate) fn place(&self, link: &Link, call: &'static str) -> Result<Place> {
        let (own, wanted) = (self.link.location(), link.location());
        if own != wanted {
            let text = format!(
                "the buffer is on device {} of platform {:?}, not {} of {:?}",
                own.1, own.0, wanted.1, wanted.0
            );
            return Err(Error::new(Status::INVALID, call, text));
        }
        if self.is_lost.load(Ordering::SeqCst) {
            let text = "an operation that could not be aborted may still use the buffer";
            return Err(Error::new(Status::STATE, call, text));
        }
        Ok(Place { memory: self.memory, len: self.len })
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

/// Where an operand is.
#[derive(Clone, Copy)]
pub struct Place {
    pub(crate) memory: *mut c_void,
    pub(crate) len: usize,
}

impl Place {
    pub(crate) fn at<T: Element>(self, first: usize) -> *mut c_void {
        self.memory.cast::<T>().wrapping_add(first).cast()
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// What an operation may read: a [`Buffer`], an [`Arc`] of one, or one that is still in
/// flight, as the [`Ticket`] of an operation before it on the same communicator
///
/// An operation that takes a ticket is queued behind that ticket's, so that a program need not
/// wait in between. Only such an operation, or waiting, gets the buffer out of the ticket:
///
/// ```compile_fail,E0133
/// fn out_of_flight<S: cohort::Source>(ticket: S) -> S::Kept {
///     ticket.kept()
/// }
/// ```
pub trait Source: sealed::Sealed + Send + Sized + 'static {
    /// The type of its elements.
    type Element: Element;
    /// What the ticket of the operation gives back.
    type Kept: Send + 'static;

    /// Where the elements are, if an operation of `link` for `call` may use them.
    #[doc(hidden)]
    fn place(&self, link: &Link, call: &'static str) -> Result<Place>;

    /// What the ticket is to give back.
    ///
    /// # Safety
    ///
    /// The operation that `self` was given to is queued, behind those that use it already, and
    /// its ticket keeps the result.
    #[doc(hidden)]
    unsafe fn kept(self) -> Self::Kept;

    /// Something may still use it: never free it.
    #[doc(hidden)]
    fn lose(self);
}

/// What an operation may write: a [`Source`] but an [`Arc`]
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

/// An operand that only some ranks have.
impl<O: Source> Source for Option<O> {
    type Element = O::Element;
    type Kept = Option<O::Kept>;

    fn place(&self, link: &Link, call: &'static str) -> Result<Place> {
        match self {
            Some(operand) => operand.place(link, call),
            None => Ok(Place { memory: ptr::null_mut(), len: 0 }),
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
                    let text = "the buffer is in flight on another communicator: wait for it";
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

/// Whether the buffers of a call with this error may still be in use.
pub(crate) fn is_wedged(error: &Error) -> bool {
    error.status() == Status::WEDGED
}

/// Check that `what` has `wanted` elements, before `call`.
pub(crate) fn want(call: &'static str, what: &str, len: usize, wanted: usize) -> Result<()> {
    if len == wanted {
        return Ok(());
    }
    let text = format!("{} has {} elements, not {}", what, len, wanted);
    Err(Error::new(Status::INVALID, call, text))
}
