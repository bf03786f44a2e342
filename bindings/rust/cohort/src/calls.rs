// SPDX-License-Identifier: Apache-2.0

//! The calls of C on device memory, with counts from their operands
//!
//! A `Comm` makes them at once, a `Batch` keeps them: `At` says which.

use std::ffi::c_void;
use std::os::raw::c_int;

use cohort_sys as sys;

use crate::buffer::{want, Place};
use crate::element::{DType, Element};
use crate::error::{Error, Result, Status};
use crate::shared::Inside;

/// What a call of C needs beside its own arguments.
pub(crate) struct At<'a> {
    pub(crate) inside: &'a Inside<'a>,
    pub(crate) call: &'static str,
    /// Where the ticket goes; NULL in a batch.
    pub(crate) number: *mut u64,
}

/// A reduction or a root, as C has it.
pub(crate) type Code = c_int;

impl At<'_> {
    pub(crate) fn comm(&self) -> *mut sys::cohort_comm {
        self.inside.comm()
    }

    fn stream(&self) -> *mut c_void {
        // SAFETY: a communicator that is valid while the gate is passed.
        unsafe { sys::cohort_comm_stream(self.comm()) }
    }

    pub(crate) fn is(&self, rank: Code) -> bool {
        // SAFETY: as above.
        unsafe { sys::cohort_comm_rank(self.comm()) == rank }
    }

    fn rank(&self) -> usize {
        // SAFETY: as above.
        usize::try_from(unsafe { sys::cohort_comm_rank(self.comm()) }).unwrap_or(0)
    }

    /// At least 1, as it is a divisor.
    fn ranks(&self) -> usize {
        // SAFETY: as above.
        usize::try_from(unsafe { sys::cohort_comm_size(self.comm()) }).unwrap_or(0).max(1)
    }

    pub(crate) fn want(&self, what: &str, place: Place, wanted: usize) -> Result<()> {
        want(self.call, what, place.len, wanted)
    }

    /// Check that `place` has `one` elements for each rank.
    pub(crate) fn want_all(&self, what: &str, place: Place, one: usize) -> Result<()> {
        self.want(what, place, one.saturating_mul(self.ranks()))
    }

    /// How many elements of `place` are a rank's.
    pub(crate) fn share(&self, what: &str, place: Place) -> Result<usize> {
        let ranks = self.ranks();
        if place.len % ranks == 0 {
            return Ok(place.len / ranks);
        }
        let text =
            format!("{} has {} elements, which is no multiple of {} ranks", what, place.len, ranks);
        Err(Error::new(Status::INVALID, self.call, text))
    }
}

pub(crate) fn code<T: Element>() -> c_int {
    DType::code(T::DTYPE)
}

// Each function below checks the sizes, and makes the call of its name.
//
// SAFETY, of each: the communicator is valid. The places have as many elements of `T` as is
// said to C, since their lengths were compared, or are ignored by this rank as C says. The
// caller of each function keeps what they are in until the ticket is answered, or the batch
// is launched and its ticket answered.

