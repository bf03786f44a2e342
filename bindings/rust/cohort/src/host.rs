// SPDX-License-Identifier: Apache-2.0

use std::ffi::c_void;
use std::os::raw::c_int;
use std::time::Duration;

use cohort_sys as sys;

use crate::buffer::want;
use crate::comm::{number, Comm};
use crate::element::{DType, Element, Reduction};
use crate::error::{Error, Result, Status};
use crate::options::nanoseconds;

/// What `all` elements, or `one`, of each rank must have.
enum Size {
    Same,
    /// `recv` has a block for each rank.
    Recv,
    /// `send` has a block for each rank.
    Send,
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
    fn ranks(&self) -> usize {
        self.size().max(1)
    }

    fn host(
        &self,
        call: &'static str,
        limit: Duration,
        make: impl FnOnce(*mut sys::cohort_comm, u64) -> c_int,
    ) -> Result<()> {
        let inside = self.submit(call)?;
        // Never COHORT_FOREVER, with which the call would work on the slices themselves, and
        // might still do so after WEDGED. This one is 584 years.
        let rc = make(inside.comm(), nanoseconds(limit).min(sys::COHORT_FOREVER - 1));
        if rc == sys::COHORT_OK {
            return Ok(());
        }
        Err(inside.error(call, rc))
    }

    fn host_pair<T: Element>(
        &self,
        call: &'static str,
        send: &[T],
        recv: &mut [T],
        size: Size,
        limit: Duration,
        make: impl FnOnce(*mut sys::cohort_comm, *const c_void, *mut c_void, usize, u64) -> c_int,
    ) -> Result<()> {
        let (from, to) = (send.as_ptr().cast(), recv.as_mut_ptr().cast());
        let count = match size {
            Size::Same => {
                want(call, "recv", recv.len(), send.len())?;
                if send.len() % self.ranks() != 0 {
                    let text = format!(
                        "send has {} elements, which is no multiple of {} ranks",
                        send.len(),
                        self.ranks()
                    );
                    return Err(Error::new(Status::INVALID, call, text));
                }
                send.len() / self.ranks()
            }
            Size::Recv => {
                want(call, "recv", recv.len(), send.len().saturating_mul(self.ranks()))?;
                send.len()
            }
            Size::Send => {
                want(call, "send", send.len(), recv.len().saturating_mul(self.ranks()))?;
                recv.len()
            }
        };
        self.host(call, limit, |comm, limit| make(comm, from, to, count, limit))
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
        let (at, n, dtype) = (data.as_mut_ptr().cast(), data.len(), DType::code(T::DTYPE));
        self.host("cohort_all_reduce_host", limit, |comm, limit| {
            // SAFETY: see above.
            unsafe { sys::cohort_all_reduce_host(comm, at, n, dtype, op.code(), limit) }
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
        let (at, n, dtype) = (data.as_mut_ptr().cast(), data.len(), DType::code(T::DTYPE));
        let root = number(call, "root", root)?;
        self.host(call, limit, |comm, limit| {
            // SAFETY: see above.
            unsafe { sys::cohort_broadcast_host(comm, at, n, dtype, root, limit) }
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
        let (at, n, dtype) = (data.as_mut_ptr().cast(), data.len(), DType::code(T::DTYPE));
        let root = number(call, "root", root)?;
        self.host(call, limit, |comm, limit| {
            // SAFETY: see above.
            unsafe { sys::cohort_reduce_host(comm, at, n, dtype, op.code(), root, limit) }
        })
    }

    /// Collect every rank's `send` on every rank, in rank order.
    pub fn all_gather_host<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        limit: Duration,
    ) -> Result<()> {
        let (call, dtype) = ("cohort_all_gather_host", DType::code(T::DTYPE));
        self.host_pair(call, send, recv, Size::Recv, limit, |comm, send, recv, n, limit| {
            // SAFETY: see above.
            unsafe { sys::cohort_all_gather_host(comm, send, recv, n, dtype, limit) }
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
        let (call, dtype) = ("cohort_reduce_scatter_host", DType::code(T::DTYPE));
        self.host_pair(call, send, recv, Size::Send, limit, |comm, send, recv, n, limit| {
            // SAFETY: see above.
            unsafe { sys::cohort_reduce_scatter_host(comm, send, recv, n, dtype, op.code(), limit) }
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
        let (call, dtype) = ("cohort_gather_host", DType::code(T::DTYPE));
        let (from, to, n) = (send.as_ptr().cast(), recv.as_mut_ptr().cast(), send.len());
        if self.rank() == root {
            want(call, "recv", recv.len(), n.saturating_mul(self.ranks()))?;
        }
        let root = number(call, "root", root)?;
        self.host(call, limit, |comm, limit| {
            // SAFETY: see above; elsewhere than on the root C ignores `recv`.
            unsafe { sys::cohort_gather_host(comm, from, to, n, dtype, root, limit) }
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
        let (call, dtype) = ("cohort_scatter_host", DType::code(T::DTYPE));
        let (from, to, n) = (send.as_ptr().cast(), recv.as_mut_ptr().cast(), recv.len());
        if self.rank() == root {
            want(call, "send", send.len(), n.saturating_mul(self.ranks()))?;
        }
        let root = number(call, "root", root)?;
        self.host(call, limit, |comm, limit| {
            // SAFETY: see above; elsewhere than on the root C ignores `send`.
            unsafe { sys::cohort_scatter_host(comm, from, to, n, dtype, root, limit) }
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
        let (call, dtype) = ("cohort_all_to_all_host", DType::code(T::DTYPE));
        self.host_pair(call, send, recv, Size::Same, limit, |comm, send, recv, n, limit| {
            // SAFETY: see above.
            unsafe { sys::cohort_all_to_all_host(comm, send, recv, n, dtype, limit) }
        })
    }

    /// Give `data` to rank `peer`, which receives as many elements.
    pub fn send_host<T: Element>(&self, data: &[T], peer: usize, limit: Duration) -> Result<()> {
        let (call, dtype) = ("cohort_send_host", DType::code(T::DTYPE));
        let (from, n, peer) = (data.as_ptr().cast(), data.len(), number(call, "peer", peer)?);
        self.host(call, limit, |comm, limit| {
            // SAFETY: see above.
            unsafe { sys::cohort_send_host(comm, from, n, dtype, peer, limit) }
        })
    }

    /// Get `data` from rank `peer`, which sends as many elements.
    pub fn recv_host<T: Element>(
        &self,
        data: &mut [T],
        peer: usize,
        limit: Duration,
    ) -> Result<()> {
        let (call, dtype) = ("cohort_recv_host", DType::code(T::DTYPE));
        let (to, n, peer) = (data.as_mut_ptr().cast(), data.len(), number(call, "peer", peer)?);
        self.host(call, limit, |comm, limit| {
            // SAFETY: see above.
            unsafe { sys::cohort_recv_host(comm, to, n, dtype, peer, limit) }
        })
    }
}
