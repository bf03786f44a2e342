// SPDX-License-Identifier: Apache-2.0

//! C calls on device memory, with counts taken from their operands
//!
//! A `Comm` makes the calls immediately, and a `Batch` queues them; `At` selects which.

use std::ffi::c_void;
use std::os::raw::c_int;

use cohort_sys as sys;

use crate::buffer::{want, Place};
use crate::element::Element;
use crate::error::{Error, Result, Status};
use crate::shared::Inside;

/// The arguments that all C calls have in common.
pub(crate) struct At<'a> {
    pub(crate) inside: &'a Inside<'a>,
    pub(crate) call: &'static str,
    /// Receives the ticket; NULL in a batch.
    pub(crate) number: *mut u64,
}

/// A reduction or a root, as a number of C.
pub(crate) type Code = c_int;

impl At<'_> {
    pub(crate) fn comm(&self) -> *mut sys::cohort_comm {
        self.inside.comm()
    }

    fn stream(&self) -> *mut c_void {
        // SAFETY: the communicator is valid while this thread is inside its gate.
        unsafe { sys::cohort_comm_stream(self.comm()) }
    }

    pub(crate) fn is(&self, rank: Code) -> bool {
        // SAFETY: the communicator is valid while this thread is inside its gate.
        unsafe { sys::cohort_comm_rank(self.comm()) == rank }
    }

    fn rank(&self) -> usize {
        // SAFETY: the communicator is valid while this thread is inside its gate.
        usize::try_from(unsafe { sys::cohort_comm_rank(self.comm()) }).unwrap_or(0)
    }

    /// Return the number of ranks, at least 1 because it is used as a divisor.
    fn ranks(&self) -> usize {
        // SAFETY: the communicator is valid while this thread is inside its gate.
        usize::try_from(unsafe { sys::cohort_comm_size(self.comm()) }).unwrap_or(0).max(1)
    }

    pub(crate) fn want(&self, what: &str, place: Place, wanted: usize) -> Result<()> {
        want(self.call, what, place.len, wanted)
    }

    /// Return an error unless `place` has `one` elements for each rank.
    pub(crate) fn want_all(&self, what: &str, place: Place, one: usize) -> Result<()> {
        self.want(what, place, one.saturating_mul(self.ranks()))
    }

    /// Return the type of both operands, one of which may be missing on this rank.
    fn dtype(&self, send: Place, recv: Place) -> Result<Code> {
        match (send.dtype, recv.dtype) {
            (Some(from), Some(to)) if from != to => {
                let text = format!("recv has {}, but send has {}", to.name(), from.name());
                Err(Error::new(Status::INVALID, self.call, text))
            }
            (Some(_), _) => Ok(send.code()),
            _ => Ok(recv.code()),
        }
    }

    /// Return the number of elements of `place` per rank.
    pub(crate) fn share(&self, what: &str, place: Place) -> Result<usize> {
        let ranks = self.ranks();
        if place.len % ranks == 0 {
            return Ok(place.len / ranks);
        }
        let text =
            format!("{} has {} elements, not a multiple of {} ranks", what, place.len, ranks);
        Err(Error::new(Status::INVALID, self.call, text))
    }
}

pub(crate) fn code<T: Element>() -> c_int {
    T::DTYPE.code()
}

// Each function below checks sizes and makes the C call of the same name.
//
// SAFETY, of each: the communicator is valid. Each place has at least as many elements as C
// expects, because the lengths were compared, or C ignores the place on this rank. The caller of
// each function keeps the operands alive until the ticket is done or, in a batch, until the batch's
// ticket is done.

