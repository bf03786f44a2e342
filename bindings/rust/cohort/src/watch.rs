// SPDX-License-Identifier: Apache-2.0

use std::ffi::CStr;
use std::fmt;
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_int};
use std::slice;
use std::time::Duration;

use cohort_sys as sys;

use crate::error::{static_text, Status};

/// The kind of a verdict: a value of C's `enum cohort_verdict_kind`
///
/// `cohort/watch.h` defines each kind. A newer library may return other values.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct VerdictKind(pub(crate) c_int);

macro_rules! kinds {
    ($($name:ident = $value:ident: $text:literal;)*) => {
        impl VerdictKind {
            $(#[doc = $text] pub const $name: VerdictKind = VerdictKind(sys::$value);)*
        }
    };
}

kinds! {
    NONE = COHORT_VERDICT_NONE: "There is no cause.";
    NEVER_CALLED = COHORT_VERDICT_NEVER_CALLED: "The rank has made no call, or was closed.";
    DIFFERENT_CALL = COHORT_VERDICT_DIFFERENT_CALL: "The rank is in a different call, or has made one.";
    NOT_STARTED = COHORT_VERDICT_NOT_STARTED: "The rank has called, but its operation has not started.";
    NOT_FINISHED = COHORT_VERDICT_NOT_FINISHED: "The operation is still running.";
    OUTSIDE = COHORT_VERDICT_OUTSIDE: "No thread is inside a call of the rank.";
    THREAD_EXITED = COHORT_VERDICT_THREAD_EXITED: "The rank's thread exited.";
    ASYNC_ERROR = COHORT_VERDICT_ASYNC_ERROR: "NCCL has reported an asynchronous error.";
    NATIVE_ERROR = COHORT_VERDICT_NATIVE_ERROR: "An NCCL call failed.";
    CUDA_ERROR = COHORT_VERDICT_CUDA_ERROR: "A CUDA call failed.";
    DEVICE_LOST = COHORT_VERDICT_DEVICE_LOST: "The rank's device failed.";
    INIT_STUCK = COHORT_VERDICT_INIT_STUCK: "Ranks did not connect before the init deadline.";
    WEDGED = COHORT_VERDICT_WEDGED: "An abort did not complete before its deadline.";
    CLOSE_STUCK = COHORT_VERDICT_CLOSE_STUCK: "A close did not complete before its deadline.";
    GRAPH_ALIVE = COHORT_VERDICT_GRAPH_ALIVE: "A CUDA graph existed when the group ended.";
    WORKER = COHORT_VERDICT_WORKER: "The rank's worker returned an error, panicked, or gave up.";
    ABORTED = COHORT_VERDICT_ABORTED: "The program aborted the group.";
    CYCLE = COHORT_VERDICT_CYCLE: "Ranks wait for each other in sends and receives.";
    ORDER = COHORT_VERDICT_ORDER: "Communicators are used in a different order on different ranks.";
    REMOTE = COHORT_VERDICT_REMOTE: "Only ranks in other processes are missing.";
    PROCESS_EXITED = COHORT_VERDICT_PROCESS_EXITED: "A process of the group exited.";
    LEFT = COHORT_VERDICT_LEFT: "The rank's worker has returned, or its communicator was closed.";
    PROCESS_STOPPED = COHORT_VERDICT_PROCESS_STOPPED: "A process of the group is stopped.";
    PROBER_STUCK = COHORT_VERDICT_PROBER_STUCK: "A query to NCCL or CUDA for errors does not return.";
}

impl VerdictKind {
    /// Return the number of the kind in C.
    pub fn code(self) -> i32 {
        self.0
    }

    /// Return the text of the kind, for example "never called".
    pub fn text(self) -> &'static str {
        // SAFETY: the function takes any value, and returns a string that is never freed.
        unsafe { static_text(sys::cohort_verdict_text(self.0)) }
    }
}

impl fmt::Debug for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.0)
    }
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A set of ranks
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RankSet([u64; sys::COHORT_RANK_WORDS as usize]);

impl RankSet {
    /// Return whether `rank` is in the set.
    pub fn contains(&self, rank: usize) -> bool {
        self.0.get(rank / 64).map_or(false, |word| word >> (rank % 64) & 1 == 1)
    }

    /// Return the ranks, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 64).filter(move |rank| self.contains(*rank))
    }

    /// Return whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

