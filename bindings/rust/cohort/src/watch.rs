// SPDX-License-Identifier: Apache-2.0

use std::ffi::CStr;
use std::fmt;
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_int};
use std::slice;
use std::time::Duration;

use cohort_sys as sys;

use crate::error::{static_text, Status};

/// What the watchdog has found: a value of C's `enum cohort_verdict_kind`
///
/// `cohort/watch.h` says what each means. The set is open, as that of [`Status`].
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
    NEVER_CALLED = COHORT_VERDICT_NEVER_CALLED: "The rank has made no call at all, or was closed.";
    DIFFERENT_CALL = COHORT_VERDICT_DIFFERENT_CALL: "The rank is in another call, or has made one.";
    NOT_STARTED = COHORT_VERDICT_NOT_STARTED: "The rank has called, and its operation does not start.";
    NOT_FINISHED = COHORT_VERDICT_NOT_FINISHED: "The operation runs.";
    OUTSIDE = COHORT_VERDICT_OUTSIDE: "No thread is inside a call of the rank.";
    THREAD_EXITED = COHORT_VERDICT_THREAD_EXITED: "The rank's thread has exited.";
    ASYNC_ERROR = COHORT_VERDICT_ASYNC_ERROR: "NCCL has told of an asynchronous error.";
    NATIVE_ERROR = COHORT_VERDICT_NATIVE_ERROR: "A call of NCCL has failed.";
    CUDA_ERROR = COHORT_VERDICT_CUDA_ERROR: "A call of the CUDA runtime has failed.";
    DEVICE_LOST = COHORT_VERDICT_DEVICE_LOST: "The rank's device has failed.";
    INIT_STUCK = COHORT_VERDICT_INIT_STUCK: "New ranks did not connect in time.";
    WEDGED = COHORT_VERDICT_WEDGED: "An abort was not complete in time.";
    CLOSE_STUCK = COHORT_VERDICT_CLOSE_STUCK: "A close was not complete in time.";
    GRAPH_ALIVE = COHORT_VERDICT_GRAPH_ALIVE: "A CUDA graph was alive at the end.";
    WORKER = COHORT_VERDICT_WORKER: "The rank's worker has returned an error, panicked, or given up.";
    ABORTED = COHORT_VERDICT_ABORTED: "The program has asked for the end.";
    CYCLE = COHORT_VERDICT_CYCLE: "Ranks wait for each other in sends and receives.";
    ORDER = COHORT_VERDICT_ORDER: "Communicators are used in a different order on different ranks.";
    REMOTE = COHORT_VERDICT_REMOTE: "Only ranks of other processes are missing.";
    PROCESS_EXITED = COHORT_VERDICT_PROCESS_EXITED: "A process of the group has ended.";
    LEFT = COHORT_VERDICT_LEFT: "The rank's worker has returned, or its communicator was closed.";
    PROCESS_STOPPED = COHORT_VERDICT_PROCESS_STOPPED: "A process of the group is stopped.";
    PROBER_STUCK = COHORT_VERDICT_PROBER_STUCK: "NCCL or CUDA does not answer whether it has failed.";
}

impl VerdictKind {
    /// The number that C has for it.
    pub fn code(self) -> i32 {
        self.0
    }

    /// The spelling: "never called".
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
    /// Whether `rank` is in it.
    pub fn contains(&self, rank: usize) -> bool {
        self.0.get(rank / 64).map_or(false, |word| word >> (rank % 64) & 1 == 1)
    }

    /// Its ranks, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.0.len() * 64).filter(move |rank| self.contains(*rank))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

impl fmt::Debug for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Why a group's communicators ended
///
/// The first cause of a generation wins, and never changes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Cause {
    /// What every call and ticket answers.
    pub status: Status,
    /// What was found.
    pub kind: VerdictKind,
    /// The rank to blame, or that the cause came from; the first of several.
    pub rank: Option<usize>,
    /// NCCL's own code where one was involved, else 0.
    pub nccl: i32,
    /// CUDA's own code where one was involved, else 0.
    pub cuda: i32,
    /// What the rank gave up with ([`Comm::fail`](crate::Comm::fail)), else 0.
    pub worker: i32,
    /// The number of the collective among the rank's, from 1; 0: it came from none.
    pub collective: u64,
    /// If a deadline has passed, what it allowed.
    pub deadline: Option<Duration>,
    /// The ranks that had called a collective that was not done in time, or that differs.
    pub joined: RankSet,
    /// The ranks that a collective was waiting for when its time was up.
    pub missing: RankSet,
    /// All of this in one line, for diagnostics.
    pub text: String,
    /// `rank` by its number in the group that was split; `None` if that is not known.
    pub world_rank: Option<usize>,
    /// `text` with all that is known, in several lines.
    pub details: String,
}

impl Cause {
    /// `None` if the structure says that there is no cause.
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

