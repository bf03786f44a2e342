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

/// A number of its own for each batch, so that no slot is taken for another's.
static BATCHES: AtomicU64 = AtomicU64::new(0);

type Held = Option<Box<dyn Any + Send>>;

/// Several collectives, sends and receives as one operation: `cohort_batch_begin()`
///
/// Each call takes its buffers, and gives a [`Slot`] for them. [`Batch::end`] launches all of
/// them, or nothing. Until then the communicator's own collectives and copies
/// answer [`Status::STATE`](crate::Status::STATE). The calls may be carried out in any order, and at the
/// same time. A call that is refused gives its buffers back, and the end launches nothing.
///
/// A batch that is dropped launches nothing. So it takes no buffers that are in flight, which it
/// could not give back:
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

/// The buffers of one call of a batch, for [`BatchBuffers::take`]
pub struct Slot<K> {
    id: u64,
    index: usize,
    kept: PhantomData<fn() -> K>,
}

/// The buffers of a batch whose ticket was waited for
pub struct BatchBuffers {
    id: u64,
    held: Vec<Held>,
}

impl BatchBuffers {
    /// The buffers of a call.
    ///
    /// # Panics
    ///
    /// If the slot is of another batch.
    pub fn take<K: 'static>(&mut self, slot: Slot<K>) -> K {
        assert_eq!(slot.id, self.id, "the slot is of another batch");
        let held = self.held[slot.index].take().and_then(|held| held.downcast().ok());
        *held.expect("a slot is taken once, and has its own type")
    }
}

type Taken<B> = std::result::Result<Slot<B>, Failed<B>>;

impl Comm {
    /// Begin a batch: what is called on it belongs together
    ///
    /// # Errors
    ///
    /// [`Status::STATE`] if one is open; [`Status::NO_MEMORY`]; the cause.
    pub fn batch(&self) -> Result<Batch<'_>> {
        let call = "cohort_batch_begin";
        let inside = self.submit(call)?;
        // SAFETY: a communicator that is valid while the gate is passed.
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
            // Checks of this crate's own are not known to C: the end must launch nothing.
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

    // SAFETY, of each call below: the batch keeps the operands until it is dropped, which
    // launches nothing, or launched, and then its ticket does.

    /// [`Comm::all_reduce`]
    pub fn all_reduce<B: Target<Kept = B>>(
        &mut self,
        data: B,
        op: impl Reduction<B::Element>,
    ) -> Taken<B> {
        self.one("cohort_all_reduce", data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::all_reduce::<B::Element>(at, data, data, op.code()) }
        })
    }

    /// [`Comm::broadcast`]
    pub fn broadcast<B: Target<Kept = B>>(&mut self, data: B, root: usize) -> Taken<B> {
        let call = "cohort_broadcast";
        self.one(call, data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::broadcast::<B::Element>(at, data, number(call, "root", root)?) }
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
            // SAFETY: see above.
            unsafe { calls::reduce::<B::Element>(at, data, op.code(), root) }
        })
    }

    /// [`Comm::all_gather`]
    pub fn all_gather<S: Source<Kept = S>, R: Target<Element = S::Element, Kept = R>>(
        &mut self,
        send: S,
        recv: R,
    ) -> Taken<(S, R)> {
        self.two("cohort_all_gather", send, recv, |at, send, recv| {
            // SAFETY: see above.
            unsafe { calls::all_gather::<S::Element>(at, send, recv) }
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
            // SAFETY: see above.
            unsafe { calls::reduce_scatter::<S::Element>(at, send, recv, op.code()) }
        })
    }

    /// [`Comm::all_to_all`]
    pub fn all_to_all<S: Source<Kept = S>, R: Target<Element = S::Element, Kept = R>>(
        &mut self,
        send: S,
        recv: R,
    ) -> Taken<(S, R)> {
        self.two("cohort_all_to_all", send, recv, |at, send, recv| {
            // SAFETY: see above.
            unsafe { calls::all_to_all::<S::Element>(at, send, recv) }
        })
    }

    /// [`Comm::send`]
    pub fn send<B: Source<Kept = B>>(&mut self, data: B, peer: usize) -> Taken<B> {
        let call = "cohort_send";
        self.one(call, data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::send::<B::Element>(at, data, number(call, "peer", peer)?) }
        })
    }

    /// [`Comm::recv`]
    pub fn recv<B: Target<Kept = B>>(&mut self, data: B, peer: usize) -> Taken<B> {
        let call = "cohort_recv";
        self.one(call, data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::recv::<B::Element>(at, data, number(call, "peer", peer)?) }
        })
    }

    /// Launch it: all or nothing, with one ticket
    ///
    /// # Errors
    ///
    /// As a collective; and those of the first call that was refused. Nothing was launched
    /// then, and the batch is closed.
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
        // SAFETY: the communicator's own stream; a call of C with a wrong type is refused, and
        // looks at no buffer.
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
            // It is still open in C, with pointers to the buffers: no other thread than this
            // one can have begun it, so this is not to be.
            return Err(Error::new(Status::WEDGED, call, Status(rc).text()));
        }
        inside.check(call, rc)?;
        Ok(number)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.comm.has_batch.get() {
            return; // it was ended
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
