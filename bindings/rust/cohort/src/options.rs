// SPDX-License-Identifier: Apache-2.0

use std::ffi::{c_void, CString};
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_int, c_uint};
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cohort_sys as sys;

use crate::abort::AbortHandle;
use crate::comm::number;
use crate::contained;
use crate::error::{Error, Result, Status};
use crate::shared::lock;
use crate::watch::Verdict;

/// The platform that a group runs on
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Platform {
    /// The value of `COHORT_PLATFORM` if set, else [`Gpu`](Platform::Gpu) if there is a GPU.
    #[default]
    Auto = sys::COHORT_PLATFORM_AUTO,
    /// GPUs, through NCCL and CUDA.
    Gpu = sys::COHORT_PLATFORM_GPU,
    /// Simulated devices: CPU threads and host memory.
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

/// The action of the watchdog when a collective misses its deadline
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Policy {
    /// End the group with [`Status::STALLED`], and call [`Options::on_verdict`].
    #[default]
    Abort = sys::COHORT_POLICY_ABORT,
    /// Only call [`Options::on_verdict`].
    Report = sys::COHORT_POLICY_REPORT,
    /// Call [`Options::on_verdict`], and end the group if it returns true.
    Ask = sys::COHORT_POLICY_ASK,
}

/// The time at which a rank's part of a collective is launched: see `cohort/options.h`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Launch {
    /// The value of `COHORT_LAUNCH` if set, else the best mode for the platform.
    #[default]
    Default = sys::COHORT_LAUNCH_DEFAULT,
    /// Once all ranks of this process have called the collective.
    Together = sys::COHORT_LAUNCH_TOGETHER,
    /// Immediately, without waiting for the other ranks.
    Ahead = sys::COHORT_LAUNCH_AHEAD,
}

/// The connections that are made when a group opens: see `cohort/options.h`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum Connect {
    /// The value of `COHORT_CONNECT` if set, else [`Collectives`](Connect::Collectives).
    #[default]
    Default = sys::COHORT_CONNECT_DEFAULT,
    /// The connections that collectives need.
    Collectives = sys::COHORT_CONNECT_COLLECTIVES,
    /// The connections that collectives need, and one between every pair of ranks.
    All = sys::COHORT_CONNECT_ALL,
    /// No connections.
    None = sys::COHORT_CONNECT_NONE,
}

/// Time limits; `None` stands for the default, [`Duration::MAX`] for no limit
///
/// `cohort/deadline.h` defines each limit and its default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadlines {
    /// Limit for creating and connecting the ranks.
    pub init: Option<Duration>,
    /// Limit from a rank's call of a collective until the last rank has called it.
    pub join: Option<Duration>,
    /// Limit from the last rank's call until the collective is done.
    pub exec: Option<Duration>,
    /// Limit of a close's wait for operations in flight, after which it aborts them.
    pub close: Option<Duration>,
    /// Limit for an abort to complete.
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

/// Convert a time to nanoseconds; a time that does not fit becomes `COHORT_FOREVER`.
pub(crate) fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(sys::COHORT_FOREVER)
}

type OnVerdict = Box<dyn Fn(&Verdict) -> bool + Send + Sync>;
type Gather = dyn Fn(Vec<u8>) -> Option<Vec<u8>> + Send + Sync;

/// The callbacks of a group.
#[derive(Default)]
struct Functions {
    verdict: Option<OnVerdict>,
    gather: Option<Arc<Gather>>,
}

impl Functions {
    fn is_empty(&self) -> bool {
        self.verdict.is_none() && self.gather.is_none()
    }
}

/// The way in which the processes of a group find each other.
#[derive(Clone, Copy)]
enum Bootstrap {
    Launcher,
    /// `Functions::gather`, the program's own function.
    Gather {
        process: usize,
        processes: usize,
    },
}

/// The `user` argument of the C callbacks and the `info` of a bootstrap, which has the program's
/// functions until they are released
///
/// A thread that C has abandoned may call them at any time, even after the close.
pub(crate) struct Callbacks(Mutex<Option<Arc<Functions>>>);

impl Callbacks {
    /// Call `f` unless the functions were released; return `on_panic` if it panics.
    fn call<R: Default>(&self, on_panic: R, f: impl FnOnce(&Functions) -> R) -> R {
        let functions = lock(&self.0).clone();
        contained(move || functions.map_or_else(R::default, |functions| f(&functions)))
            .unwrap_or(on_panic)
    }

    /// Prevent further calls. Returns false if a thread is still in one of the functions; the
    /// functions are then dropped when that thread returns.
    pub(crate) fn release(&self) -> bool {
        let functions = lock(&self.0).take();
        functions.map_or(true, |functions| Arc::strong_count(&functions) == 1)
    }
}

// SAFETY, of the functions below that get `user`: it is the group's `Callbacks`, which live until
// no thread of the library can call them (see `Shared::release_callbacks`).

