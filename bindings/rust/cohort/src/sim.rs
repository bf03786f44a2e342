// SPDX-License-Identifier: Apache-2.0

//! Knobs of the host platform, for tests: how many devices it has, and scripted faults
//!
//! `cohort/sim.h` describes them. Faults hold for all groups of the process. The kind `DIE`
//! of C is not here: it ends a thread inside a call, which Rust does not allow.

use cohort_sys as sys;

use crate::error::{Error, Result};

/// Give the host platform `n` devices, before its first use: `cohort_sim_set_devices()`
///
/// # Errors
///
/// [`Status::INVALID`](crate::Status::INVALID); [`Status::STATE`](crate::Status::STATE) once the
/// platform is in use.
pub fn set_devices(n: usize) -> Result<()> {
    let call = "cohort_sim_set_devices";
    let n = crate::comm::number(call, "n", n)?;
    // SAFETY: any number.
    match unsafe { sys::cohort_sim_set_devices(n) } {
        rc if rc < 0 => Err(Error::of(rc, call)),
        _ => Ok(()),
    }
}

/// What happens at the operation of a [`fault`]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The call succeeds, and the rank never arrives.
    Never,
    /// It arrives that many nanoseconds late.
    Delay(u64),
    /// The call fails with this `ncclResult_t`, and queues nothing.
    Error(i32),
    /// The call does not return until an abort.
    Stuck,
    /// The call does not return, also not on an abort, until [`clear`].
    Hung,
    /// As [`Kind::Never`], and NCCL tells of this asynchronous error.
    Async(i32),
    /// The call fails for want of memory.
    Memory,
}

/// Script a fault for operation number `operation` of `rank`; `None`: of any
///
/// # Errors
///
/// [`Status::NO_MEMORY`](crate::Status::NO_MEMORY) when 64 are waiting.
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

/// Forget the faults that have not struck, and let go what [`Kind::Hung`] holds.
pub fn clear() {
    // SAFETY: any thread may.
    unsafe { sys::cohort_sim_faults_clear() }
}
