// SPDX-License-Identifier: Apache-2.0

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use cohort_sys as sys;

use crate::buffer::{is_wedged, Place, Source, Target};
use crate::calls::{self, At};
use crate::comm::{number, Comm};
use crate::element::Reduction;
use crate::error::{Error, Failed, Result, Status};
use crate::ticket::Ticket;

/// Source of batch ids, which keep a slot from being used with another batch.
static BATCHES: AtomicU64 = AtomicU64::new(0);

type Held = Option<Box<dyn Any + Send>>;

/// Several collectives, sends and receives as one operation: `cohort_batch_begin()`
///
/// Each call takes its buffers and returns a [`Slot`] for them. [`Batch::end`] launches all of the
/// calls, or none. Until then the communicator's own collectives and copies return
/// [`Status::STATE`](crate::Status::STATE). The calls may run in any order and concurrently. If a
/// call is refused, it returns its buffers, and [`Batch::end`] launches nothing.
///
/// Dropping a batch launches nothing. A batch does not accept tickets, because a batch that is
/// dropped could not return buffers that are still in flight:
///
/// ```compile_fail,E0271
/// fn f(batch: &mut cohort::Batch, ticket: cohort::Ticket<cohort::Buffer<f32>>) {
///     batch.all_reduce(ticket, cohort::Op::Sum).unwrap();
/// }
/// ```
#[must_use = "a batch that is dropped launches nothing"]
pub struct Batch<'c> {
    comm: &'c Comm,
    id: u64,
    held: Vec<Held>,
    is_refused: bool,
}

/// The buffers of one call of a batch, returned by [`BatchBuffers::take`]
pub struct Slot<K> {
    id: u64,
    index: usize,
    kept: PhantomData<fn() -> K>,
}

/// The buffers of a batch whose ticket is done
pub struct BatchBuffers {
    id: u64,
    held: Vec<Held>,
}

impl BatchBuffers {
    /// Return the buffers of a call.
    ///
    /// # Panics
    ///
    /// If the slot belongs to another batch.
    pub fn take<K: 'static>(&mut self, slot: Slot<K>) -> K {
        assert_eq!(slot.id, self.id, "the slot is of another batch");
        let held = self.held[slot.index].take().and_then(|held| held.downcast().ok());
        *held.expect("a slot is taken once, and has its own type")
    }
}

type Taken<B> = std::result::Result<Slot<B>, Failed<B>>;

impl Comm {
    /// Begin a batch, whose calls are launched as one operation
    ///
    /// # Errors
    ///
    /// [`Status::STATE`] if a batch is open; [`Status::NO_MEMORY`]; the cause.
    pub fn batch(&self) -> Result<Batch<'_>> {
        let call = "cohort_batch_begin";
        let inside = self.submit(call)?;
        // SAFETY: the communicator is valid while this thread is inside its gate.
        let rc = unsafe { sys::cohort_batch_begin(inside.comm()) };
        inside.check(call, rc)?;
        self.has_batch.set(true);
        let id = BATCHES.fetch_add(1, Ordering::Relaxed);
        Ok(Batch { comm: self, id, held: Vec::new(), is_refused: false })
    }
}

