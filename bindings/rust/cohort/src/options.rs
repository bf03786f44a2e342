// SPDX-License-Identifier: Apache-2.0

use std::ffi::{c_void, CString};
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_int, c_uint};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cohort_sys as sys;

use crate::abort::AbortHandle;
use crate::contained;
use crate::error::{Error, Result, Status};
use crate::shared::lock;
use crate::watch::{Cause, Verdict};

/// What a group runs on
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Platform {
    /// What `COHORT_PLATFORM` says, else [`Gpu`](Platform::Gpu) if the machine has one.
    #[default]
    Auto = sys::COHORT_PLATFORM_AUTO,
    /// NCCL and CUDA.
    Gpu = sys::COHORT_PLATFORM_GPU,
    /// CPU threads and host memory.
    Host = sys::COHORT_PLATFORM_HOST,
}

impl Platform {
    pub(crate) fn of(code: c_int) -> Platform {
        match code {
            sys::COHORT_PLATFORM_GPU => Platform::Gpu,
            _ => Platform::Host,
        }
    }
}

/// What the watchdog does about a collective whose deadline has passed
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Policy {
    /// End the group with [`Status::STALLED`], and tell.
    #[default]
    Abort = sys::COHORT_POLICY_ABORT,
    /// Tell [`Options::on_verdict`].
    Report = sys::COHORT_POLICY_REPORT,
    /// Ask [`Options::on_verdict`], which ends the group by returning true.
    Ask = sys::COHORT_POLICY_ASK,
}

/// When a rank's part of a collective is launched: see `cohort/options.h`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Launch {
    /// What `COHORT_LAUNCH` says, else what is best for the platform.
    #[default]
    Default = sys::COHORT_LAUNCH_DEFAULT,
    /// Once all ranks of this process have called it.
    Together = sys::COHORT_LAUNCH_TOGETHER,
    /// At once.
    Ahead = sys::COHORT_LAUNCH_AHEAD,
}

/// What is connected when ranks open: see `cohort/options.h`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Connect {
    /// What `COHORT_CONNECT` says, else [`Collectives`](Connect::Collectives).
    #[default]
    Default = sys::COHORT_CONNECT_DEFAULT,
    /// What collectives need.
    Collectives = sys::COHORT_CONNECT_COLLECTIVES,
    /// Also every pair of ranks.
    All = sys::COHORT_CONNECT_ALL,
    /// Nothing.
    None = sys::COHORT_CONNECT_NONE,
}

/// How long things may take; `None`: the default. [`Duration::MAX`]: no limit
///
/// `cohort/deadline.h` says what each limits, and its default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadlines {
    /// To make and connect the ranks.
    pub init: Option<Duration>,
    /// From a rank's call of a collective until the last rank has called it.
    pub join: Option<Duration>,
    /// From the last rank's call until the collective is done.
    pub exec: Option<Duration>,
    /// How long a close waits for what is in flight before it aborts.
    pub close: Option<Duration>,
    /// How long an abort may take.
    pub abort: Option<Duration>,
}

impl Deadlines {
    pub(crate) fn to_c(self) -> sys::cohort_deadlines {
        let ns = |limit: Option<Duration>| limit.map_or(0, |limit| nanoseconds(limit).max(1));
        sys::cohort_deadlines {
            init_ns: ns(self.init),
            join_ns: ns(self.join),
            exec_ns: ns(self.exec),
            close_ns: ns(self.close),
            abort_ns: ns(self.abort),
            reserved: [0; 11],
        }
    }
}

/// What C calls a time; [`Duration::MAX`] and all that is too long is `COHORT_FOREVER`.
pub(crate) fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(sys::COHORT_FOREVER)
}

type OnVerdict = Box<dyn Fn(&Verdict) -> bool + Send + Sync>;
type OnCause = Box<dyn Fn(&Cause) + Send + Sync>;
type OnSlow = Box<dyn Fn(&Verdict) + Send + Sync>;

