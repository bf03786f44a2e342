// SPDX-License-Identifier: Apache-2.0

#![doc = include_str!("../README.md")]
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]
// Results have the types of all buffers that a call took.
#![allow(clippy::type_complexity)]

mod abort;
mod any_buffer;
mod batch;
mod buffer;
mod calls;
mod collective;
mod comm;
mod element;
mod error;
mod group;
mod group_calls;
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
pub use any_buffer::{AnyBuffer, Untyped};
pub use batch::{Batch, BatchBuffers, Slot};
pub use buffer::{Buffer, Source, Target};
pub use collective::{PremulSum, Queued};
pub use comm::{Comm, Stats, UniqueId};
pub use element::{Bf16, DType, Element, Op, Reduction, F16, F8E4M3, F8E5M2};
pub use error::{Error, Failed, Result, Status};
pub use group::{Group, Observer, Panic};
pub use group_calls::{GroupBuffer, GroupQueued, GroupTicket};
pub use options::{Connect, Deadlines, Launch, Options, Platform, Policy};
pub use reducer::{Finished, Helper, Outcome, Parameter, Reducer, ReducerOptions, Step};
pub use scope::{quiet, Quiet, Scope};
pub use ticket::{Ticket, Waited};
pub use watch::{Cause, RankReport, RankSet, Stage, Verdict, VerdictKind};

/// Return the version of the loaded library, for example "0.2.0".
pub fn version() -> &'static str {
    // SAFETY: the string is never freed.
    unsafe { CStr::from_ptr(sys::cohort_version()) }.to_str().unwrap_or("")
}

type OnDropError = Arc<dyn Fn(&Error) + Send + Sync>;

static ON_DROP_ERROR: Mutex<Option<OnDropError>> = Mutex::new(None);

/// Set a function that receives errors of destructors, which go to stderr by default
///
/// The function is called if the close in a destructor was wedged or cut work short, and if a
/// buffer stays allocated because something may still use it. It applies to the whole process, and
/// runs on the thread that drops the object.
pub fn on_drop_error(tell: impl Fn(&Error) + Send + Sync + 'static) {
    let former = shared::lock(&ON_DROP_ERROR).replace(Arc::new(tell));
    drop(former); // outside the lock, because its captures may report an error when dropped
}

/// Report an error of a destructor. Ignore FORKED, because the child of a fork cannot close.
pub(crate) fn told(error: &Error) {
    if error.status() == Status::FORKED {
        return;
    }
    let tell = shared::lock(&ON_DROP_ERROR).clone();
    match tell {
        // A panic here might be the thread's second, which would abort the process.
        Some(tell) => {
            contained(|| tell(error));
        }
        None => drop(writeln!(
            std::io::stderr(),
            "cohort: error while an object was dropped: {}",
            error
        )),
    }
}

/// Return the result of `f`, or `None` if it panicked. Catch all panics, including a panic of the
/// payload's destructor.
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