impl Batch<'_> {
    fn queue<B: Send + 'static>(
        &mut self,
        call: &'static str,
        operands: B,
        make: impl FnOnce(&At<'_>, &B) -> Result<c_int>,
    ) -> Taken<B> {
        let queued = self.comm.turn(call).and_then(|inside| {
            let rc = make(&At { inside: &inside, call, number: ptr::null_mut() }, &operands)?;
            inside.check(call, rc)
        });
        if let Err(error) = queued {
            // C does not know about errors that this crate found, so `end()` must check this flag.
            self.is_refused = true;
            return Err(Failed::new(error, Some(operands)));
        }
        self.held.push(Some(Box::new(operands)));
        Ok(Slot { id: self.id, index: self.held.len() - 1, kept: PhantomData })
    }

    fn one<B: Source<Kept = B>>(
        &mut self,
        call: &'static str,
        data: B,
        make: impl FnOnce(&At<'_>, Place) -> Result<c_int>,
    ) -> Taken<B> {
        let link = self.comm.link.clone();
        self.queue(call, data, |at, data| make(at, data.place(&link, call)?))
    }

    fn two<S: Source<Kept = S>, R: Target<Kept = R>>(
        &mut self,
        call: &'static str,
        send: S,
        recv: R,
        make: impl FnOnce(&At<'_>, Place, Place) -> Result<c_int>,
    ) -> Taken<(S, R)> {
        let link = self.comm.link.clone();
        self.queue(call, (send, recv), |at, (send, recv)| {
            make(at, send.place(&link, call)?, recv.place(&link, call)?)
        })
    }

    // SAFETY, of each call below: the batch keeps the operands until it is dropped, which launches
    // nothing, or launched; after a launch its ticket keeps them.

    /// [`Comm::all_reduce`]
    pub fn all_reduce<B: Target<Kept = B>>(
        &mut self,
        data: B,
        op: impl Reduction<B::Element>,
    ) -> Taken<B> {
        self.one("cohort_all_reduce", data, |at, data| {
            // SAFETY: the batch, and then its ticket, keeps the operands alive.
            unsafe { calls::all_reduce(at, data, data, op.code()) }
        })
    }

    /// [`Comm::broadcast`]
    pub fn broadcast<B: Target<Kept = B>>(&mut self, data: B, root: usize) -> Taken<B> {
        let call = "cohort_broadcast";
        self.one(call, data, |at, data| {
            // SAFETY: the batch, and then its ticket, keeps the operands alive.
            unsafe { calls::broadcast(at, data, number(call, "root", root)?) }
        })
    }

    /// [`Comm::reduce`]
    pub fn reduce<B: Target<Kept = B>>(
        &mut self,
        data: B,
        op: impl Reduction<B::Element>,
        root: usize,
    ) -> Taken<B> {
        let call = "cohort_reduce";
        self.one(call, data, |at, data| {
            let root = number(call, "root", root)?;
            // SAFETY: the batch, and then its ticket, keeps the operands alive.
            unsafe { calls::reduce(at, data, op.code(), root) }
        })
    }

    /// [`Comm::all_gather`]
    pub fn all_gather<S: Source<Kept = S>, R: Target<Element = S::Element, Kept = R>>(
        &mut self,
        send: S,
        recv: R,
    ) -> Taken<(S, R)> {
        self.two("cohort_all_gather", send, recv, |at, send, recv| {
            // SAFETY: the batch, and then its ticket, keeps the operands alive.
            unsafe { calls::all_gather(at, send, recv) }
        })
    }

    /// [`Comm::reduce_scatter`]
    pub fn reduce_scatter<S: Source<Kept = S>, R: Target<Element = S::Element, Kept = R>>(
        &mut self,
        send: S,
        recv: R,
        op: impl Reduction<S::Element>,
    ) -> Taken<(S, R)> {
        self.two("cohort_reduce_scatter", send, recv, |at, send, recv| {
            // SAFETY: the batch, and then its ticket, keeps the operands alive.
            unsafe { calls::reduce_scatter(at, send, recv, op.code()) }
        })
    }

    /// [`Comm::all_to_all`]
    pub fn all_to_all<S: Source<Kept = S>, R: Target<Element = S::Element, Kept = R>>(
        &mut self,
        send: S,
        recv: R,
    ) -> Taken<(S, R)> {
        self.two("cohort_all_to_all", send, recv, |at, send, recv| {
            // SAFETY: the batch, and then its ticket, keeps the operands alive.
            unsafe { calls::all_to_all(at, send, recv) }
        })
    }

    /// [`Comm::send`]
    pub fn send<B: Source<Kept = B>>(&mut self, data: B, peer: usize) -> Taken<B> {
        let call = "cohort_send";
        self.one(call, data, |at, data| {
            // SAFETY: the batch, and then its ticket, keeps the operands alive.
            unsafe { calls::send(at, data, number(call, "peer", peer)?) }
        })
    }

    /// [`Comm::recv`]
    pub fn recv<B: Target<Kept = B>>(&mut self, data: B, peer: usize) -> Taken<B> {
        let call = "cohort_recv";
        self.one(call, data, |at, data| {
            // SAFETY: the batch, and then its ticket, keeps the operands alive.
            unsafe { calls::recv(at, data, number(call, "peer", peer)?) }
        })
    }

    /// Launch all calls, or none, with one ticket
    ///
    /// # Errors
    ///
    /// The errors of a collective, or the error of the first refused call. On an error nothing
    /// was launched, and the batch is closed.
    pub fn end(mut self) -> std::result::Result<Ticket<BatchBuffers>, Failed<BatchBuffers>> {
        let ended = self.closed();
        let buffers = BatchBuffers { id: self.id, held: mem::take(&mut self.held) };
        match ended {
            Ok(number) => Ok(Ticket::new(self.comm.link.clone(), number, buffers)),
            Err(error) if is_wedged(&error) => {
                mem::forget(buffers);
                Err(Failed::new(error, None))
            }
            Err(error) => Err(Failed::new(error, Some(buffers))),
        }
    }

    fn closed(&mut self) -> Result<u64> {
        let call = "cohort_batch_end";
        let inside = self.comm.turn(call)?;
        let mut number = 0;
        self.comm.has_batch.set(false);
        // SAFETY: the communicator's own stream. C refuses a call with an invalid type before it
        // uses any buffer.
        let rc = unsafe {
            let (comm, none) = (inside.comm(), ptr::null_mut());
            let stream = sys::cohort_comm_stream(comm);
            if self.is_refused {
                sys::cohort_all_reduce(
                    comm,
                    none,
                    none,
                    0,
                    -1,
                    sys::COHORT_SUM,
                    stream,
                    ptr::null_mut(),
                );
            }
            sys::cohort_batch_end(comm, stream, &mut number)
        };
        if rc == sys::COHORT_BUSY || rc == sys::COHORT_OWNER {
            // The batch is still open in C, with pointers to the buffers. This cannot happen,
            // because only this thread can have begun the batch.
            return Err(Error::new(Status::WEDGED, call, Status(rc).text()));
        }
        inside.check(call, rc)?;
        Ok(number)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.comm.has_batch.get() {
            return; // end() was called
        }
        self.is_refused = true;
        match self.closed() {
            Err(error) if is_wedged(&error) => mem::forget(mem::take(&mut self.held)),
            _ => self.held.clear(),
        }
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch of {} calls", self.held.len())
    }
}

impl<K> fmt::Debug for Slot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot {}", self.index)
    }
}

impl fmt::Debug for BatchBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchBuffers of {} calls", self.held.len())
    }
}
