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

/// An operation that was queued, and the buffers that it uses
///
/// Waiting gives the buffers back. Any thread may wait; a ticket can be sent to another one.
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
/// Dropping a ticket that has buffers waits until the operation is done, at most 10 s: until
/// then something may use them. What is still in use after that is never freed, which
/// [`on_drop_error`](crate::on_drop_error) is told. If a panic drops the ticket, the rank gives
/// up first ([`Comm::fail`](crate::Comm::fail)), as the operation may be waiting for what the
/// panic skipped. [`mem::forget`] of a ticket leaks its buffers.
#[must_use = "a ticket that is dropped waits for its operation; the buffers are in it"]
pub struct Ticket<B: 'static> {
    link: Link,
    number: u64,
    held: ManuallyDrop<B>,
}

/// What [`Ticket::wait_for`] has found
#[derive(Debug)]
pub enum Waited<B: 'static> {
    /// The operation is done; the output may be read.
    Done(B),
    /// Nothing has changed: wait again.
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

    /// What it holds, without an answer: for an operation that is queued behind this one.
    pub(crate) fn superseded(self) -> B {
        self.take().1
    }

    fn take(self) -> (Link, B) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never used again, nor dropped.
        unsafe { (ptr::read(&this.link), ManuallyDrop::take(&mut this.held)) }
    }

    /// `cohort_wait()`; OK, TIMED_OUT, or an error.
    fn ask(&self, limit: Duration) -> Result<Status> {
        let begin = Instant::now();
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            let error = match self.link.enter(CALL) {
                Ok(inside) => {
                    let (comm, left) = (inside.comm(), nanoseconds(left));
                    // SAFETY: the communicator is valid while the gate is passed.
                    let rc = unsafe { sys::cohort_wait(comm, self.number, left) };
                    return inside.check(CALL, rc).map(Status);
                }
                Err(error) => error,
            };
            // The group is being closed, or was.
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
    /// Blocks until then, or until something has ended the group: a deadline of the watchdog,
    /// at the latest, and the abort deadline.
    ///
    /// # Errors
    ///
    /// The cause's; the outputs are then undefined. [`Status::STALE`] after the group was
    /// closed. [`Failed::into_parts`] has the buffers, but for [`Status::WEDGED`].
    pub fn wait(self) -> std::result::Result<B, Failed<B>> {
        let answer = self.ask(Duration::MAX);
        self.answered(answer.map(drop))
    }

    /// As [`Ticket::wait`], but no longer than `limit`; zero only tests.
    ///
    /// # Errors
    ///
    /// As for [`Ticket::wait`].
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

    /// Whether the operation is done; it need not be waited for then, but may be.
    ///
    /// # Errors
    ///
    /// As for [`Ticket::wait`].
    pub fn is_done(&self) -> Result<bool> {
        Ok(self.ask(Duration::ZERO)? == Status::OK)
    }

    /// `cohort_stream_after()`: a stream of the program's waits for the operation, on the
    /// device
    ///
    /// # Errors
    ///
    /// [`Status::BUSY`] if another thread is inside the communicator; the others are those of
    /// the function of C.
    ///
    /// # Safety
    ///
    /// `stream` is a `cudaStream_t` of the rank's device, or one of the platform's. What is
    /// queued there may use the buffers before the ticket is waited for: nothing may write
    /// them, and the ticket must be kept, until that is done.
    pub unsafe fn stream_after(&self, stream: *mut c_void) -> Result<()> {
        let call = "cohort_stream_after";
        let inside = self.link.enter(call)?.try_turn().ok_or_else(|| {
            Error::new(Status::BUSY, call, "another thread is inside this communicator")
        })?;
        // SAFETY: the caller's promise about the stream.
        let rc = unsafe { sys::cohort_stream_after(inside.comm(), self.number, stream) };
        inside.check(call, rc).map(drop)
    }

    /// The ticket as C has it.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Whether buffers are free after this answer of a wait.
fn is_free(rc: c_int) -> bool {
    !matches!(
        rc,
        sys::COHORT_WEDGED
            | sys::COHORT_TIMED_OUT
            | sys::COHORT_INVALID
            | sys::COHORT_UNSUPPORTED
            | sys::COHORT_FORKED
    )
}

impl<B: 'static> Drop for Ticket<B> {
    fn drop(&mut self) {
        let holds_nothing = mem::size_of::<B>() == 0;
        let mut answer = self.ask(Duration::ZERO);
        if matches!(answer, Ok(Status::TIMED_OUT)) && !holds_nothing {
            if thread::panicking() {
                if let Ok(inside) = self.link.enter(CALL) {
                    inside.fail(sys::COHORT_WORKER, "a panic has dropped its ticket");
                }
            }
            answer = self.ask(PATIENCE);
        }
        let error = match answer {
            Ok(Status::OK) => None,
            Ok(_) => Some(Error::of(sys::COHORT_TIMED_OUT, CALL)),
            Err(error) if is_free(error.status().code()) => None,
            Err(error) => Some(error),
        };
        match error {
            // SAFETY: not taken before, as that forgets the ticket.
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
