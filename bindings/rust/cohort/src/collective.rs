// SPDX-License-Identifier: Apache-2.0

use std::marker::PhantomData;
use std::os::raw::c_int;

use cohort_sys as sys;

use crate::buffer::{is_wedged, Place, Source, Target};
use crate::calls::{self, At, Many};
use crate::comm::{number, Comm};
use crate::element::{sealed, DType, Element, Reduction};
use crate::error::{Failed, Result};
use crate::ticket::Ticket;

/// The result of a call that takes `B`: its ticket, or its error with `B`.
pub type Queued<B, K> = std::result::Result<Ticket<K>, Failed<B>>;

/// Two operands, returned as a pair.
type Both<S, R> = (<S as Source>::Kept, <R as Source>::Kept);

/// Collectives, sends and receives
///
/// Each call is queued on the communicator's own stream and returns without waiting for its
/// completion; `cohort/collective.h` says what else it may wait for. Buffers determine the counts.
///
/// # Errors
///
/// Each returns [`INVALID`] for sizes, roots and peers that do not fit, [`STATE`] if the
/// communicator is closed or a batch is open, [`STALE`] if its group was respawned or closed,
/// and the cause if the group has one. On these errors nothing was queued, and the error returns
/// the buffers. [`NCCL`], [`CUDA`] and [`MISMATCH`] end the group; these errors also return the
/// buffers. [`WEDGED`] does not return them. The ticket reports later failures.
///
/// [`INVALID`]: crate::Status::INVALID
/// [`STATE`]: crate::Status::STATE
/// [`STALE`]: crate::Status::STALE
/// [`NCCL`]: crate::Status::NCCL
/// [`CUDA`]: crate::Status::CUDA
/// [`MISMATCH`]: crate::Status::MISMATCH
/// [`WEDGED`]: crate::Status::WEDGED
impl Comm {
    fn launch(
        &self,
        call: &'static str,
        make: impl FnOnce(&At<'_>) -> Result<c_int>,
    ) -> Result<u64> {
        let mut number = 0;
        let inside = self.submit(call)?;
        let rc = make(&At { inside: &inside, call, number: &mut number })?;
        inside.check(call, rc)?;
        Ok(number)
    }

    fn ticket<B, K: 'static>(
        &self,
        queued: Result<u64>,
        operands: B,
        kept: impl FnOnce(B) -> K,
        lose: impl FnOnce(B),
    ) -> Queued<B, K> {
        match queued {
            Ok(number) => Ok(Ticket::new(self.link.clone(), number, kept(operands))),
            Err(error) if is_wedged(&error) => {
                lose(operands);
                Err(Failed::new(error, None))
            }
            Err(error) => Err(Failed::new(error, Some(operands))),
        }
    }

    fn one<B: Source>(
        &self,
        call: &'static str,
        data: B,
        make: impl FnOnce(&At<'_>, Place) -> Result<c_int>,
    ) -> Queued<B, B::Kept> {
        let queued = self.launch(call, |at| make(at, data.place(&self.link, call)?));
        // SAFETY: the ticket keeps the data alive.
        self.ticket(queued, data, |data| unsafe { data.kept() }, B::lose)
    }

    fn two<S: Source, R: Target>(
        &self,
        call: &'static str,
        send: S,
        recv: R,
        make: impl FnOnce(&At<'_>, Place, Place) -> Result<c_int>,
    ) -> Queued<(S, R), Both<S, R>> {
        let queued = self.launch(call, |at| {
            make(at, send.place(&self.link, call)?, recv.place(&self.link, call)?)
        });
        self.ticket(
            queued,
            (send, recv),
            // SAFETY: the ticket keeps the operands alive.
            |(send, recv)| unsafe { (send.kept(), recv.kept()) },
            |(send, recv)| {
                send.lose();
                recv.lose();
            },
        )
    }

    // SAFETY, of each call below: the ticket keeps the operands until it is done, and `ticket()`
    // keeps them after an error that leaves them in use.

    /// Combine `data` across ranks, with the result on every rank: `cohort_all_reduce()`.
    pub fn all_reduce<B: Target>(
        &self,
        data: B,
        op: impl Reduction<B::Element>,
    ) -> Queued<B, B::Kept> {
        self.one("cohort_all_reduce", data, |at, data| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::all_reduce(at, data, data, op.code()) }
        })
    }

