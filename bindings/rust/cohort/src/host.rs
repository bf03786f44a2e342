// SPDX-License-Identifier: Apache-2.0

use std::os::raw::c_int;
use std::ptr;
use std::time::Duration;

use cohort_sys as sys;

use crate::buffer::Place;
use crate::calls::{code, At};
use crate::comm::{number, Comm};
use crate::element::{Element, Reduction};
use crate::error::Result;
use crate::options::nanoseconds;

fn read_from<T>(slice: &[T]) -> Place {
    Place { memory: slice.as_ptr() as *mut _, len: slice.len(), dtype: None }
}

fn written_to<T>(slice: &mut [T]) -> Place {
    Place { memory: slice.as_mut_ptr().cast(), len: slice.len(), dtype: None }
}

/// Collectives, sends and receives on host memory, which block until they are done
///
/// They run on the communicator's own stream, in order with the operations queued there. `limit`
/// is the longest time to wait; with [`Duration::MAX`] a call waits until the operation is done or
/// a deadline of the watchdog expires. The library works on a copy in its own memory, so nothing
/// uses the slices after the call, even after an error.
///
/// # Errors
///
/// [`TIMED_OUT`] if `limit` passed: the operation continues without the caller, the other ranks get
/// this rank's input, and the output is undefined. Until the operation ends, further calls on host
/// memory return [`BUSY`]. [`INVALID`] for sizes, roots and peers that do not fit; then the call
/// had no effect. After any other error the output is undefined.
///
/// [`TIMED_OUT`]: crate::Status::TIMED_OUT
/// [`BUSY`]: crate::Status::BUSY
/// [`INVALID`]: crate::Status::INVALID
impl Comm {
    fn host(
        &self,
        call: &'static str,
        limit: Duration,
        make: impl FnOnce(&At<'_>, u64) -> Result<c_int>,
    ) -> Result<()> {
        let inside = self.submit(call)?;
        // Pass a limit of 584 years rather than COHORT_FOREVER, with which the call would work on
        // the slices themselves and might still use them after WEDGED.
        let limit = nanoseconds(limit).min(sys::COHORT_FOREVER - 1);
        match make(&At { inside: &inside, call, number: ptr::null_mut() }, limit)? {
            sys::COHORT_OK => Ok(()),
            rc => Err(inside.error(call, rc)),
        }
    }

    // SAFETY, of each call below: the slices have the number of elements that C is given. They are
    // borrowed for the call, and nothing uses them afterwards, because `host()` passes a limit.

    /// Combine `data` across ranks, with the result on every rank.
    pub fn all_reduce_host<T: Element>(
        &self,
        data: &mut [T],
        op: impl Reduction<T>,
        limit: Duration,
    ) -> Result<()> {
        let call = "cohort_all_reduce_host";
        let place = written_to(data);
        self.host(call, limit, |at, limit| {
            let (comm, data, n) = (at.comm(), place.memory, place.len);
            // SAFETY: the slices have these lengths, and are borrowed for the call.
            Ok(unsafe { sys::cohort_all_reduce_host(comm, data, n, code::<T>(), op.code(), limit) })
        })
    }

    /// Copy `data` from rank `root` to every rank.
    pub fn broadcast_host<T: Element>(
        &self,
        data: &mut [T],
        root: usize,
        limit: Duration,
    ) -> Result<()> {
        let call = "cohort_broadcast_host";
        let place = written_to(data);
        let root = number(call, "root", root)?;
        self.host(call, limit, |at, limit| {
            let (comm, data, n) = (at.comm(), place.memory, place.len);
            // SAFETY: the slices have these lengths, and are borrowed for the call.
            Ok(unsafe { sys::cohort_broadcast_host(comm, data, n, code::<T>(), root, limit) })
        })
    }

    /// Combine `data` across ranks, with the result only on rank `root`.
    pub fn reduce_host<T: Element>(
        &self,
        data: &mut [T],
        op: impl Reduction<T>,
        root: usize,
        limit: Duration,
    ) -> Result<()> {
        let call = "cohort_reduce_host";
        let place = written_to(data);
        let root = number(call, "root", root)?;
        self.host(call, limit, |at, limit| {
            let (comm, data, n) = (at.comm(), place.memory, place.len);
            // SAFETY: the slices have these lengths, and are borrowed for the call.
            Ok(unsafe {
                sys::cohort_reduce_host(comm, data, n, code::<T>(), op.code(), root, limit)
            })
        })
    }

    /// Gather every rank's `send` on every rank, in rank order.
    pub fn all_gather_host<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        limit: Duration,
    ) -> Result<()> {
        let call = "cohort_all_gather_host";
        let (send, recv) = (read_from(send), written_to(recv));
        self.host(call, limit, |at, limit| {
            at.want_all("recv", recv, send.len)?;
            let (comm, from, to, n) = (at.comm(), send.memory, recv.memory, send.len);
            // SAFETY: the slices have these lengths, and are borrowed for the call.
            Ok(unsafe { sys::cohort_all_gather_host(comm, from, to, n, code::<T>(), limit) })
        })
    }