/// # Safety
///
/// The caller must keep the operands alive until the ticket is done or, in a batch, until the
/// batch's ticket is done.
pub(crate) unsafe fn all_reduce(at: &At<'_>, send: Place, recv: Place, op: Code) -> Result<c_int> {
    at.want("recv", recv, send.len)?;
    let dtype = at.dtype(send, recv)?;
    let (comm, stream, count) = (at.comm(), at.stream(), send.len);
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_all_reduce(comm, send.memory, recv.memory, count, dtype, op, stream, at.number)
    })
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn broadcast(at: &At<'_>, data: Place, root: Code) -> Result<c_int> {
    let (comm, stream, count) = (at.comm(), at.stream(), data.len);
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_broadcast(
            comm,
            data.memory,
            data.memory,
            count,
            data.code(),
            root,
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn reduce(at: &At<'_>, data: Place, op: Code, root: Code) -> Result<c_int> {
    let (comm, stream, count) = (at.comm(), at.stream(), data.len);
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_reduce(
            comm,
            data.memory,
            data.memory,
            count,
            data.code(),
            op,
            root,
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn all_gather(at: &At<'_>, send: Place, recv: Place) -> Result<c_int> {
    at.want_all("recv", recv, send.len)?;
    let dtype = at.dtype(send, recv)?;
    let (comm, stream, count) = (at.comm(), at.stream(), send.len);
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_all_gather(comm, send.memory, recv.memory, count, dtype, stream, at.number)
    })
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn all_gather_in_place(at: &At<'_>, data: Place) -> Result<c_int> {
    let len = at.share("data", data)?;
    let own = Place { memory: data.at(at.rank() * len), len, ..data };
    // SAFETY: this rank's block is part of the data.
    unsafe { all_gather(at, own, data) }
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn reduce_scatter(
    at: &At<'_>,
    send: Place,
    recv: Place,
    op: Code,
) -> Result<c_int> {
    at.want_all("send", send, recv.len)?;
    let dtype = at.dtype(send, recv)?;
    let (comm, stream, count) = (at.comm(), at.stream(), recv.len);
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_reduce_scatter(
            comm,
            send.memory,
            recv.memory,
            count,
            dtype,
            op,
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn reduce_scatter_in_place(at: &At<'_>, data: Place, op: Code) -> Result<c_int> {
    let len = at.share("data", data)?;
    let own = Place { memory: data.at(at.rank() * len), len, ..data };
    // SAFETY: this rank's block is part of the data.
    unsafe { reduce_scatter(at, data, own, op) }
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn gather(at: &At<'_>, send: Place, recv: Place, root: Code) -> Result<c_int> {
    if at.is(root) {
        at.want_all("recv", recv, send.len)?;
    }
    let dtype = at.dtype(send, recv)?;
    let (comm, stream, count) = (at.comm(), at.stream(), send.len);
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_gather(comm, send.memory, recv.memory, count, dtype, root, stream, at.number)
    })
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn scatter(at: &At<'_>, send: Place, recv: Place, root: Code) -> Result<c_int> {
    if at.is(root) {
        at.want_all("send", send, recv.len)?;
    }
    let dtype = at.dtype(send, recv)?;
    let (comm, stream, count) = (at.comm(), at.stream(), recv.len);
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_scatter(comm, send.memory, recv.memory, count, dtype, root, stream, at.number)
    })
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn all_to_all(at: &At<'_>, send: Place, recv: Place) -> Result<c_int> {
    at.want("recv", recv, send.len)?;
    let dtype = at.dtype(send, recv)?;
    let (comm, stream, count) = (at.comm(), at.stream(), at.share("send", send)?);
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_all_to_all(comm, send.memory, recv.memory, count, dtype, stream, at.number)
    })
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn send(at: &At<'_>, data: Place, peer: Code) -> Result<c_int> {
    let (comm, stream) = (at.comm(), at.stream());
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_send(comm, data.memory, data.len, data.code(), peer, stream, at.number)
    })
}

/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn recv(at: &At<'_>, data: Place, peer: Code) -> Result<c_int> {
    let (comm, stream) = (at.comm(), at.stream());
    // SAFETY: the lengths were checked, and the caller keeps the operands alive.
    Ok(unsafe {
        sys::cohort_recv(comm, data.memory, data.len, data.code(), peer, stream, at.number)
    })
}

pub(crate) fn barrier(at: &At<'_>) -> c_int {
    // SAFETY: the communicator is valid, and the stream is its own.
    unsafe { sys::cohort_barrier(at.comm(), at.stream(), at.number) }
}

/// A call on a list of tensors, and its argument.
#[derive(Clone, Copy)]
pub(crate) enum Many {
    AllReduce(Code),
    Broadcast(Code),
}

/// Make a call on a list of tensors.
///
/// # Safety
///
/// The caller must keep the operands alive, as for `all_reduce()`.
pub(crate) unsafe fn many(at: &At<'_>, what: Many, places: &[(Place, Place)]) -> Result<c_int> {
    let tensors = places.iter().map(|&(send, recv)| {
        let dtype = at.dtype(send, recv)?;
        at.want("recv", recv, send.len)?;
        let (count, send, recv) = (send.len, send.memory as *const c_void, recv.memory);
        Ok(sys::cohort_tensor { send, recv, count, r#type: dtype })
    });
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    let (comm, list, n, stream) = (at.comm(), tensors.as_ptr(), tensors.len(), at.stream());
    // SAFETY: the lengths were checked, and the caller keeps the operands alive; the array is
    // borrowed for the call.
    Ok(unsafe {
        match what {
            Many::AllReduce(op) => {
                sys::cohort_all_reduce_many(comm, list, n, op, stream, at.number)
            }
            Many::Broadcast(root) => {
                sys::cohort_broadcast_many(comm, list, n, root, stream, at.number)
            }
        }
    })
}
