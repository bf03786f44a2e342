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
    Place { memory: slice.as_ptr() as *mut _, len: slice.len() }
}

fn written_to<T>(slice: &mut [T]) -> Place {
    Place { memory: slice.as_mut_ptr().cast(), len: slice.len() }
}

/// The collectives, sends and receives on memory of the process, which wait for their end
///
/// They go to the communicator's own stream, in order with what is queued there. `limit` is how
/// long to wait; [`Duration::MAX`]: until the end, or a deadline of the watchdog's. The library
/// works on a copy in memory of its own, so that nothing touches the slices after the call,
/// whatever it answers.
///
/// # Errors
///
/// [`TIMED_OUT`]: the operation goes on without the caller, the other ranks get this rank's
/// input, and the output is undefined. Until it has ended, the next such call answers [`BUSY`].
/// After the other errors of a call that was made the output is undefined, too. [`INVALID`] for
/// sizes, roots and peers that do not fit; nothing has happened then.
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
        // Never COHORT_FOREVER, with which the call would work on the slices themselves, and
        // might still do so after WEDGED. This one is 584 years.
        let limit = nanoseconds(limit).min(sys::COHORT_FOREVER - 1);
        match make(&At { inside: &inside, call, number: ptr::null_mut() }, limit)? {
            sys::COHORT_OK => Ok(()),
            rc => Err(inside.error(call, rc)),
        }
    }

    // SAFETY, of each call below: the slices have as many elements as is said to C, and are
    // borrowed for the call, after which nothing touches them, as `host()` gives a limit.

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
            // SAFETY: see above.
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
            // SAFETY: see above.
            Ok(unsafe { sys::cohort_broadcast_host(comm, data, n, code::<T>(), root, limit) })
        })
    }

    /// Combine `data` across ranks, with the result on rank `root`.
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
            // SAFETY: see above.
            Ok(unsafe {
                sys::cohort_reduce_host(comm, data, n, code::<T>(), op.code(), root, limit)
            })
        })
    }

    /// Collect every rank's `send` on every rank, in rank order.
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
            // SAFETY: see above.
            Ok(unsafe { sys::cohort_all_gather_host(comm, from, to, n, code::<T>(), limit) })
        })
    }

    /// Combine `send` across ranks, of which each rank gets the block with its number.
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
            // SAFETY: see above.
            Ok(unsafe {
                sys::cohort_reduce_scatter_host(comm, from, to, n, code::<T>(), op.code(), limit)
            })
        })
    }

    /// Collect every rank's `send` on rank `root`; elsewhere `recv` is ignored, and may be empty.
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
            // SAFETY: see above; elsewhere than on the root C ignores `recv`.
            Ok(unsafe { sys::cohort_gather_host(comm, from, to, n, code::<T>(), root, limit) })
        })
    }

    /// Give every rank its block of rank `root`'s `send`, which is ignored elsewhere.
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
            // SAFETY: see above; elsewhere than on the root C ignores `send`.
            Ok(unsafe { sys::cohort_scatter_host(comm, from, to, n, code::<T>(), root, limit) })
        })
    }

    /// Every rank gives every rank a block: block r of `send` is for rank r, block r of `recv` is
    /// from it.
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
            // SAFETY: see above.
            Ok(unsafe { sys::cohort_all_to_all_host(comm, from, to, n, code::<T>(), limit) })
        })
    }

    /// Give `data` to rank `peer`, which receives as many elements.
    pub fn send_host<T: Element>(&self, data: &[T], peer: usize, limit: Duration) -> Result<()> {
        let call = "cohort_send_host";
        let place = read_from(data);
        let peer = number(call, "peer", peer)?;
        self.host(call, limit, |at, limit| {
            let (comm, data, n) = (at.comm(), place.memory, place.len);
            // SAFETY: see above.
            Ok(unsafe { sys::cohort_send_host(comm, data, n, code::<T>(), peer, limit) })
        })
    }

    /// Get `data` from rank `peer`, which sends as many elements.
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
            // SAFETY: see above.
            Ok(unsafe { sys::cohort_recv_host(comm, data, n, code::<T>(), peer, limit) })
        })
    }
}
