// SPDX-License-Identifier: Apache-2.0

use std::ffi::c_void;
use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::os::raw::c_int;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use cohort_sys as sys;

use crate::error::{Error, Failed, Result, Status};
use crate::options::nanoseconds;
use crate::shared::{Link, PATIENCE};

const CALL: &str = "cohort_wait";

/// An operation in flight, which owns the buffers that it uses
///
/// Waiting returns the buffers. Any thread may wait, and a ticket can be sent to another thread.
///
/// ```compile_fail,E0382
/// use cohort::{Buffer, Comm, Op};
///
/// fn frees_too_early(comm: &Comm, buffer: Buffer<f32>) -> cohort::Result<()> {
///     let ticket = comm.all_reduce(buffer, Op::Sum)?;
///     drop(buffer); // it is in the ticket
///     ticket.wait()?;
///     Ok(())
/// }
/// ```
///
/// Dropping a ticket that has buffers waits at most 10 s until the operation is done, because
/// something may use the buffers until then. Buffers that are still in use afterwards are never
/// freed, and [`on_drop_error`](crate::on_drop_error) is called. If a panic drops the ticket, the
/// rank fails first ([`Comm::fail`](crate::Comm::fail)), because the operation may be waiting for
/// code that the panic skipped. [`mem::forget`] of a ticket leaks its buffers.
#[must_use = "a ticket that is dropped waits for its operation; the buffers are in it"]
pub struct Ticket<B: 'static> {
    link: Link,
    number: u64,
    held: ManuallyDrop<B>,
}

/// The result of [`Ticket::wait_for`]
#[derive(Debug)]
pub enum Waited<B: 'static> {
    /// The operation is done; the output is valid.
    Done(B),
    /// The operation is still in flight; wait again.
    Pending(Ticket<B>),
}