unsafe extern "C" fn on_verdict(verdict: *const sys::cohort_verdict, user: *mut c_void) -> c_int {
    // SAFETY: `user` is the live `Callbacks`; the verdict is borrowed for the call.
    let (callbacks, verdict) = unsafe { (&*user.cast::<Callbacks>(), &*verdict) };
    // A panic means that the group cannot continue.
    callbacks.call(1, |functions| {
        // SAFETY: this is the callback that got the verdict.
        let verdict = unsafe { Verdict::from_c(verdict) };
        functions.verdict.as_ref().map_or(0, |tell| c_int::from(tell(&verdict)))
    })
}

/// An allgather that runs on its own thread, because the callback of the C API must not block.
struct Request {
    result: Receiver<Option<Vec<u8>>>,
    recv: *mut c_void,
}

unsafe extern "C" fn gather_start(
    send: *mut c_void,
    recv: *mut c_void,
    bytes: usize,
    user: *mut c_void,
    request: *mut *mut c_void,
) -> c_int {
    // SAFETY: `user` is the live `Callbacks`.
    let callbacks = unsafe { &*user.cast::<Callbacks>() };
    callbacks.call(1, |functions| {
        let gather = match &functions.gather {
            Some(gather) => gather.clone(),
            None => return 1,
        };
        // SAFETY: C's bytes of this process, borrowed for the call.
        let own = unsafe { slice::from_raw_parts(send.cast::<u8>(), bytes) }.to_vec();
        let (sender, result) = mpsc::channel();
        let run = move || drop(sender.send(contained(|| gather(own)).flatten()));
        if thread::Builder::new().name("cohort/gather".into()).spawn(run).is_err() {
            return 1;
        }
        // SAFETY: room for a pointer.
        unsafe { *request = Box::into_raw(Box::new(Request { result, recv })).cast() };
        0
    })
}

unsafe extern "C" fn gather_test(request: *mut c_void) -> c_int {
    // SAFETY: from `gather_start()`, and not freed yet.
    let request = unsafe { &*request.cast::<Request>() };
    match request.result.try_recv() {
        Ok(Some(all)) => {
            // SAFETY: `Options::bootstrap` has compared the length with C's room.
            unsafe { ptr::copy_nonoverlapping(all.as_ptr(), request.recv.cast(), all.len()) };
            0
        }
        Err(TryRecvError::Empty) => 1,
        _ => -1,
    }
}

unsafe extern "C" fn gather_free(request: *mut c_void) -> c_int {
    // SAFETY: from `gather_start()`, freed once.
    drop(unsafe { Box::from_raw(request.cast::<Request>()) });
    0
}

/// Options of a group, or of ranks that join by id; each has a default
///
/// `cohort/options.h` describes them. CUDA graphs are not supported, because nothing reports when
/// a graph launch no longer uses a buffer.
#[derive(Default)]
pub struct Options {
    name: Option<String>,
    platform: Platform,
    recorder_slots: u32,
    deadlines: Deadlines,
    policy: Policy,
    slow: Option<Duration>,
    dump_directory: Option<PathBuf>,
    log: Option<PathBuf>,
    stack_signal: i32,
    adaptive: Option<(u32, u32, Duration)>,
    launch: Launch,
    connect: Connect,
    bootstrap: Option<Bootstrap>,
    abort: Option<AbortHandle>,
    functions: Functions,
}

impl Options {
    /// Create options with their defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// Set the group's name, which appears in messages; the default is "cohort".
    pub fn name(mut self, name: impl Into<String>) -> Options {
        self.name = Some(name.into());
        self
    }

    /// Set the platform to run on.
    pub fn platform(mut self, platform: Platform) -> Options {
        self.platform = platform;
        self
    }

    /// Set the number of operations that a rank may have in flight and that the flight recorder
    /// keeps: a power of two from 16 to 65536; the default is 2048.
    pub fn recorder_slots(mut self, slots: u32) -> Options {
        self.recorder_slots = slots;
        self
    }

    /// Set the time limits.
    pub fn deadlines(mut self, deadlines: Deadlines) -> Options {
        self.deadlines = deadlines;
        self
    }

    /// Set the action when a collective misses its deadline.
    pub fn policy(mut self, policy: Policy) -> Options {
        self.policy = policy;
        self
    }

    /// Adapt deadlines to measured times: `factor` (2 to 1000) times the longest recent collective,
    /// but at least `floor`, once `warmup` collectives were measured.
    pub fn adaptive(mut self, factor: u32, warmup: u32, floor: Duration) -> Options {
        self.adaptive = Some((factor, warmup, floor));
        self
    }

    /// Set the time at which a rank's part of a collective is launched.
    pub fn launch(mut self, launch: Launch) -> Options {
        self.launch = launch;
        self
    }

    /// Set the connections that are made when the group opens.
    pub fn connect(mut self, connect: Connect) -> Options {
        self.connect = connect;
        self
    }

    /// Dump the flight recorder to this directory with each verdict of `on_verdict`.
    pub fn dump_directory(mut self, directory: impl AsRef<Path>) -> Options {
        self.dump_directory = Some(directory.as_ref().to_path_buf());
        self
    }

    /// Set the output on stderr when a cause ends a group: "line" (the default), "none", "verdict",
    /// or a path with a '/' to write verdicts to that file. `COHORT_LOG` overrides this option.
    pub fn log(mut self, log: impl AsRef<Path>) -> Options {
        self.log = Some(log.as_ref().to_path_buf());
        self
    }