    /// The cause that `ask` stores, if it does.
    pub(crate) fn ask(ask: impl FnOnce(*mut sys::cohort_cause) -> c_int) -> Option<Cause> {
        // SAFETY: plain data, of which zeros are values.
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

/// The text in an array of C, up to its NUL.
pub(crate) fn text(array: &[c_char]) -> String {
    // The cast is to the same type where C's char has no sign.
    #[allow(clippy::unnecessary_cast)]
    let bytes: Vec<u8> = array.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What one rank is doing
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RankReport {
    /// The rank.
    pub rank: usize,
    /// Its device.
    pub device: i32,
    /// Whether it has called the collective in question.
    pub joined: bool,
    /// Whether the collective is running on its device; also false where that is not known.
    pub started: bool,
    /// Whether the collective is done there.
    pub done: bool,
    /// Whether its thread lives, as far as that is known.
    pub alive: Option<bool>,
    /// Whether a thread is inside a call of it.
    pub inside: bool,
    /// The system's number of its thread; 0: it has made no call.
    pub tid: i32,
    /// The name of that thread.
    pub thread: String,
    /// How long ago its last call was.
    pub age: Duration,
    /// That call: "all_reduce of 1000 float32, sum".
    pub call: String,
    /// The tag of that call ([`Comm::tag`](crate::Comm::tag)).
    pub tag: String,
    /// What the library made that call for.
    pub label: String,
    /// What the thread is doing, as the system tells: "asleep in futex".
    pub state: String,
    /// Where the thread was, if it was asked ([`Options::stack_signal`](crate::Options)).
    pub stack: String,
    /// All of this, for people.
    pub text: String,
}

impl RankReport {
    fn from_c(report: &sys::cohort_rank_report) -> Option<RankReport> {
        let stack = if report.stack.is_null() {
            String::new()
        } else {
            // SAFETY: the library's string, which lasts as long as the report.
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

    /// The reports of `room` ranks that `ask` stores, or its result.
    pub(crate) fn ask(
        room: c_int,
        ask: impl FnOnce(*mut sys::cohort_rank_report, c_int, usize) -> c_int,
    ) -> Result<Vec<RankReport>, c_int> {
        // SAFETY: plain data, of which zeros are values.
        let none: sys::cohort_rank_report = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut reports = vec![none; usize::try_from(room).unwrap_or(0)];
        let rc = ask(reports.as_mut_ptr(), room, size_of::<sys::cohort_rank_report>());
        if rc != sys::COHORT_OK {
            return Err(rc);
        }
        Ok(reports.iter().filter_map(RankReport::from_c).collect())
    }
}

/// How far a verdict has come
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Longer than [`Options::slow`](crate::Options::slow) says; told to `on_slow` only.
    Slow,
    /// Some of the deadline has passed.
    Warning,
    /// All of it has passed; nothing has ended.
    Expired,
    /// The group has ended.
    Ended,
}

/// What does not go on, or has ended, and why
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// What was found.
    pub kind: VerdictKind,
    /// How far it has come.
    pub stage: Stage,
    /// The rank to blame, the first of several.
    pub rank: Option<usize>,
    /// The group's generation.
    pub generation: u32,
    /// The group's name.
    pub group: String,
    /// Number of the collective, from 1; 0: none.
    pub collective: u64,
    /// What was allowed, if a clock was running.
    pub deadline: Option<Duration>,
    /// The ranks that have called.
    pub joined: RankSet,
    /// The ranks that are waited for.
    pub missing: RankSet,
    /// What each rank of this process is doing.
    pub ranks: Vec<RankReport>,
    /// All of this in several lines, for diagnostics.
    pub text: String,
    /// The same in one line of at most 200 bytes, for logs.
    pub line: String,
    /// `rank` by its number in the group that was split; `None` if that is not known.
    pub world_rank: Option<usize>,
}

impl Verdict {
    /// # Safety
    ///
    /// `verdict` must be what the library gives to a callback, which is still running.
    pub(crate) unsafe fn from_c(verdict: &sys::cohort_verdict) -> Verdict {
        // SAFETY: strings of the library, for as long as the callback runs.
        let string = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let ranks = (0..usize::try_from(verdict.size).unwrap_or(0)).filter_map(|i| {
            // SAFETY: there are `size` reports, `rank_size` bytes apart, each of which
            // begins with the fields that this crate knows.
            let bytes = unsafe {
                let at = verdict.ranks.cast::<u8>().add(i * verdict.rank_size as usize);
                let size = size_of::<sys::cohort_rank_report>().min(verdict.rank_size as usize);
                slice::from_raw_parts(at, size)
            };
            let mut report = MaybeUninit::<sys::cohort_rank_report>::zeroed();
            // SAFETY: no more bytes than a report has; those beyond are zeros, which are
            // values of plain data.
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
        }
    }
}
