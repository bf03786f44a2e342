// SPDX-License-Identifier: Apache-2.0

use std::error::Error as StdError;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::{c_char, c_int};

use cohort_sys as sys;

use crate::watch::{Cause, VerdictKind};

/// What a call has answered: a value of C's `enum cohort_status`
///
/// 0 is success, a negative value an error, and a positive one no error, but not all that was
/// asked for. The set is open: a newer library may answer values that this crate has no name
/// for.
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
    JOINED = COHORT_JOINED: "Every rank has joined: there is no step left.";
    SKIP = COHORT_SKIP: "There is nothing to update the weights by.";
    TIMED_OUT = COHORT_TIMED_OUT: "Not done when the caller's timeout passed.";
    ALREADY = COHORT_ALREADY: "Already so, nothing was changed.";
    OK = COHORT_OK: "Success.";
    INVALID = COHORT_INVALID: "An argument is invalid.";
    STATE = COHORT_STATE: "Not possible in the object's state.";
    NO_MEMORY = COHORT_NO_MEMORY: "Out of memory.";
    BUSY = COHORT_BUSY: "Another thread is inside this communicator.";
    OWNER = COHORT_OWNER: "The communicator is bound to another thread.";
    UNSUPPORTED = COHORT_UNSUPPORTED: "Not supported here.";
    NO_LIBRARY = COHORT_NO_LIBRARY: "A library was not found.";
    NO_SYMBOL = COHORT_NO_SYMBOL: "A library lacks a function.";
    NO_DEVICE = COHORT_NO_DEVICE: "There is no usable device.";
    CUDA = COHORT_CUDA: "A call of the CUDA runtime has failed.";
    NCCL = COHORT_NCCL: "A call of NCCL has failed.";
    SYSTEM = COHORT_SYSTEM: "The operating system has failed.";
    ABORTED = COHORT_ABORTED: "Aborted.";
    WORKER = COHORT_WORKER: "A rank's worker returned an error, panicked, or gave up.";
    WEDGED = COHORT_WEDGED: "An abort could not be completed.";
    MISMATCH = COHORT_MISMATCH: "Ranks made different calls.";
    FORKED = COHORT_FORKED: "In the child of a fork.";
    THREAD_EXITED = COHORT_THREAD_EXITED: "The thread of a bound rank has exited.";
    STALLED = COHORT_STALLED: "A collective was not done in its time.";
    INIT_TIMEOUT = COHORT_INIT_TIMEOUT: "Ranks did not connect in time.";
    STALE = COHORT_STALE: "The communicator is of the past.";
    PROCESS_EXITED = COHORT_PROCESS_EXITED: "A process of the group has exited.";
}

impl Status {
    /// The number that C has for it.
    pub fn code(self) -> i32 {
        self.0
    }

    /// The text of C's `cohort_status_text()`: "ranks made different calls".
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

/// A text of the library that lasts as long as the process.
///
/// # Safety
///
/// `text` must be such a string, with a NUL at its end.
pub(crate) unsafe fn static_text(text: *const c_char) -> &'static str {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

/// A call that failed: its status, which call it was, why, and what has ended the group
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

    /// The error of a call that has just returned `rc` on this thread.
    pub(crate) fn of(rc: c_int, call: &'static str) -> Error {
        let text = if rc < 0 {
            // SAFETY: the text lasts until this thread's next call, and is copied here.
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

    /// What kind of error it is.
    pub fn status(&self) -> Status {
        self.inner.status
    }

    /// The function of C that failed: "cohort_all_reduce".
    pub fn call(&self) -> &'static str {
        self.inner.call
    }

    /// Why, for people: it names the argument and its value, or is the text of the cause.
    pub fn text(&self) -> &str {
        &self.inner.text
    }

    /// What has ended the group; `None` if nothing has.
    pub fn cause(&self) -> Option<&Cause> {
        self.inner.cause.as_ref()
    }

    /// The rank to blame for the end of the group; `None` if it has not ended, or no rank is.
    pub fn rank(&self) -> Option<usize> {
        self.cause().and_then(|cause| cause.rank)
    }

    /// What the watchdog has found; `None` while nothing has ended the group.
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

/// An error of a call that was given buffers, with those that are free again
///
/// `?` turns it into an [`Error`], and drops what it holds.
pub struct Failed<B> {
    error: Error,
    back: Option<B>,
}

impl<B> Failed<B> {
    pub(crate) fn new(error: Error, back: Option<B>) -> Failed<B> {
        Failed { error, back }
    }

    /// The error.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The error, and what the call was given. `None`: an abort could not be completed
    /// ([`Status::WEDGED`]), something may still use the memory, and it is never freed.
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
