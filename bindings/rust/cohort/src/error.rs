// SPDX-License-Identifier: Apache-2.0

use std::error::Error as StdError;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::{c_char, c_int};

use cohort_sys as sys;

use crate::watch::{Cause, VerdictKind};

/// The result of a call: a value of C's `enum cohort_status`
///
/// 0 is success, a negative value is an error, and a positive value is an outcome that is neither
/// an error nor full success. A newer library may return values that this crate has no name for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub(crate) c_int);

macro_rules! statuses {
    ($($name:ident = $value:ident: $text:literal;)*) => {
        impl Status {
            $(#[doc = $text] pub const $name: Status = Status(sys::$value);)*
        }
    };
}

statuses! {
    JOINED = COHORT_JOINED: "Every rank has joined; no step is left.";
    SKIP = COHORT_SKIP: "No rank may update its weights in this step.";
    TIMED_OUT = COHORT_TIMED_OUT: "The caller's timeout expired; the operation continues.";
    ALREADY = COHORT_ALREADY: "It was already so; nothing has changed.";
    OK = COHORT_OK: "Success.";
    INVALID = COHORT_INVALID: "An argument is invalid.";
    STATE = COHORT_STATE: "The object's state does not allow this call.";
    NO_MEMORY = COHORT_NO_MEMORY: "Out of memory.";
    BUSY = COHORT_BUSY: "Another thread is inside this communicator.";
    OWNER = COHORT_OWNER: "The communicator is bound to another thread.";
    UNSUPPORTED = COHORT_UNSUPPORTED: "Not supported by this platform, library version or configuration.";
    NO_LIBRARY = COHORT_NO_LIBRARY: "NCCL, CUDA or PMIx was not found.";
    NO_SYMBOL = COHORT_NO_SYMBOL: "NCCL, CUDA or PMIx lacks a function.";
    NO_DEVICE = COHORT_NO_DEVICE: "There is no usable device.";
    CUDA = COHORT_CUDA: "A CUDA call failed.";
    NCCL = COHORT_NCCL: "An NCCL call failed.";
    SYSTEM = COHORT_SYSTEM: "A system call failed.";
    ABORTED = COHORT_ABORTED: "The group was aborted.";
    WORKER = COHORT_WORKER: "A rank's worker returned an error, panicked, or gave up.";
    WEDGED = COHORT_WEDGED: "An abort did not complete; buffers may still be in use.";
    MISMATCH = COHORT_MISMATCH: "Ranks made different calls.";
    FORKED = COHORT_FORKED: "Cohort cannot be used in the child of a fork.";
    THREAD_EXITED = COHORT_THREAD_EXITED: "The thread of a bound rank exited.";
    STALLED = COHORT_STALLED: "A collective missed its deadline.";
    INIT_TIMEOUT = COHORT_INIT_TIMEOUT: "Ranks did not connect before the init deadline.";
    STALE = COHORT_STALE: "The communicator belongs to an earlier generation, or was closed.";
    PROCESS_EXITED = COHORT_PROCESS_EXITED: "A process of the group exited.";
}

impl Status {
    /// Return the number of the status in C.
    pub fn code(self) -> i32 {
        self.0
    }

    /// Return the text of C's `cohort_status_text()`, for example "ranks made different calls".
    pub fn text(self) -> &'static str {
        // SAFETY: the function takes any value, and returns a string that is never freed.
        unsafe { static_text(sys::cohort_status_text(self.0)) }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: as in `text()`.
        let name = unsafe { static_text(sys::cohort_status_name(self.0)) };
        write!(f, "{} ({})", name, self.0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Return a text of the library that is valid as long as the process.
///
/// # Safety
///
/// `text` must be such a string, terminated by NUL.
pub(crate) unsafe fn static_text(text: *const c_char) -> &'static str {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

/// The error of a failed call: its status, its name, the reason, and the cause that ended the group
#[derive(Clone, Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone, Debug)]
struct Inner {
    status: Status,
    call: &'static str,
    text: String,
    cause: Option<Cause>,
    source: Option<std::sync::Arc<dyn StdError + Send + Sync>>,
}

/// The result of most calls.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(status: Status, call: &'static str, text: impl Into<String>) -> Error {
        Error {
            inner: Box::new(Inner { status, call, text: text.into(), cause: None, source: None }),
        }
    }

    /// Create the error of a call that has just returned `rc` on this thread.
    pub(crate) fn of(rc: c_int, call: &'static str) -> Error {
        let text = if rc < 0 {
            // SAFETY: the text is valid until this thread's next call, and is copied here.
            unsafe { CStr::from_ptr(sys::cohort_last_error()) }.to_string_lossy().into_owned()
        } else {
            Status(rc).text().to_string()
        };
        Error::new(Status(rc), call, text)
    }

    pub(crate) fn with_cause(mut self, cause: Option<Cause>) -> Error {
        self.inner.cause = cause;
        self
    }

    pub(crate) fn with_text(mut self, text: String) -> Error {
        self.inner.text = text;
        self
    }

    pub(crate) fn with_source(
        mut self,
        source: Option<std::sync::Arc<dyn StdError + Send + Sync>>,
    ) -> Error {
        self.inner.source = source;
        self
    }

    /// Return the status.
    pub fn status(&self) -> Status {
        self.inner.status
    }

    /// Return the C function that failed, for example "cohort_all_reduce".
    pub fn call(&self) -> &'static str {
        self.inner.call
    }

    /// Return the reason, for diagnostics only: the argument and its value, or the cause's text.
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// Return the cause that ended the group, or `None`.
    pub fn cause(&self) -> Option<&Cause> {
        self.inner.cause.as_ref()
    }

    /// Return the rank to blame for the end of the group; `None` if the group has not ended, or if
    /// no rank is to blame.
    pub fn rank(&self) -> Option<usize> {
        self.cause().and_then(|cause| cause.rank)
    }

    /// Return the kind of the verdict; `None` if the group has not ended.
    pub fn verdict(&self) -> Option<VerdictKind> {
        self.cause().map(|cause| cause.kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.inner.call, self.inner.text)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

/// An error of a call that took buffers, with the buffers if they are no longer in use
///
/// The `?` operator converts it to an [`Error`] and drops the buffers.
pub struct Failed<B> {
    error: Error,
    back: Option<B>,
}

impl<B> Failed<B> {
    pub(crate) fn new(error: Error, back: Option<B>) -> Failed<B> {
        Failed { error, back }
    }

    /// Return the error.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Return the error and the buffers that the call took; `None` if an abort did not complete
    /// ([`Status::WEDGED`]), so that the memory may still be in use and is never freed.
    pub fn into_parts(self) -> (Error, Option<B>) {
        (self.error, self.back)
    }
}

impl<B> From<Failed<B>> for Error {
    fn from(failed: Failed<B>) -> Error {
        failed.error
    }
}

impl<B> fmt::Debug for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<B> fmt::Display for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<B> StdError for Failed<B> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}