    /// Collect stacks for verdicts from the threads of missing ranks, by this signal. Add
    /// [`sys::COHORT_STACK_ALL`] to include the process's other threads in dumps.
    pub fn stack_signal(mut self, signal: i32) -> Options {
        self.stack_signal = signal;
        self
    }

    /// Use ranks in several processes, which find each other through the environment variables of
    /// their launcher.
    pub fn several_processes(mut self) -> Options {
        self.bootstrap = Some(Bootstrap::Launcher);
        self
    }

    /// Use ranks in several processes, which find each other through the program's own function
    ///
    /// This process is number `process` of `processes`. `gather` takes bytes of this process, and
    /// returns the bytes of all processes, in the order of the processes; each process passes the
    /// same number of bytes. `gather` is called several times, one call at a time, when the group
    /// opens and when it is respawned. It may block, because it runs on its own thread. If it
    /// returns an error or a wrong length, or panics, the open fails. After the init deadline the
    /// library no longer waits for it.
    pub fn bootstrap<E>(
        mut self,
        process: usize,
        processes: usize,
        gather: impl Fn(&[u8]) -> std::result::Result<Vec<u8>, E> + Send + Sync + 'static,
    ) -> Options {
        self.bootstrap = Some(Bootstrap::Gather { process, processes });
        self.functions.gather = Some(Arc::new(move |own: Vec<u8>| {
            let wanted = own.len().checked_mul(processes)?;
            gather(&own).ok().filter(|all| all.len() == wanted)
        }));
        self
    }

    /// Let `handle` end the open or the join, with [`Status::ABORTED`], and afterwards the group.
    /// The handle is from [`AbortHandle::new`], and can be used for one group; ranks that join by
    /// one id may share it.
    pub fn abort(mut self, handle: &AbortHandle) -> Options {
        self.abort = Some(handle.clone());
        self
    }

    /// Set a function that is called when a deadline passes, and when a generation ends
    /// abnormally
    ///
    /// With [`Policy::Ask`], at [`Stage::Expired`](crate::Stage::Expired), the group ends if the
    /// function returns true or panics; otherwise its result is ignored. The function runs on a
    /// library thread, one call at a time. It may use an [`AbortHandle`](crate::AbortHandle) or an
    /// [`Observer`](crate::Observer). If it drops or closes the last handle of its group, the
    /// group stays open, because a close would wait for this function.
    pub fn on_verdict(
        mut self,
        tell: impl Fn(&Verdict) -> bool + Send + Sync + 'static,
    ) -> Options {
        self.functions.verdict = Some(Box::new(tell));
        self
    }

    /// Call the function of [`Options::on_verdict`] with [`Stage::Slow`](crate::Stage::Slow) once
    /// for each collective or transfer that takes longer than `limit`.
    pub fn slow(mut self, limit: Duration) -> Options {
        self.slow = Some(limit);
        self
    }

    /// Call `open` with these options as a C structure, and with the `user` of the callbacks, or
    /// NULL.
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
        // SAFETY: plain data, for which all zeros is a valid value.
        let mut bootstrap: sys::cohort_bootstrap = unsafe { MaybeUninit::zeroed().assume_init() };
        bootstrap.size = size_of::<sys::cohort_bootstrap>();
        bootstrap.kind = sys::COHORT_BOOTSTRAP_AUTO;
        if let Some(Bootstrap::Gather { process, processes }) = self.bootstrap {
            bootstrap.kind = sys::COHORT_BOOTSTRAP_TABLE;
            bootstrap.process = number(call, "process", process)?;
            bootstrap.processes = number(call, "processes", processes)?;
            bootstrap.allgather = Some(gather_start);
            bootstrap.req_test = Some(gather_test);
            bootstrap.req_free = Some(gather_free);
        }
        let mut options = MaybeUninit::<sys::cohort_group_options>::zeroed();
        // SAFETY: the function sets every field, and all zeros is valid for plain data.
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
        options.abort = self.abort.as_ref().map_or(ptr::null_mut(), AbortHandle::as_ptr);
        let mut user: *mut Callbacks = ptr::null_mut();
        if !self.functions.is_empty() {
            options.on_verdict = self.functions.verdict.as_ref().map(|_| on_verdict as _);
            user = Box::into_raw(Box::new(Callbacks(Mutex::new(Some(Arc::new(self.functions))))));
            options.user = user.cast();
        }
        bootstrap.info = user.cast();
        if self.bootstrap.is_some() {
            options.bootstrap = &bootstrap;
        }
        let opened = open(&options);
        if let Err(error) = &opened {
            // A late connection, or other processes, may still call the callbacks.
            let was_left = [Status::INIT_TIMEOUT, Status::ABORTED].contains(&error.status());
            if !user.is_null() && self.bootstrap.is_none() && !was_left {
                // SAFETY: from into_raw() above, and no other pointer to it is left.
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
        .map_err(|_| Error::new(Status::INVALID, call, format!("{} contains a NUL", option)))
}
