// SPDX-License-Identifier: Apache-2.0

//! Controls of the host platform, for tests: the number of devices, and scripted faults
//!
//! `cohort/sim.h` describes the faults, which apply to all groups of the process. C's kind `DIE`
//! is missing, because it ends a thread inside a call, which Rust does not allow.

use cohort_sys as sys;

use crate::error::{Error, Result};

/// Set the number of devices of the host platform, before its first use:
/// `cohort_sim_set_devices()`
///
/// # Errors
///
/// [`Status::INVALID`](crate::Status::INVALID); [`Status::STATE`](crate::Status::STATE) once the
/// platform is in use.
pub fn set_devices(n: usize) -> Result<()> {
    let call = "cohort_sim_set_devices";
    let n = crate::comm::number(call, "n", n)?;
    // SAFETY: any number is allowed.
    match unsafe { sys::cohort_sim_set_devices(n) } {
        rc if rc < 0 => Err(Error::of(rc, call)),
        _ => Ok(()),
    }
}

/// The effect of a [`fault`] on its operation
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The call succeeds, and the rank never arrives.
    Never,
    /// The rank arrives this many nanoseconds late.
    Delay(u64),
    /// The call fails with this `ncclResult_t` and queues nothing.
    Error(i32),
    /// The call does not return until an abort.
    Stuck,
    /// The call does not return until [`clear`], not even on an abort.
    Hung,
    /// As for [`Kind::Never`], and NCCL reports this asynchronous error.
    Async(i32),
    /// The call fails because it is out of memory.
    Memory,
}

/// Script a fault for operation number `operation` of `rank`, or of any rank if it is `None`
///
/// # Errors
///
/// [`Status::NO_MEMORY`](crate::Status::NO_MEMORY) if 64 faults are already scripted.
pub fn fault(rank: Option<usize>, operation: u64, kind: Kind) -> Result<()> {
    let call = "cohort_sim_fault_add";
    let rank = rank.map_or(Ok(-1), |rank| crate::comm::number(call, "rank", rank))?;
    let positive = |code: i32| u64::try_from(code).unwrap_or(0);
    let (kind, value) = match kind {
        Kind::Never => (sys::COHORT_FAULT_NEVER, 0),
        Kind::Delay(ns) => (sys::COHORT_FAULT_DELAY, ns),
        Kind::Error(code) => (sys::COHORT_FAULT_ERROR, positive(code)),
        Kind::Stuck => (sys::COHORT_FAULT_STUCK, 0),
        Kind::Hung => (sys::COHORT_FAULT_HUNG, 0),
        Kind::Async(code) => (sys::COHORT_FAULT_ASYNC, positive(code)),
        Kind::Memory => (sys::COHORT_FAULT_MEMORY, 0),
    };
    let fault = sys::cohort_fault { rank, operation, kind, value };
    // SAFETY: borrowed for the call.
    match unsafe { sys::cohort_sim_fault_add(&fault) } {
        rc if rc < 0 => Err(Error::of(rc, call)),
        _ => Ok(()),
    }
}

/// Remove faults that have not occurred, and release calls that [`Kind::Hung`] holds.
pub fn clear() {
    // SAFETY: any thread may call it.
    unsafe { sys::cohort_sim_faults_clear() }
}
