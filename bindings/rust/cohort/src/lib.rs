// SPDX-License-Identifier: Apache-2.0

#![doc = include_str!("../../README.md")]
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]
// A call gives back what it was given, each in its own type.
#![allow(clippy::type_complexity)]

mod abort;
mod batch;
mod buffer;
mod calls;
mod collective;
mod comm;
mod element;
mod error;
mod group;
mod host;
mod options;
mod reducer;
mod scope;
mod shared;
pub mod sim;
mod ticket;
mod watch;

use std::ffi::CStr;
use std::io::Write;
use std::mem;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};

pub use cohort_sys as sys;

pub use abort::AbortHandle;
pub use batch::{Batch, BatchBuffers, Slot};
pub use buffer::{Buffer, Source, Target};
pub use collective::{PremulSum, Queued};
pub use comm::{Comm, Stats, UniqueId};
pub use element::{Bf16, DType, Element, Op, Reduction, F16, F8E4M3, F8E5M2};
pub use error::{Error, Failed, Result, Status};
pub use group::{Group, Observer, Panic};
pub use options::{Connect, Deadlines, Launch, Options, Platform, Policy};
pub use reducer::{Finished, Helper, Outcome, Parameter, Reducer, ReducerOptions, Step};
pub use scope::{quiet, Quiet, Scope};
pub use ticket::{Ticket, Waited};
pub use watch::{Cause, RankReport, RankSet, Stage, Verdict, VerdictKind};

/// The version of the running library: "0.2.0".
pub fn version() -> &'static str {
    // SAFETY: the string is never freed.
    unsafe { CStr::from_ptr(sys::cohort_version()) }.to_str().unwrap_or("")
}

type OnDropError = Arc<dyn Fn(&Error) + Send + Sync>;

static ON_DROP_ERROR: Mutex<Option<OnDropError>> = Mutex::new(None);

/// Be told what goes wrong when something is dropped, instead of a line on stderr
///
/// A destructor cannot return an error. This is for a close that was wedged or cut work short,
/// and for buffers that stay allocated because something may still use them. Holds for the
/// whole process; called on the thread that drops.
pub fn on_drop_error(tell: impl Fn(&Error) + Send + Sync + 'static) {
    let former = shared::lock(&ON_DROP_ERROR).replace(Arc::new(tell));
    drop(former); // not under the lock: what it owns may tell in turn
}

/// Tell of an error of a destructor. That the child of a fork can close nothing is none.
pub(crate) fn told(error: &Error) {
    if error.status() == Status::FORKED {
        return;
    }
    let tell = shared::lock(&ON_DROP_ERROR).clone();
    match tell {
        // A panic here might be the second one of its thread, which would end the process.
        Some(tell) => {
            contained(|| tell(error));
        }
        None => drop(writeln!(std::io::stderr(), "cohort: while something was dropped: {}", error)),
    }
}

/// What `f` returns; `None`: it has panicked, which does not get out, not even if what it has
/// panicked with panics when it is dropped.
pub(crate) fn contained<R>(f: impl FnOnce() -> R) -> Option<R> {
    let panic = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => return Some(result),
        Err(panic) => panic,
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(second);
    }
    None
}