impl fmt::Debug for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The reason why a group's generation ended
///
/// Only the first cause of a generation is kept; it never changes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Cause {
    /// Status that every call and ticket returns.
    pub status: Status,
    /// Kind of the verdict.
    pub kind: VerdictKind,
    /// Rank to blame, or rank that reported the cause; the first of several.
    pub rank: Option<usize>,
    /// NCCL's error code if one was involved, else 0.
    pub nccl: i32,
    /// CUDA's error code if one was involved, else 0.
    pub cuda: i32,
    /// Code that the rank passed to [`Comm::fail`](crate::Comm::fail), else 0.
    pub worker: i32,
    /// Number of the collective on the rank, from 1; 0 if no collective was involved.
    pub collective: u64,
    /// Deadline that expired, if one did.
    pub deadline: Option<Duration>,
    /// Ranks that had called the collective that was late or differed.
    pub joined: RankSet,
    /// Ranks that had not called the collective when its deadline expired.
    pub missing: RankSet,
    /// One line of text, for diagnostics only.
    pub text: String,
    /// `rank` in the numbering of the group that was split; `None` if unknown.
    pub world_rank: Option<usize>,
    /// Several lines of text with all details.
    pub details: String,
}

impl Cause {
    /// Convert from C; returns `None` if the structure says that there is no cause.
    pub(crate) fn from_c(cause: &sys::cohort_cause) -> Option<Cause> {
        if cause.status == sys::COHORT_OK {
            return None;
        }
        Some(Cause {
            status: Status(cause.status),
            kind: VerdictKind(cause.kind),
            rank: rank(cause.rank),
            nccl: cause.nccl,
            cuda: cause.cuda,
            worker: cause.worker,
            collective: cause.collective,
            deadline: duration(cause.deadline_ns),
            joined: RankSet(cause.joined),
            missing: RankSet(cause.missing),
            text: text(&cause.text),
            world_rank: rank(cause.world_rank),
            details: text(&cause.details),
        })
    }

    /// Return the cause that `ask` stores, if it stores one.
    pub(crate) fn ask(ask: impl FnOnce(*mut sys::cohort_cause) -> c_int) -> Option<Cause> {
        // SAFETY: plain data, for which all zeros is a valid value.
        let mut cause: sys::cohort_cause = unsafe { MaybeUninit::zeroed().assume_init() };
        if ask(&mut cause) == sys::COHORT_INVALID {
            return None;
        }
        Cause::from_c(&cause)
    }
}

fn rank(number: c_int) -> Option<usize> {
    usize::try_from(number).ok()
}

fn duration(ns: u64) -> Option<Duration> {
    (ns != 0).then(|| Duration::from_nanos(ns))
}

/// Return the text in a C array, up to its NUL.
pub(crate) fn text(array: &[c_char]) -> String {
    // On machines where C's char is unsigned, the cast does nothing.
    #[allow(clippy::unnecessary_cast)]
    let bytes: Vec<u8> = array.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The state of one rank
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RankReport {
    /// Number of the rank.
    pub rank: usize,
    /// Number of the rank's device.
    pub device: i32,
    /// Whether the rank has called the collective of the verdict.
    pub joined: bool,
    /// Whether the collective is running on the rank's device; false if that is unknown.
    pub started: bool,
    /// Whether the collective is done on the rank's device.
    pub done: bool,
    /// Whether the rank's thread is alive, or `None` if that is unknown.
    pub alive: Option<bool>,
    /// Whether a thread is inside a call of this rank.
    pub inside: bool,
    /// System thread id of the rank's thread; 0 if the rank has made no call.
    pub tid: i32,
    /// Name of that thread.
    pub thread: String,
    /// Time since the rank's last call.
    pub age: Duration,
    /// The rank's last call, for example "all_reduce of 1000 float32, sum".
    pub call: String,
    /// Tag of that call ([`Comm::tag`](crate::Comm::tag)).
    pub tag: String,
    /// Reason why the library made that call, if the library made it.
    pub label: String,
    /// State of the thread according to the system, for example "asleep in futex".
    pub state: String,
    /// Stack of the thread, if one was collected ([`Options::stack_signal`](crate::Options)).
    pub stack: String,
    /// The whole report as text, for diagnostics only.
    pub text: String,
}

impl RankReport {
    fn from_c(report: &sys::cohort_rank_report) -> Option<RankReport> {
        let stack = if report.stack.is_null() {
            String::new()
        } else {
            // SAFETY: a string of the library that is valid as long as the report.
            unsafe { CStr::from_ptr(report.stack) }.to_string_lossy().into_owned()
        };
        Some(RankReport {
            rank: rank(report.rank)?,
            device: report.device,
            joined: report.joined == 1,
            started: report.started == 1,
            done: report.done == 1,
            alive: match report.alive {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            },
            inside: report.inside == 1,
            tid: report.tid,
            thread: text(&report.thread),
            age: Duration::from_nanos(report.age_ns),
            call: text(&report.call),
            tag: text(&report.tag),
            label: text(&report.label),
            state: text(&report.state),
            stack,
            text: text(&report.text),
        })
    }

    /// Return the reports of `room` ranks that `ask` stores, or its error.
    pub(crate) fn ask(
        room: c_int,
        ask: impl FnOnce(*mut sys::cohort_rank_report, c_int, usize) -> c_int,
    ) -> Result<Vec<RankReport>, c_int> {
        // SAFETY: plain data, for which all zeros is a valid value.
        let none: sys::cohort_rank_report = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut reports = vec![none; usize::try_from(room).unwrap_or(0)];
        let rc = ask(reports.as_mut_ptr(), room, size_of::<sys::cohort_rank_report>());
        if rc != sys::COHORT_OK {
            return Err(rc);
        }
        Ok(reports.iter().filter_map(RankReport::from_c).collect())
    }
}

/// The stage of a verdict
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// An operation took longer than [`Options::slow`](crate::Options::slow).
    Slow,
    /// The kind is [`VerdictKind::PROBER_STUCK`]; nothing has ended.
    Warning,
    /// The deadline has expired, but nothing has ended.
    Expired,
    /// The group has ended.
    Ended,
}