    /// Combine `send` as [`Comm::all_reduce`] does, with the result in `recv`.
    pub fn all_reduce_into<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: R,
        op: impl Reduction<S::Element>,
    ) -> Queued<(S, R), Both<S, R>> {
        self.two("cohort_all_reduce", send, recv, |at, send, recv| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::all_reduce(at, send, recv, op.code()) }
        })
    }

    /// Copy `data` from rank `root` to every rank: `cohort_broadcast()`.
    pub fn broadcast<B: Target>(&self, data: B, root: usize) -> Queued<B, B::Kept> {
        let call = "cohort_broadcast";
        self.one(call, data, |at, data| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::broadcast(at, data, number(call, "root", root)?) }
        })
    }

    /// Combine `data` across ranks, with the result on rank `root` and undefined contents on the
    /// other ranks: `cohort_reduce()`.
    pub fn reduce<B: Target>(
        &self,
        data: B,
        op: impl Reduction<B::Element>,
        root: usize,
    ) -> Queued<B, B::Kept> {
        let call = "cohort_reduce";
        self.one(call, data, |at, data| {
            let root = number(call, "root", root)?;
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::reduce(at, data, op.code(), root) }
        })
    }

    /// Gather every rank's `send` into `recv` on every rank, in rank order: `cohort_all_gather()`.
    pub fn all_gather<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: R,
    ) -> Queued<(S, R), Both<S, R>> {
        self.two("cohort_all_gather", send, recv, |at, send, recv| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::all_gather(at, send, recv) }
        })
    }

    /// Gather as [`Comm::all_gather`] does, in place; this rank's input is its block of `data`.
    pub fn all_gather_in_place<B: Target>(&self, data: B) -> Queued<B, B::Kept> {
        self.one("cohort_all_gather", data, |at, data| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::all_gather_in_place(at, data) }
        })
    }

    /// Combine `send` across ranks, and keep this rank's block of the result:
    /// `cohort_reduce_scatter()`. `send` has one block of the length of `recv` for each rank.
    pub fn reduce_scatter<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: R,
        op: impl Reduction<S::Element>,
    ) -> Queued<(S, R), Both<S, R>> {
        self.two("cohort_reduce_scatter", send, recv, |at, send, recv| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::reduce_scatter(at, send, recv, op.code()) }
        })
    }

    /// Combine as [`Comm::reduce_scatter`] does, in place; this rank's result is its block of
    /// `data`.
    pub fn reduce_scatter_in_place<B: Target>(
        &self,
        data: B,
        op: impl Reduction<B::Element>,
    ) -> Queued<B, B::Kept> {
        self.one("cohort_reduce_scatter", data, |at, data| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::reduce_scatter_in_place(at, data, op.code()) }
        })
    }

    /// Gather every rank's `send` into `recv` on rank `root`: `cohort_gather()`. On other ranks,
    /// `recv` may be `None::<Buffer<T>>`.
    pub fn gather<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: Option<R>,
        root: usize,
    ) -> Queued<(S, Option<R>), Both<S, Option<R>>> {
        let call = "cohort_gather";
        self.two(call, send, recv, |at, send, recv| {
            let root = number(call, "root", root)?;
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::gather(at, send, recv, root) }
        })
    }

    /// Distribute the blocks of rank `root`'s `send`, one to each rank: `cohort_scatter()`. On
    /// root, `send` has one block of the length of `recv` for each rank; on other ranks it may be
    /// `None::<Buffer<T>>`.
    pub fn scatter<S: Source<Element = R::Element>, R: Target>(
        &self,
        send: Option<S>,
        recv: R,
        root: usize,
    ) -> Queued<(Option<S>, R), Both<Option<S>, R>> {
        let call = "cohort_scatter";
        self.two(call, send, recv, |at, send, recv| {
            let root = number(call, "root", root)?;
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::scatter(at, send, recv, root) }
        })
    }

    /// Send one block to every rank and receive one from every rank: `cohort_all_to_all()`. Block
    /// r of `send` goes to rank r, and block r of `recv` is from rank r.
    pub fn all_to_all<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: R,
    ) -> Queued<(S, R), Both<S, R>> {
        self.two("cohort_all_to_all", send, recv, |at, send, recv| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::all_to_all(at, send, recv) }
        })
    }

    /// Return a ticket that is done once every rank has called this: `cohort_barrier()`.
    pub fn barrier(&self) -> Result<Ticket<()>> {
        let queued = self.launch("cohort_barrier", |at| Ok(calls::barrier(at)))?;
        Ok(Ticket::new(self.link.clone(), queued, ()))
    }

    /// Send `data` to rank `peer`, which must receive the same number of elements:
    /// `cohort_send()`.
    pub fn send<B: Source>(&self, data: B, peer: usize) -> Queued<B, B::Kept> {
        let call = "cohort_send";
        self.one(call, data, |at, data| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::send(at, data, number(call, "peer", peer)?) }
        })
    }

    /// Receive `data` from rank `peer`, which must send the same number of elements:
    /// `cohort_recv()`.
    pub fn recv<B: Target>(&self, data: B, peer: usize) -> Queued<B, B::Kept> {
        let call = "cohort_recv";
        self.one(call, data, |at, data| {
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::recv(at, data, number(call, "peer", peer)?) }
        })
    }

    // ---- lists of tensors --------------------------------------------------

    fn many<B: Source>(
        &self,
        call: &'static str,
        what: Many,
        list: Vec<B>,
        both: impl Fn(&B) -> Result<(Place, Place)>,
    ) -> Queued<Vec<B>, Vec<B::Kept>> {
        let queued = self.launch(call, |at| {
            let places = list.iter().map(both).collect::<Result<Vec<_>>>()?;
            // SAFETY: the ticket keeps the operands alive.
            unsafe { calls::many(at, what, &places) }
        });
        self.ticket(
            queued,
            list,
            // SAFETY: the ticket keeps the operands alive.
            |list| list.into_iter().map(|data| unsafe { data.kept() }).collect(),
            |list| list.into_iter().for_each(B::lose),
        )
    }

    /// Call [`Comm::all_reduce`] on a list of tensors as one operation: `cohort_all_reduce_many()`.
    pub fn all_reduce_many<B: Target>(
        &self,
        list: Vec<B>,
        op: impl Reduction<B::Element>,
    ) -> Queued<Vec<B>, Vec<B::Kept>> {
        let call = "cohort_all_reduce_many";
        self.many(call, Many::AllReduce(op.code()), list, |data| {
            data.place(&self.link, call).map(|data| (data, data))
        })
    }

    /// Call [`Comm::broadcast`] on a list of tensors as one operation: `cohort_broadcast_many()`.
    pub fn broadcast_many<B: Target>(
        &self,
        list: Vec<B>,
        root: usize,
    ) -> Queued<Vec<B>, Vec<B::Kept>> {
        let call = "cohort_broadcast_many";
        let root = match number(call, "root", root) {
            Ok(root) => root,
            Err(error) => return Err(Failed::new(error, Some(list))),
        };
        self.many(call, Many::Broadcast(root), list, |data| {
            data.place(&self.link, call).map(|data| (data, data))
        })
    }

    /// Create a sum that multiplies each rank's input by the rank's `factor` first:
    /// `cohort_premul_sum_create()`
    ///
    /// A communicator can have 64 of these sums at a time. Dropping the object destroys the sum.
    ///
    /// # Errors
    ///
    /// [`Status::NO_MEMORY`](crate::Status::NO_MEMORY) if there are 64 already;
    /// [`Status::UNSUPPORTED`](crate::Status::UNSUPPORTED) for 8-bit floats on one rank; the
    /// cause.
    pub fn premul_sum<T: Element>(&self, factor: T) -> Result<PremulSum<'_, T>> {
        let call = "cohort_premul_sum_create";
        let inside = self.turn(call)?;
        let (mut op, scalar) = (0, (&factor as *const T).cast());
        let (dtype, residence) = (DType::code(T::DTYPE), sys::COHORT_SCALAR_HOST);
        // SAFETY: a pointer to one element of host memory, which C reads during the call.
        let rc = unsafe {
            sys::cohort_premul_sum_create(inside.comm(), scalar, dtype, residence, &mut op)
        };
        inside.check(call, rc)?;
        Ok(PremulSum { comm: self, op, element: PhantomData })
    }
}

/// A sum that multiplies each rank's input by a factor first
pub struct PremulSum<'c, T: Element> {
    comm: &'c Comm,
    op: c_int,
    element: PhantomData<T>,
}

impl<T: Element> sealed::Reduction for &PremulSum<'_, T> {
    fn code(&self) -> c_int {
        self.op
    }
}

impl<T: Element> Reduction<T> for &PremulSum<'_, T> {}

impl<T: Element> Drop for PremulSum<'_, T> {
    fn drop(&mut self) {
        if let Ok(inside) = self.comm.turn("") {
            // SAFETY: a sum of this communicator, destroyed once. Calls that use it were queued,
            // or are in a batch, whose end then returns an error.
            unsafe { sys::cohort_op_destroy(inside.comm(), self.op) };
        }
    }
}

impl<T: Element> std::fmt::Debug for PremulSum<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PremulSum of {}", T::DTYPE.name())
    }
}