/// The functions that a group tells.
#[derive(Default)]
struct Functions {
    verdict: Option<OnVerdict>,
    cause: Option<OnCause>,
    slow: Option<OnSlow>,
}

impl Functions {
    fn is_empty(&self) -> bool {
        self.verdict.is_none() && self.cause.is_none() && self.slow.is_none()
    }
}

/// What C has as the `user` of the three: the functions, until they are released
///
/// A thread that C has left behind may come here at any time, also after the close.
pub(crate) struct Callbacks(Mutex<Option<Arc<Functions>>>);

impl Callbacks {
    /// Call `f`, unless the functions were released, so that no panic gets out of it; `on_panic`
    /// is then the answer.
    fn call<R: Default>(&self, on_panic: R, f: impl FnOnce(&Functions) -> R) -> R {
        let functions = lock(&self.0).clone();
        contained(move || functions.map_or_else(R::default, |functions| f(&functions)))
            .unwrap_or(on_panic)
    }

    /// From now on nothing is called. False: a thread still is in one of the functions, which go
    /// when it returns.
    pub(crate) fn release(&self) -> bool {
        let functions = lock(&self.0).take();
        functions.map_or(true, |functions| Arc::strong_count(&functions) == 1)
    }
}

// The `user` of the three below is the group's `Callbacks`, which live until no thread of the
// library can come any more (see `Shared::release_callbacks`).

unsafe extern "C" fn on_verdict(verdict: *const sys::cohort_verdict, user: *mut c_void) -> c_int {
    // SAFETY: see above; the verdict is borrowed for the call.
    let (callbacks, verdict) = unsafe { (&*user.cast::<Callbacks>(), &*verdict) };
    // Who panics when asked is taken to say that the group cannot go on.
    callbacks.call(1, |functions| {
        // SAFETY: this is the callback.
        let verdict = unsafe { Verdict::from_c(verdict) };
        functions.verdict.as_ref().map_or(0, |tell| c_int::from(tell(&verdict)))
    })
}

unsafe extern "C" fn on_abort(cause: *const sys::cohort_cause, user: *mut c_void) {
    // SAFETY: see above; the cause is borrowed for the call.
    let (callbacks, cause) = unsafe { (&*user.cast::<Callbacks>(), &*cause) };
    callbacks.call((), |functions| {
        if let (Some(tell), Some(cause)) = (&functions.cause, Cause::from_c(cause)) {
            tell(&cause);
        }
    })
}

unsafe extern "C" fn on_slow(verdict: *const sys::cohort_verdict, user: *mut c_void) -> c_int {
    // SAFETY: see above; the verdict is borrowed for the call.
    let (callbacks, verdict) = unsafe { (&*user.cast::<Callbacks>(), &*verdict) };
    callbacks.call(0, |functions| {
        if let Some(tell) = &functions.slow {
            // SAFETY: this is the callback.
            tell(&unsafe { Verdict::from_c(verdict) });
        }
        0
    })
}

/// Options of a group, or of ranks that join by id; each has a default
///
/// `cohort/options.h` describes them. CUDA graphs are not offered: nothing tells when a
/// graph's launch is done with a buffer.
#[derive(Default)]
pub struct Options {
    name: Option<String>,
    platform: Platform,
    recorder_slots: u32,
    deadlines: Deadlines,
    policy: Policy,
    warn_percent: u32,
    slow: Option<Duration>,
    dump_directory: Option<PathBuf>,
    log: Option<PathBuf>,
    stack_signal: i32,
    adaptive: Option<(u32, u32, Duration)>,
    launch: Launch,
    connect: Connect,
    several_processes: bool,
    abort: Option<AbortHandle>,
    functions: Functions,
}

impl Options {
    /// Every option with its default.
    pub fn new() -> Options {
        Options::default()
    }

    /// The group's name in texts; "cohort" by default.
    pub fn name(mut self, name: impl Into<String>) -> Options {
        self.name = Some(name.into());
        self
    }

