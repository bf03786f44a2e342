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

/// The ticket of a call that was given `B`, or the error, with `B`.
pub type Queued<B, K> = std::result::Result<Ticket<K>, Failed<B>>;

/// Two operands, as one.
type Both<S, R> = (<S as Source>::Kept, <R as Source>::Kept);

/// Collectives, sends and receives
///
/// All are queued on the communicator's own stream, and return without waiting for that; what
/// they may wait for is said in `cohort/collective.h`. The counts are those of the buffers.
///
/// # Errors
///
/// Each answers [`INVALID`] for sizes, roots and peers that do not fit, [`STATE`] if the
/// communicator is closed or a batch is open, [`STALE`] if its group was respawned or closed,
/// and the cause if the group has one. Nothing was queued then, and the buffers come back with
/// the error. [`NCCL`], [`CUDA`] and [`MISMATCH`] end the group; the buffers come back, too, but
/// not with [`WEDGED`]. What goes wrong later is the ticket's answer.
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
        // SAFETY: the ticket keeps the data; likewise below.
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
            // SAFETY: see above.
            |(send, recv)| unsafe { (send.kept(), recv.kept()) },
            |(send, recv)| {
                send.lose();
                recv.lose();
            },
        )
    }

    // SAFETY, of each call below: the ticket keeps the operands until it is answered, and so
    // does `ticket()` after an error that leaves them in use.

    /// Combine `data` across ranks, with the result on every rank: `cohort_all_reduce()`.
    pub fn all_reduce<B: Target>(
        &self,
        data: B,
        op: impl Reduction<B::Element>,
    ) -> Queued<B, B::Kept> {
        self.one("cohort_all_reduce", data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::all_reduce::<B::Element>(at, data, data, op.code()) }
        })
    }

    /// As [`Comm::all_reduce`], from one buffer into another.
    pub fn all_reduce_into<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: R,
        op: impl Reduction<S::Element>,
    ) -> Queued<(S, R), Both<S, R>> {
        self.two("cohort_all_reduce", send, recv, |at, send, recv| {
            // SAFETY: see above.
            unsafe { calls::all_reduce::<S::Element>(at, send, recv, op.code()) }
        })
    }

    /// Copy `data` from rank `root` to every rank: `cohort_broadcast()`.
    pub fn broadcast<B: Target>(&self, data: B, root: usize) -> Queued<B, B::Kept> {
        let call = "cohort_broadcast";
        self.one(call, data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::broadcast::<B::Element>(at, data, number(call, "root", root)?) }
        })
    }

    /// Combine `data` across ranks, with the result on rank `root`, and undefined contents
    /// elsewhere: `cohort_reduce()`.
    pub fn reduce<B: Target>(
        &self,
        data: B,
        op: impl Reduction<B::Element>,
        root: usize,
    ) -> Queued<B, B::Kept> {
        let call = "cohort_reduce";
        self.one(call, data, |at, data| {
            let root = number(call, "root", root)?;
            // SAFETY: see above.
            unsafe { calls::reduce::<B::Element>(at, data, op.code(), root) }
        })
    }

    /// Collect every rank's `send` on every rank: `cohort_all_gather()`. `recv` is as long as
    /// all of them, in rank order.
    pub fn all_gather<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: R,
    ) -> Queued<(S, R), Both<S, R>> {
        self.two("cohort_all_gather", send, recv, |at, send, recv| {
            // SAFETY: see above.
            unsafe { calls::all_gather::<S::Element>(at, send, recv) }
        })
    }

    /// As [`Comm::all_gather`], of the block with the number of this rank in `data`.
    pub fn all_gather_in_place<B: Target>(&self, data: B) -> Queued<B, B::Kept> {
        self.one("cohort_all_gather", data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::all_gather_in_place::<B::Element>(at, data) }
        })
    }

    /// Combine `send` across ranks, of which each rank gets the block with its number:
    /// `cohort_reduce_scatter()`. `send` has a block as long as `recv` for each rank.
    pub fn reduce_scatter<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: R,
        op: impl Reduction<S::Element>,
    ) -> Queued<(S, R), Both<S, R>> {
        self.two("cohort_reduce_scatter", send, recv, |at, send, recv| {
            // SAFETY: see above.
            unsafe { calls::reduce_scatter::<S::Element>(at, send, recv, op.code()) }
        })
    }

    /// As [`Comm::reduce_scatter`], into the block with the number of this rank in `data`.
    pub fn reduce_scatter_in_place<B: Target>(
        &self,
        data: B,
        op: impl Reduction<B::Element>,
    ) -> Queued<B, B::Kept> {
        self.one("cohort_reduce_scatter", data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::reduce_scatter_in_place::<B::Element>(at, data, op.code()) }
        })
    }

    /// Collect every rank's `send` on rank `root`: `cohort_gather()`. `recv` is as long as all of
    /// them on the root, and may be `None::<Buffer<T>>` elsewhere.
    pub fn gather<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: Option<R>,
        root: usize,
    ) -> Queued<(S, Option<R>), Both<S, Option<R>>> {
        let call = "cohort_gather";
        self.two(call, send, recv, |at, send, recv| {
            let root = number(call, "root", root)?;
            // SAFETY: see above.
            unsafe { calls::gather::<S::Element>(at, send, recv, root) }
        })
    }

    /// Give every rank its block of rank `root`'s `send`: `cohort_scatter()`. `send` has a block
    /// as long as `recv` for each rank on the root, and may be `None::<Buffer<T>>` elsewhere.
    pub fn scatter<S: Source<Element = R::Element>, R: Target>(
        &self,
        send: Option<S>,
        recv: R,
        root: usize,
    ) -> Queued<(Option<S>, R), Both<Option<S>, R>> {
        let call = "cohort_scatter";
        self.two(call, send, recv, |at, send, recv| {
            let root = number(call, "root", root)?;
            // SAFETY: see above.
            unsafe { calls::scatter::<R::Element>(at, send, recv, root) }
        })
    }

    /// Every rank gives every rank a block: `cohort_all_to_all()`. Both have a block for each
    /// rank: block r of `send` is for rank r, block r of `recv` is from it.
    pub fn all_to_all<S: Source, R: Target<Element = S::Element>>(
        &self,
        send: S,
        recv: R,
    ) -> Queued<(S, R), Both<S, R>> {
        self.two("cohort_all_to_all", send, recv, |at, send, recv| {
            // SAFETY: see above.
            unsafe { calls::all_to_all::<S::Element>(at, send, recv) }
        })
    }

    /// A ticket that is done only when every rank has come: `cohort_barrier()`.
    pub fn barrier(&self) -> Result<Ticket<()>> {
        let queued = self.launch("cohort_barrier", |at| Ok(calls::barrier(at)))?;
        Ok(Ticket::new(self.link.clone(), queued, ()))
    }

    /// Give `data` to rank `peer`, which receives as many elements: `cohort_send()`.
    pub fn send<B: Source>(&self, data: B, peer: usize) -> Queued<B, B::Kept> {
        let call = "cohort_send";
        self.one(call, data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::send::<B::Element>(at, data, number(call, "peer", peer)?) }
        })
    }

    /// Get `data` from rank `peer`, which sends as many elements: `cohort_recv()`.
    pub fn recv<B: Target>(&self, data: B, peer: usize) -> Queued<B, B::Kept> {
        let call = "cohort_recv";
        self.one(call, data, |at, data| {
            // SAFETY: see above.
            unsafe { calls::recv::<B::Element>(at, data, number(call, "peer", peer)?) }
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
            // SAFETY: as for the calls above.
            unsafe { calls::many::<B::Element>(at, what, &places) }
        });
        self.ticket(
            queued,
            list,
            // SAFETY: see above.
            |list| list.into_iter().map(|data| unsafe { data.kept() }).collect(),
            |list| list.into_iter().for_each(B::lose),
        )
    }

    /// [`Comm::all_reduce`] of a list of tensors as one operation: `cohort_all_reduce_many()`.
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

    /// [`Comm::broadcast`] of a list of tensors as one operation: `cohort_broadcast_many()`.
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

    fn many_pairs<S: Source, R: Target<Element = S::Element>>(
        &self,
        call: &'static str,
        what: Many,
        list: Vec<(S, R)>,
    ) -> Queued<Vec<(S, R)>, Vec<Both<S, R>>> {
        let queued = self.launch(call, |at| {
            let place = |(send, recv): &(S, R)| {
                Ok((send.place(&self.link, call)?, recv.place(&self.link, call)?))
            };
            let places = list.iter().map(place).collect::<Result<Vec<_>>>()?;
            // SAFETY: as for the calls above.
            unsafe { calls::many::<S::Element>(at, what, &places) }
        });
        self.ticket(
            queued,
            list,
            |list| {
                // SAFETY: see above.
                let kept = |(send, recv): (S, R)| unsafe { (send.kept(), recv.kept()) };
                list.into_iter().map(kept).collect()
            },
            |list| {
                for (send, recv) in list {
                    send.lose();
                    recv.lose();
                }
            },
        )
    }

    /// [`Comm::all_gather`] of a list of tensors as one operation: `cohort_all_gather_many()`.
    pub fn all_gather_many<S: Source, R: Target<Element = S::Element>>(
        &self,
        list: Vec<(S, R)>,
    ) -> Queued<Vec<(S, R)>, Vec<Both<S, R>>> {
        self.many_pairs("cohort_all_gather_many", Many::AllGather, list)
    }

    /// [`Comm::reduce_scatter`] of a list of tensors as one operation:
    /// `cohort_reduce_scatter_many()`.
    pub fn reduce_scatter_many<S: Source, R: Target<Element = S::Element>>(
        &self,
        list: Vec<(S, R)>,
        op: impl Reduction<S::Element>,
    ) -> Queued<Vec<(S, R)>, Vec<Both<S, R>>> {
        self.many_pairs("cohort_reduce_scatter_many", Many::ReduceScatter(op.code()), list)
    }

    /// A sum for which each rank multiplies its input by its own `factor` first:
    /// `cohort_premul_sum_create()`
    ///
    /// A communicator has room for 64 at a time. Dropping it destroys it.
    ///
    /// # Errors
    ///
    /// [`Status::NO_MEMORY`](crate::Status::NO_MEMORY) if there are 64;
    /// [`Status::UNSUPPORTED`](crate::Status::UNSUPPORTED) for 8-bit floats on one rank; the
    /// cause.
    pub fn premul_sum<T: Element>(&self, factor: T) -> Result<PremulSum<'_, T>> {
        let call = "cohort_premul_sum_create";
        let inside = self.turn(call)?;
        let (mut op, scalar) = (0, (&factor as *const T).cast());
        let (dtype, residence) = (DType::code(T::DTYPE), sys::COHORT_SCALAR_HOST);
        // SAFETY: one element of the host, which is read by the call.
        let rc = unsafe {
            sys::cohort_premul_sum_create(inside.comm(), scalar, dtype, residence, &mut op)
        };
        inside.check(call, rc)?;
        Ok(PremulSum { comm: self, op, element: PhantomData })
    }
}

/// A sum of inputs that were multiplied by a factor of each rank
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
            // SAFETY: a sum of this communicator, which is destroyed once. What used it was
            // queued, or is in a batch, whose end then answers with an error.
            unsafe { sys::cohort_op_destroy(inside.comm(), self.op) };
        }
    }
}

impl<T: Element> std::fmt::Debug for PremulSum<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PremulSum of {}", T::DTYPE.name())
    }
}