impl<B: 'static> Ticket<B> {
    pub(crate) fn new(link: Link, number: u64, held: B) -> Ticket<B> {
        Ticket { link, number, held: ManuallyDrop::new(held) }
    }

    pub(crate) fn is_of(&self, link: &Link) -> bool {
        self.link.is_same(link)
    }

    pub(crate) fn held(&self) -> &B {
        &self.held
    }

    /// Return the buffers without waiting, for an operation that is queued after this one.
    pub(crate) fn superseded(self) -> B {
        self.take().1
    }

    fn take(self) -> (Link, B) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used nor dropped again.
        unsafe { (ptr::read(&this.link), ManuallyDrop::take(&mut this.held)) }
    }

    /// Call `cohort_wait()`; return OK, TIMED_OUT or an error.
    fn ask(&self, limit: Duration) -> Result<Status> {
        let begin = Instant::now();
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            let error = match self.link.enter(CALL) {
                Ok(inside) => {
                    let (comm, left) = (inside.comm(), nanoseconds(left));
                    // SAFETY: the communicator is valid while this thread is inside its gate.
                    let rc = unsafe { sys::cohort_wait(comm, self.number, left) };
                    return inside.check(CALL, rc).map(Status);
                }
                Err(error) => error,
            };
            // The group was closed, or another thread is closing it.
            match self.link.end(left) {
                Some(end) if is_free(end.code()) => return Err(error),
                Some(end) => return Err(Error::new(end, CALL, error.text())),
                None if begin.elapsed() >= limit => return Ok(Status::TIMED_OUT),
                None => {}
            }
        }
    }

    /// Wait until the operation is done
    ///
    /// Blocks until the operation is done, or until the group has ended and its abort is complete:
    /// at most until a deadline of the watchdog plus the abort deadline.
    ///
    /// # Errors
    ///
    /// The cause's error; then the outputs are undefined. [`Status::STALE`] if the group was
    /// closed. [`Failed::into_parts`] returns the buffers, except after [`Status::WEDGED`].
    pub fn wait(self) -> std::result::Result<B, Failed<B>> {
        let answer = self.ask(Duration::MAX);
        self.answered(answer.map(drop))
    }

    /// Call [`Ticket::wait`], but wait no longer than `limit`; a limit of zero only tests.
    ///
    /// # Errors
    ///
    /// The errors of [`Ticket::wait`].
    pub fn wait_for(self, limit: Duration) -> std::result::Result<Waited<B>, Failed<B>> {
        match self.ask(limit) {
            Ok(Status::TIMED_OUT) => Ok(Waited::Pending(self)),
            answer => self.answered(answer.map(drop)).map(Waited::Done),
        }
    }

    fn answered(self, answer: Result<()>) -> std::result::Result<B, Failed<B>> {
        match answer {
            Ok(()) => Ok(self.take().1),
            Err(error) if is_free(error.status().code()) => {
                Err(Failed::new(error, Some(self.take().1)))
            }
            Err(error) => {
                mem::forget(self.take().1);
                Err(Failed::new(error, None))
            }
        }
    }

    /// Return whether the operation is done.
    ///
    /// # Errors
    ///
    /// The errors of [`Ticket::wait`].
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.ask(Duration::ZERO)? == Status::OK)
    }

    /// Make a stream of the program wait for the operation, on the device:
    /// `cohort_stream_after()`
    ///
    /// # Errors
    ///
    /// [`Status::BUSY`] if another thread is inside the communicator; otherwise those of the C
    /// function.
    ///
    /// # Safety
    ///
    /// `stream` is a `cudaStream_t` of the rank's device, or a stream of the host platform. Work
    /// that is then queued on `stream` may use the buffers before the program waits for the ticket.
    /// Until that work is done, nothing may write the buffers, and the ticket must be kept.
    pub unsafe fn stream_after(&self, stream: *mut c_void) -> Result<()> {
        let call = "cohort_stream_after";
        let inside = self.link.enter(call)?.try_turn().ok_or_else(|| {
            Error::new(Status::BUSY, call, "another thread is inside this communicator")
        })?;
        // SAFETY: the caller's promise about the stream.
        let rc = unsafe { sys::cohort_stream_after(inside.comm(), self.number, stream) };
        inside.check(call, rc).map(drop)
    }

    /// Return the ticket's number in C.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Return whether buffers are no longer in use after a wait returned `rc`.
pub(crate) fn is_free(rc: c_int) -> bool {
    !matches!(
        rc,
        sys::COHORT_WEDGED
            | sys::COHORT_TIMED_OUT
            | sys::COHORT_INVALID
            | sys::COHORT_UNSUPPORTED
            | sys::COHORT_FORKED
    )
}

/// Return an error of `call` unless its buffers are no longer in use after a wait with this result.
pub(crate) fn error_if_in_use(answer: Result<Status>, call: &'static str) -> Option<Error> {
    match answer {
        Ok(Status::OK) => None,
        Ok(_) => Some(Error::of(sys::COHORT_TIMED_OUT, call)),
        Err(error) if is_free(error.status().code()) => None,
        Err(error) => Some(error),
    }
}

impl<B: 'static> Drop for Ticket<B> {
    fn drop(&mut self) {
        let holds_nothing = mem::size_of::<B>() == 0;
        let mut answer = self.ask(Duration::ZERO);
        if matches!(answer, Ok(Status::TIMED_OUT)) && !holds_nothing {
            if thread::panicking() {
                if let Ok(inside) = self.link.enter(CALL) {
                    inside.fail(sys::COHORT_WORKER, "a panic dropped its ticket");
                }
            }
            answer = self.ask(PATIENCE);
        }
        match error_if_in_use(answer, CALL) {
            // SAFETY: not taken before, because taking it forgets the ticket.
            None => unsafe { ManuallyDrop::drop(&mut self.held) },
            Some(_) if holds_nothing => {}
            Some(error) => crate::told(&error),
        }
    }
}

impl<B: 'static> fmt::Debug for Ticket<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket {}", self.number)
    }
}