/// The reason why a call is stuck or slow, or why a group has ended
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// Kind of the verdict.
    pub kind: VerdictKind,
    /// Stage of the verdict.
    pub stage: Stage,
    /// Rank to blame; the first of several.
    pub rank: Option<usize>,
    /// Generation of the group.
    pub generation: u32,
    /// Name of the group.
    pub group: String,
    /// Number of the collective, from 1; 0 if none is involved.
    pub collective: u64,
    /// Deadline, if one was running.
    pub deadline: Option<Duration>,
    /// Ranks that have called.
    pub joined: RankSet,
    /// Ranks that have not called.
    pub missing: RankSet,
    /// State of each rank of this process.
    pub ranks: Vec<RankReport>,
    /// Several lines of text, for diagnostics only.
    pub text: String,
    /// One line of at most 200 bytes, for logs.
    pub line: String,
    /// `rank` in the numbering of the group that was split; `None` if unknown.
    pub world_rank: Option<usize>,
    /// The operation that makes no progress, `all_reduce 7 of "dp"`; empty if there is none.
    pub call: String,
}

impl Verdict {
    /// # Safety
    ///
    /// `verdict` must be the argument of a callback that is still running.
    pub(crate) unsafe fn from_c(verdict: &sys::cohort_verdict) -> Verdict {
        // SAFETY: strings of the library, valid while the callback runs.
        let string = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let ranks = (0..usize::try_from(verdict.size).unwrap_or(0)).filter_map(|i| {
            // SAFETY: there are `size` reports, `rank_size` bytes apart. Each begins with the
            // fields that this crate knows.
            let bytes = unsafe {
                let at = verdict.ranks.cast::<u8>().add(i * verdict.rank_size as usize);
                let size = size_of::<sys::cohort_rank_report>().min(verdict.rank_size as usize);
                slice::from_raw_parts(at, size)
            };
            let mut report = MaybeUninit::<sys::cohort_rank_report>::zeroed();
            // SAFETY: copies at most the size of a report; missing bytes are zeros, which are
            // valid for plain data.
            let report = unsafe {
                report.as_mut_ptr().cast::<u8>().copy_from(bytes.as_ptr(), bytes.len());
                report.assume_init()
            };
            RankReport::from_c(&report)
        });
        Verdict {
            kind: VerdictKind(verdict.kind),
            stage: match verdict.stage {
                sys::COHORT_STAGE_SLOW => Stage::Slow,
                sys::COHORT_STAGE_WARNING => Stage::Warning,
                sys::COHORT_STAGE_EXPIRED => Stage::Expired,
                _ => Stage::Ended,
            },
            rank: rank(verdict.rank),
            generation: verdict.generation.unsigned_abs(),
            group: string(verdict.group).into_owned(),
            collective: verdict.collective,
            deadline: duration(verdict.deadline_ns),
            joined: RankSet(verdict.joined),
            missing: RankSet(verdict.missing),
            ranks: ranks.collect(),
            text: string(verdict.text).into_owned(),
            line: string(verdict.line).into_owned(),
            world_rank: rank(verdict.world_rank),
            call: string(verdict.call).into_owned(),
        }
    }
}