    /// What it runs on.
    pub fn platform(mut self, platform: Platform) -> Options {
        self.platform = platform;
        self
    }

    /// How many operations a rank may have in flight, and how many the flight recorder keeps:
    /// a power of two from 16 to 65536; 2048 by default.
    pub fn recorder_slots(mut self, slots: u32) -> Options {
        self.recorder_slots = slots;
        self
    }

    /// How long things may take.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Options {
        self.deadlines = deadlines;
        self
    }

    /// What happens once a collective's deadline has passed.
    pub fn policy(mut self, policy: Policy) -> Options {
        self.policy = policy;
        self
    }

    /// How much of a deadline passes before a warning; 100: never; 50 by default.
    pub fn warn_percent(mut self, percent: u32) -> Options {
        self.warn_percent = percent;
        self
    }

    /// Deadlines that follow what collectives have taken: at most `factor` (2 to 1000) times
    /// the longest of late, once `warmup` collectives were seen, and never below `floor`.
    pub fn adaptive(mut self, factor: u32, warmup: u32, floor: Duration) -> Options {
        self.adaptive = Some((factor, warmup, floor));
        self
    }

    /// When a rank's part of a collective is launched.
    pub fn launch(mut self, launch: Launch) -> Options {
        self.launch = launch;
        self
    }

    /// What is connected as ranks open.
    pub fn connect(mut self, connect: Connect) -> Options {
        self.connect = connect;
        self
    }

    /// Dump the flight recorder into this folder with each verdict that is no warning.
    pub fn dump_directory(mut self, directory: impl AsRef<Path>) -> Options {
        self.dump_directory = Some(directory.as_ref().to_path_buf());
        self
    }

    /// What goes to stderr when a cause ends a group: "line" (the default), "none", "verdict", or
    /// a path with a '/' of a file for verdicts. `COHORT_LOG` in the environment overrides it.
    pub fn log(mut self, log: impl AsRef<Path>) -> Options {
        self.log = Some(log.as_ref().to_path_buf());
        self
    }

    /// Ask the threads of missing ranks by this signal where they are, for the verdict.  Add
    /// [`sys::COHORT_STACK_ALL`] to also ask other threads of the process, for dumps.
    pub fn stack_signal(mut self, signal: i32) -> Options {
        self.stack_signal = signal;
        self
    }

    /// The group has ranks in several processes, which a launcher has started and which find
    /// each other by what it has set in the environment.
    pub fn several_processes(mut self) -> Options {
        self.several_processes = true;
        self
    }

    /// End the call that opens the group, or joins, with [`Status::ABORTED`] when `handle` is
    /// fired, and afterwards the group. The handle is from [`AbortHandle::new`] and for one
    /// group; ranks that join by one id may share it.
    pub fn abort(mut self, handle: &AbortHandle) -> Options {
        self.abort = Some(handle.clone());
        self
    }

    /// Told of warnings, and of the end of each generation that does not end in peace
    ///
    /// The answer counts for [`Policy::Ask`] and [`Stage::Expired`](crate::Stage::Expired):
    /// true ends the group. A panic counts as true. Runs on a thread of the library, one call
    /// at a time. It may use an [`AbortHandle`](crate::AbortHandle) or an
    /// [`Observer`](crate::Observer). If it drops or closes the last handle of its group,
    /// the group stays open, as nothing can wait for its end there.
    pub fn on_verdict(
        mut self,
        tell: impl Fn(&Verdict) -> bool + Send + Sync + 'static,
    ) -> Options {
        self.functions.verdict = Some(Box::new(tell));
        self
    }

    /// Told of each generation's cause, on the same thread, before [`Options::on_verdict`].
    pub fn on_abort(mut self, tell: impl Fn(&Cause) + Send + Sync + 'static) -> Options {
        self.functions.cause = Some(Box::new(tell));
        self
    }

    /// Told, once each, of collectives and transfers that are not done after `limit`; on the
    /// same thread.
    pub fn slow(
        mut self,
        limit: Duration,
        tell: impl Fn(&Verdict) + Send + Sync + 'static,
    ) -> Options {
        self.slow = Some(limit);
        self.functions.slow = Some(Box::new(tell));
        self
    }

    /// Call `open` with these options as C has them; its second argument is what the callbacks
    /// are called with, or NULL.
    pub(crate) fn open<R>(
        self,
        call: &'static str,
        open: impl FnOnce(&sys::cohort_group_options) -> std::result::Result<R, Error>,
    ) -> Result<(R, *mut Callbacks)> {
        let name = string(call, "name", self.name.map(String::into_bytes))?;
        let bytes = |path: PathBuf| {
            use std::os::unix::ffi::OsStringExt;
            path.into_os_string().into_vec()
        };
        let directory = string(call, "dump_directory", self.dump_directory.map(bytes))?;
        let log = string(call, "log", self.log.map(bytes))?;
        // SAFETY: plain data, of which zeros are values.
        let mut bootstrap: sys::cohort_bootstrap = unsafe { MaybeUninit::zeroed().assume_init() };
        bootstrap.size = size_of::<sys::cohort_bootstrap>();
        bootstrap.kind = sys::COHORT_BOOTSTRAP_AUTO;
        let mut options = MaybeUninit::<sys::cohort_group_options>::zeroed();
        // SAFETY: the function sets every field; zeros are values of plain data, too.
        let mut options = unsafe {
            sys::cohort_group_options_init(options.as_mut_ptr());
            options.assume_init()
        };
        let pointer = |text: &Option<CString>| -> *const c_char {
            text.as_ref().map_or(ptr::null(), |text| text.as_ptr())
        };
        options.name = pointer(&name);
        options.platform = self.platform as c_int;
        options.recorder_slots = self.recorder_slots as c_uint;
        options.deadlines = self.deadlines.to_c();
        options.policy = self.policy as c_int;
        options.warn_percent = self.warn_percent as c_uint;
        options.dump_directory = pointer(&directory);
        options.log = pointer(&log);
        options.stack_signal = self.stack_signal;
        options.slow_ns = self.slow.map_or(0, nanoseconds);
        if let Some((factor, warmup, floor)) = self.adaptive {
            options.adaptive_factor = factor as c_uint;
            options.adaptive_warmup = warmup as c_uint;
            options.adaptive_floor_ns = nanoseconds(floor);
        }
        options.launch = self.launch as c_int;
        options.connect = self.connect as c_int;
        if self.several_processes {
            options.bootstrap = &bootstrap;
        }
        options.abort = self.abort.as_ref().map_or(ptr::null_mut(), AbortHandle::as_ptr);
        let mut user: *mut Callbacks = ptr::null_mut();
        if !self.functions.is_empty() {
            options.on_verdict = self.functions.verdict.as_ref().map(|_| on_verdict as _);
            options.on_abort = self.functions.cause.as_ref().map(|_| on_abort as _);
            options.on_slow = self.functions.slow.as_ref().map(|_| on_slow as _);
            user = Box::into_raw(Box::new(Callbacks(Mutex::new(Some(Arc::new(self.functions))))));
            options.user = user.cast();
        }
        let opened = open(&options);
        if let Err(error) = &opened {
            // What connects too late, or with other processes, may be telling still.
            let was_left = [Status::INIT_TIMEOUT, Status::ABORTED].contains(&error.status());
            if !user.is_null() && !self.several_processes && !was_left {
                // SAFETY: from into_raw() above, and nothing has it any more.
                drop(unsafe { Box::from_raw(user) });
            }
        }
        Ok((opened?, user))
    }
}

fn string(call: &'static str, option: &str, bytes: Option<Vec<u8>>) -> Result<Option<CString>> {
    bytes
        .map(CString::new)
        .transpose()
        .map_err(|_| Error::new(Status::INVALID, call, format!("{} has a NUL in it", option)))
}