    /// Combine `send` across ranks, and keep this rank's block of the result.
    pub fn reduce_scatter_host<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: impl Reduction<T>,
        limit: Duration,
    ) -> Result<()> {
        let call = "cohort_reduce_scatter_host";
        let (send, recv) = (read_from(send), written_to(recv));
        self.host(call, limit, |at, limit| {
            at.want_all("send", send, recv.len)?;
            let (comm, from, to, n) = (at.comm(), send.memory, recv.memory, recv.len);
            // SAFETY: the slices have these lengths, and are borrowed for the call.
            Ok(unsafe {
                sys::cohort_reduce_scatter_host(comm, from, to, n, code::<T>(), op.code(), limit)
            })
        })
    }

    /// Gather every rank's `send` on rank `root`; other ranks' `recv` is ignored and may be empty.
    pub fn gather_host<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        root: usize,
        limit: Duration,
    ) -> Result<()> {
        let call = "cohort_gather_host";
        let (send, recv) = (read_from(send), written_to(recv));
        let root = number(call, "root", root)?;
        self.host(call, limit, |at, limit| {
            if at.is(root) {
                at.want_all("recv", recv, send.len)?;
            }
            let (comm, from, to, n) = (at.comm(), send.memory, recv.memory, send.len);
            // SAFETY: the slices are borrowed for the call; only root's `recv` is used.
            Ok(unsafe { sys::cohort_gather_host(comm, from, to, n, code::<T>(), root, limit) })
        })
    }

    /// Distribute the blocks of rank `root`'s `send`, one to each rank; other ranks' `send` is
    /// ignored.
    pub fn scatter_host<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        root: usize,
        limit: Duration,
    ) -> Result<()> {
        let call = "cohort_scatter_host";
        let (send, recv) = (read_from(send), written_to(recv));
        let root = number(call, "root", root)?;
        self.host(call, limit, |at, limit| {
            if at.is(root) {
                at.want_all("send", send, recv.len)?;
            }
            let (comm, from, to, n) = (at.comm(), send.memory, recv.memory, recv.len);
            // SAFETY: the slices are borrowed for the call; only root's `send` is used.
            Ok(unsafe { sys::cohort_scatter_host(comm, from, to, n, code::<T>(), root, limit) })
        })
    }

    /// Send one block to every rank and receive one from every rank: block r of `send` goes to
    /// rank r, and block r of `recv` is from rank r.
    pub fn all_to_all_host<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        limit: Duration,
    ) -> Result<()> {
        let call = "cohort_all_to_all_host";
        let (send, recv) = (read_from(send), written_to(recv));
        self.host(call, limit, |at, limit| {
            at.want("recv", recv, send.len)?;
            let (comm, from, to, n) =
                (at.comm(), send.memory, recv.memory, at.share("send", send)?);
            // SAFETY: the slices have these lengths, and are borrowed for the call.
            Ok(unsafe { sys::cohort_all_to_all_host(comm, from, to, n, code::<T>(), limit) })
        })
    }

    /// Send `data` to rank `peer`, which must receive the same number of elements.
    pub fn send_host<T: Element>(&self, data: &[T], peer: usize, limit: Duration) -> Result<()> {
        let call = "cohort_send_host";
        let place = read_from(data);
        let peer = number(call, "peer", peer)?;
        self.host(call, limit, |at, limit| {
            let (comm, data, n) = (at.comm(), place.memory, place.len);
            // SAFETY: the slices have these lengths, and are borrowed for the call.
            Ok(unsafe { sys::cohort_send_host(comm, data, n, code::<T>(), peer, limit) })
        })
    }

    /// Receive `data` from rank `peer`, which must send the same number of elements.
    pub fn recv_host<T: Element>(
        &self,
        data: &mut [T],
        peer: usize,
        limit: Duration,
    ) -> Result<()> {
        let call = "cohort_recv_host";
        let place = written_to(data);
        let peer = number(call, "peer", peer)?;
        self.host(call, limit, |at, limit| {
            let (comm, data, n) = (at.comm(), place.memory, place.len);
            // SAFETY: the slices have these lengths, and are borrowed for the call.
            Ok(unsafe { sys::cohort_recv_host(comm, data, n, code::<T>(), peer, limit) })
        })
    }

    /// Wait again for the call that returned [`TIMED_OUT`], whose output buffer was `data`.
    ///
    /// [`TIMED_OUT`]: crate::Status::TIMED_OUT
    pub fn wait_host<T: Element>(&self, data: &mut [T], limit: Duration) -> Result<()> {
        let bytes = std::mem::size_of_val(data);
        let place = written_to(data);
        self.host("cohort_wait_host", limit, |at, limit| {
            // SAFETY: the slice has this size, and is borrowed for the call.
            Ok(unsafe { sys::cohort_wait_host(at.comm(), place.memory, bytes, limit) })
        })
    }
}