/// # Safety
///
/// As said above, which holds for all of these functions.
pub(crate) unsafe fn all_reduce<T: Element>(
    at: &At<'_>,
    send: Place,
    recv: Place,
    op: Code,
) -> Result<c_int> {
    at.want("recv", recv, send.len)?;
    let (comm, stream, count) = (at.comm(), at.stream(), send.len);
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_all_reduce(
            comm,
            send.memory,
            recv.memory,
            count,
            code::<T>(),
            op,
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn broadcast<T: Element>(at: &At<'_>, data: Place, root: Code) -> Result<c_int> {
    let (comm, stream, count) = (at.comm(), at.stream(), data.len);
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_broadcast(
            comm,
            data.memory,
            data.memory,
            count,
            code::<T>(),
            root,
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn reduce<T: Element>(
    at: &At<'_>,
    data: Place,
    op: Code,
    root: Code,
) -> Result<c_int> {
    let (comm, stream, count) = (at.comm(), at.stream(), data.len);
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_reduce(
            comm,
            data.memory,
            data.memory,
            count,
            code::<T>(),
            op,
            root,
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn all_gather<T: Element>(
    at: &At<'_>,
    send: Place,
    recv: Place,
) -> Result<c_int> {
    at.want_all("recv", recv, send.len)?;
    let (comm, stream, count) = (at.comm(), at.stream(), send.len);
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_all_gather(
            comm,
            send.memory,
            recv.memory,
            count,
            code::<T>(),
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn all_gather_in_place<T: Element>(at: &At<'_>, data: Place) -> Result<c_int> {
    let len = at.share("data", data)?;
    let own = Place { memory: data.at::<T>(at.rank() * len), len };
    // SAFETY: the own block is within the data.
    unsafe { all_gather::<T>(at, own, data) }
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn reduce_scatter<T: Element>(
    at: &At<'_>,
    send: Place,
    recv: Place,
    op: Code,
) -> Result<c_int> {
    at.want_all("send", send, recv.len)?;
    let (comm, stream, count) = (at.comm(), at.stream(), recv.len);
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_reduce_scatter(
            comm,
            send.memory,
            recv.memory,
            count,
            code::<T>(),
            op,
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn reduce_scatter_in_place<T: Element>(
    at: &At<'_>,
    data: Place,
    op: Code,
) -> Result<c_int> {
    let len = at.share("data", data)?;
    let own = Place { memory: data.at::<T>(at.rank() * len), len };
    // SAFETY: the own block is within the data.
    unsafe { reduce_scatter::<T>(at, data, own, op) }
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn gather<T: Element>(
    at: &At<'_>,
    send: Place,
    recv: Place,
    root: Code,
) -> Result<c_int> {
    if at.is(root) {
        at.want_all("recv", recv, send.len)?;
    }
    let (comm, stream, count) = (at.comm(), at.stream(), send.len);
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_gather(
            comm,
            send.memory,
            recv.memory,
            count,
            code::<T>(),
            root,
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn scatter<T: Element>(
    at: &At<'_>,
    send: Place,
    recv: Place,
    root: Code,
) -> Result<c_int> {
    if at.is(root) {
        at.want_all("send", send, recv.len)?;
    }
    let (comm, stream, count) = (at.comm(), at.stream(), recv.len);
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_scatter(
            comm,
            send.memory,
            recv.memory,
            count,
            code::<T>(),
            root,
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn all_to_all<T: Element>(
    at: &At<'_>,
    send: Place,
    recv: Place,
) -> Result<c_int> {
    at.want("recv", recv, send.len)?;
    let (comm, stream, count) = (at.comm(), at.stream(), at.share("send", send)?);
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_all_to_all(
            comm,
            send.memory,
            recv.memory,
            count,
            code::<T>(),
            stream,
            at.number,
        )
    })
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn send<T: Element>(at: &At<'_>, data: Place, peer: Code) -> Result<c_int> {
    let (comm, stream) = (at.comm(), at.stream());
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_send(comm, data.memory, data.len, code::<T>(), peer, stream, at.number)
    })
}

/// # Safety
///
/// See above.
pub(crate) unsafe fn recv<T: Element>(at: &At<'_>, data: Place, peer: Code) -> Result<c_int> {
    let (comm, stream) = (at.comm(), at.stream());
    // SAFETY: see above.
    Ok(unsafe {
        sys::cohort_recv(comm, data.memory, data.len, code::<T>(), peer, stream, at.number)
    })
}

pub(crate) fn barrier(at: &At<'_>) -> c_int {
    // SAFETY: a communicator that is valid, and its stream.
    unsafe { sys::cohort_barrier(at.comm(), at.stream(), at.number) }
}

/// A call on a list of tensors.
#[derive(Clone, Copy)]
pub(crate) enum Many {
    AllReduce(Code),
    Broadcast(Code),
    AllGather,
    ReduceScatter(Code),
}

/// A tensor of such a list.
///
/// # Safety
///
/// See above.
pub(crate) unsafe fn many<T: Element>(
    at: &At<'_>,
    what: Many,
    places: &[(Place, Place)],
) -> Result<c_int> {
    let tensors = places.iter().map(|&(send, recv)| {
        let count = match what {
            Many::AllReduce(_) | Many::Broadcast(_) => {
                at.want("recv", recv, send.len)?;
                send.len
            }
            Many::AllGather => {
                at.want_all("recv", recv, send.len)?;
                send.len
            }
            Many::ReduceScatter(_) => {
                at.want_all("send", send, recv.len)?;
                recv.len
            }
        };
        let (send, recv) = (send.memory as *const c_void, recv.memory);
        Ok(sys::cohort_tensor { send, recv, count, r#type: code::<T>() })
    });
    let tensors = tensors.collect::<Result<Vec<_>>>()?;
    let (comm, list, n, stream) = (at.comm(), tensors.as_ptr(), tensors.len(), at.stream());
    // SAFETY: see above; the array is borrowed for the call.
    Ok(unsafe {
        match what {
            Many::AllReduce(op) => {
                sys::cohort_all_reduce_many(comm, list, n, op, stream, at.number)
            }
            Many::Broadcast(root) => {
                sys::cohort_broadcast_many(comm, list, n, root, stream, at.number)
            }
            Many::AllGather => sys::cohort_all_gather_many(comm, list, n, stream, at.number),
            Many::ReduceScatter(op) => {
                sys::cohort_reduce_scatter_many(comm, list, n, op, stream, at.number)
            }
        }
    })
}
