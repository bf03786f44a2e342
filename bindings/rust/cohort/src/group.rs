// SPDX-License-Identifier: Apache-2.0

use std::any::Any;
use std::error::Error as StdError;
use std::ffi::{c_void, CString};
use std::fmt;
use std::os::raw::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use cohort_sys as sys;

use crate::comm::{number, Comm};
use crate::contained;
use crate::error::{Error, Result, Status};
use crate::options::{Options, Platform};
use crate::shared::{c_text, lock, Link, Shared};
use crate::watch::{Cause, RankReport};

/// A group of devices of this machine, with one rank on each
///
/// If this object is dropped, the group is closed by the thread that drops the group's last
/// communicator, buffer or ticket. A close waits for operations in flight up to the close deadline,
/// then aborts them, up to the abort deadline; errors go to
/// [`on_drop_error`](crate::on_drop_error). If a [`Group::run`] has abandoned workers, their
/// handles may never be dropped, so dropping this object closes the group immediately, as
/// [`Group::close`] does.
#[derive(Debug)]
pub struct Group {
    pub(crate) shared: Arc<Shared>,
    /// Serializes group-level calls, which C allows one thread at a time to make.
    pub(crate) turn: Mutex<()>,
    has_left_behind: bool,
}

impl Group {
    /// Open a group over all devices: `cohort_group_open()`
    ///
    /// Blocks until the ranks are connected or the init deadline expires.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`], naming the option and its value; [`Status::INIT_TIMEOUT`];
    /// [`Status::NO_LIBRARY`], [`Status::NO_DEVICE`] and other errors of the platform. On an error
    /// no group is open.
    pub fn open(options: Options) -> Result<Group> {
        Group::open_c(ptr::null(), 0, options)
    }

    /// Open a group over the first `n` devices; `n` is at least 1.
    ///
    /// # Errors
    ///
    /// The errors of [`Group::open`].
    pub fn open_first(n: usize, options: Options) -> Result<Group> {
        let call = "cohort_group_open";
        if n == 0 {
            return Err(Error::new(Status::INVALID, call, "n is 0; it must be at least 1"));
        }
        Group::open_c(ptr::null(), number(call, "n", n)?, options)
    }

    /// Open a group with rank r on `devices[r]`; each device may appear once.
    ///
    /// # Errors
    ///
    /// The errors of [`Group::open`].
    pub fn open_devices(devices: &[i32], options: Options) -> Result<Group> {
        let call = "cohort_group_open";
        if devices.is_empty() {
            return Err(Error::new(Status::INVALID, call, "devices is empty"));
        }
        Group::open_c(devices.as_ptr(), number(call, "devices", devices.len())?, options)
    }

    fn open_c(devices: *const c_int, n: c_int, options: Options) -> Result<Group> {
        let call = "cohort_group_open";
        let (group, callbacks) = options.open(call, |options| {
            let mut group = ptr::null_mut();
            // SAFETY: `n` devices, or none; all arguments are borrowed for the call.
            let rc = unsafe { sys::cohort_group_open(devices, n, options, &mut group) };
            if rc < 0 {
                return Err(Error::of(rc, call));
            }
            Ok(group)
        })?;
        let shared = Shared::of_group(group, callbacks);
        Ok(Group { shared, turn: Mutex::default(), has_left_behind: false })
    }

    /// Return one communicator per rank, once per generation: `cohort_group_split()`
    ///
    /// # Errors
    ///
    /// [`Status::STATE`] if the group was split or run before in this generation, or has a cause.
    pub fn split(&mut self) -> Result<Vec<Comm>> {
        let mut comms = vec![ptr::null_mut(); self.size()];
        // SAFETY: room for a pointer per rank.
        let rc = unsafe { sys::cohort_group_split(self.shared.group(), comms.as_mut_ptr()) };
        self.shared.check("cohort_group_split", rc)?;
        let comm = |comm| Comm::new(Link::new(self.shared.core(comm), self.shared.clone()));
        Ok(comms.into_iter().map(comm).collect())
    }

    /// Run a function on every rank, with one thread per rank: `cohort_group_run()`
    ///
    /// Returns the results of this process's workers, in rank order. A worker that returns an error
    /// or panics ends the group, so that no other rank keeps waiting for it.
    ///
    /// Blocks until every worker has returned or, once the group has a cause, until the abort
    /// deadline expires. Workers that have not returned by then are abandoned
    /// ([`Group::abandoned`]), which is why `worker` must not borrow:
    ///
    /// ```compile_fail,E0373
    /// use cohort::{Error, Group, Options};
    ///
    /// let mut group = Group::open(Options::new())?;
    /// let weights = vec![1.0; 10];
    /// group.run(|comm| Ok::<_, Error>(weights[comm.rank()]))?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// Nor can the communicator leave its worker:
    ///
    /// ```compile_fail,E0277
    /// use cohort::{Comm, Error, Group, Options};
    ///
    /// let mut group = Group::open(Options::new())?;
    /// group.run(|comm: &Comm| {
    ///     std::thread::scope(|scope| {
    ///         scope.spawn(|| comm.rank()); // a second thread in it
    ///     });
    ///     Ok::<_, Error>(())
    /// })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The cause's error. Its text is the worker's error or the panic's message (the first 200
    /// bytes); [`source()`](StdError::source) returns the error itself, or a [`Panic`].
    /// [`Status::STATE`] if the group has a cause already, or a communicator from [`Group::split`]
    /// is alive; [`Status::SYSTEM`] if threads cannot be started.
    pub fn run<F, R, E>(&mut self, worker: F) -> Result<Vec<R>>
    where
        F: Fn(&Comm) -> std::result::Result<R, E> + Send + Sync + 'static,
        R: Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let call = "cohort_group_run";
        if self.shared.is_out() {
            let text = "a communicator from split() is alive; drop it first";
            return Err(Error::new(Status::STATE, call, text));
        }
        let job = Arc::new(Job {
            worker,
            shared: self.shared.clone(),
            started: AtomicUsize::new(0),
            results: Mutex::default(),
            failure: Mutex::default(),
        });
        let user = Arc::as_ptr(&job);
        for _ in 0..self.size() {
            // SAFETY: `user` is from an Arc. Each worker that starts takes one reference.
            unsafe { Arc::increment_strong_count(user) };
        }
        let group = self.shared.group();
        let mut rc = sys::COHORT_OK;
        let cause = Cause::ask(|cause| {
            let user = user as *mut c_void;
            // SAFETY: `work` gets `user`, which its references keep alive.
            rc = unsafe { sys::cohort_group_run(group, Some(work::<F, R, E>), user, cause) };
            rc
        });
        let error = (rc < 0).then(|| Error::of(rc, call));
        // After STATE, abandoned workers are those of an earlier run.
        // SAFETY: an open group; room for none.
        let left = rc != sys::COHORT_STATE
            && unsafe { sys::cohort_group_abandoned(group, ptr::null_mut(), 0) } > 0;
        self.has_left_behind |= left;
        if !left {
            // No worker is running, so the remaining ones have not started and never will.
            for _ in job.started.load(Ordering::SeqCst)..self.size() {
                // SAFETY: a reference from above that no worker has taken.
                unsafe { Arc::decrement_strong_count(user) };
            }
        }
        if let Some(error) = error {
            let failure = lock(&job.failure).clone();
            return Err(match cause {
                Some(cause) if cause.status == error.status() => {
                    let text = cause.text.clone();
                    error.with_text(text).with_cause(Some(cause)).with_source(failure)
                }
                cause => error.with_cause(cause),
            });
        }
        let mut results = std::mem::take(&mut *lock(&job.results));
        results.sort_by_key(|(rank, _)| *rank);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }

    /// Start a new generation without these ranks: `cohort_group_respawn()`
    ///
    /// Blocks until the previous generation is reclaimed, and then until the new one is connected,
    /// up to the abort and init deadlines. Communicators of the previous generation return
    /// [`Status::STALE`].
    ///
    /// # Errors
    ///
    /// [`Status::STATE`] if the group has no cause, or the previous generation is not reclaimed;
    /// [`Status::INVALID`]; the errors of [`Group::open`]. On an error the group is unchanged.
    pub fn respawn(&mut self, lost: &[usize]) -> Result<()> {
        let call = "cohort_group_respawn";
        let lost = lost.iter().map(|rank| number(call, "rank", *rank));
        let lost = lost.collect::<Result<Vec<_>>>()?;
        let n = number(call, "n", lost.len())?;
        let ranks = if lost.is_empty() { ptr::null() } else { lost.as_ptr() };
        // SAFETY: `n` ranks, borrowed for the call.
        let rc = unsafe { sys::cohort_group_respawn(self.shared.group(), ranks, n) };
        self.shared.check(call, rc)?;
        self.shared.respawned();
        Ok(())
    }

    /// End every operation and communicator: `cohort_group_abort()`; returns true if this call
    /// ended the group.
    pub fn abort(&self, reason: &str) -> bool {
        let reason = c_text(reason);
        // SAFETY: an open group; the reason is copied.
        unsafe { sys::cohort_group_abort(self.shared.group(), reason.as_ptr()) == sys::COHORT_OK }
    }

    /// Close the group now, even if other handles of it exist: `cohort_group_close()`
    ///
    /// Afterwards all other handles return [`Status::STALE`], and buffers that the program still
    /// has stay allocated. If a thread is inside a call, the group is aborted to make the call
    /// return. Blocks up to the close deadline, then up to the abort deadline.
    ///
    /// # Errors
    ///
    /// [`Status::ABORTED`] if work in flight was cut short; [`Status::WEDGED`] if an abort did not
    /// complete. The group is closed in both cases. [`Status::STATE`] if a thread did not return
    /// from a call; then the group stays open until its handles are dropped.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }

    /// Return the number of ranks in this process.
    pub fn size(&self) -> usize {
        // SAFETY: an open group.
        usize::try_from(unsafe { sys::cohort_group_size(self.shared.group()) }).unwrap_or(0)
    }

    /// Return the platform that the group runs on.
    pub fn platform(&self) -> Platform {
        self.shared.platform()
    }

    /// Return the number of the generation: 1 at first, plus 1 for each respawn.
    pub fn generation(&self) -> u32 {
        // SAFETY: an open group.
        let generation = unsafe { sys::cohort_group_generation(self.shared.group()) };
        u32::try_from(generation).unwrap_or(0)
    }

    /// Return the device of each rank, in rank order.
    pub fn devices(&self) -> Vec<i32> {
        let mut devices = vec![-1; self.size()];
        // SAFETY: room for one number per rank.
        unsafe { sys::cohort_group_devices(self.shared.group(), devices.as_mut_ptr()) };
        devices
    }

    /// Return the ranks whose workers the last run of this generation has abandoned.
    pub fn abandoned(&self) -> Vec<usize> {
        self.ranks(sys::cohort_group_abandoned)
    }

    /// Return the ranks to pass to [`Group::respawn`] after the group has ended; empty if no rank
    /// is to blame.
    pub fn lost(&self) -> Vec<usize> {
        self.ranks(sys::cohort_group_lost)
    }

    fn ranks(
        &self,
        ask: unsafe extern "C" fn(*const sys::cohort_group, *mut c_int, c_int) -> c_int,
    ) -> Vec<usize> {
        let mut ranks = vec![0; sys::COHORT_MAX_RANKS as usize];
        // SAFETY: an open group, and room for the largest number of ranks.
        let n = unsafe { ask(self.shared.group(), ranks.as_mut_ptr(), sys::COHORT_MAX_RANKS) };
        ranks.truncate(usize::try_from(n).unwrap_or(0));
        ranks.into_iter().filter_map(|rank| usize::try_from(rank).ok()).collect()
    }

    /// Return the cause that ended the generation, or `None`.
    pub fn cause(&self) -> Option<Cause> {
        self.shared.cause()
    }

    /// Return a handle with which any thread can query or abort the group while it runs.
    pub fn observer(&self) -> Observer {
        Observer(Arc::downgrade(&self.shared))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.has_left_behind {
            if let Err(error) = self.shared.close() {
                crate::told(&error);
            }
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.group())
    }
}

/// A handle for supervisors, for use on any thread, from [`Group::observer`]
///
/// The handle does not keep the group open. After the close, [`Observer::abort`] does nothing and
/// the other methods return [`Status::STALE`] or `None`.
#[derive(Clone, Debug)]
pub struct Observer(Weak<Shared>);

impl Observer {
    fn ask<R>(&self, ask: impl FnOnce(*mut sys::cohort_group) -> R) -> Option<R> {
        self.0.upgrade()?.observe(ask)
    }

    fn check(
        &self,
        call: &'static str,
        make: impl FnOnce(*mut sys::cohort_group) -> c_int,
    ) -> Result<()> {
        let rc = self.ask(|group| {
            let rc = make(group);
            (rc < 0).then(|| Error::of(rc, call)).map_or(Ok(()), Err)
        });
        rc.unwrap_or_else(|| Err(Error::new(Status::STALE, call, "the group was closed")))
    }

    /// Call [`Group::abort`]; return false after the close.
    pub fn abort(&self, reason: &str) -> bool {
        let reason = c_text(reason);
        // SAFETY: an open group; the reason is copied.
        let abort = |group| unsafe { sys::cohort_group_abort(group, reason.as_ptr()) };
        self.ask(abort) == Some(sys::COHORT_OK)
    }

    /// Call [`Group::cause`]; return `None` after the close.
    pub fn cause(&self) -> Option<Cause> {
        // SAFETY: an open group, and room for a cause.
        self.ask(|group| Cause::ask(|cause| unsafe { sys::cohort_group_cause(group, cause) }))?
    }

    /// Return the state of each rank: `cohort_group_snapshot()`.
    ///
    /// # Errors
    ///
    /// [`Status::STALE`] after the close.
    pub fn snapshot(&self) -> Result<Vec<RankReport>> {
        let mut reports = Vec::new();
        self.check("cohort_group_snapshot", |group| {
            // SAFETY: an open group.
            let room = unsafe { sys::cohort_group_size(group) };
            // SAFETY: room for that many reports.
            let asked = RankReport::ask(room, |reports, room, size| unsafe {
                sys::cohort_group_snapshot(group, reports, room, size)
            });
            asked.map_or_else(
                |rc| rc,
                |found| {
                    reports = found;
                    sys::COHORT_OK
                },
            )
        })?;
        Ok(reports)
    }

    /// Write the flight recorder's files into this directory: `cohort_dump()`.
    ///
    /// # Errors
    ///
    /// [`Status::SYSTEM`], naming the file; [`Status::STALE`] after the close.
    pub fn dump(&self, directory: impl AsRef<Path>) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;

        let call = "cohort_dump";
        let directory = CString::new(directory.as_ref().as_os_str().as_bytes())
            .map_err(|_| Error::new(Status::INVALID, call, "directory contains a NUL"))?;
        // SAFETY: an open group; the text is borrowed for the call.
        self.check(call, |group| unsafe { sys::cohort_dump(group, directory.as_ptr()) })
    }
}

/// A worker's panic, as the [`source()`](StdError::source) of [`Group::run`]'s error
#[derive(Debug)]
pub struct Panic(String);

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.0)
    }
}

impl StdError for Panic {}

impl Panic {
    fn of(payload: &(dyn Any + Send)) -> Panic {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Panic(text.unwrap_or("with a value that is not text").to_string())
    }
}

/// State shared by a run's workers; abandoned workers keep it alive.
struct Job<F, R> {
    worker: F,
    shared: Arc<Shared>,
    started: AtomicUsize,
    /// Results with their ranks, which may be any ranks of the group.
    results: Mutex<Vec<(usize, R)>>,
    failure: Mutex<Option<Arc<dyn StdError + Send + Sync>>>,
}

impl<F, R> Job<F, R> {
    fn run<E>(&self, comm: *mut sys::cohort_comm) -> c_int
    where
        F: Fn(&Comm) -> std::result::Result<R, E>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let link = Link::new(self.shared.core(comm), self.shared.clone());
        // SAFETY: it is dropped before the worker returns, and the worker gets only a reference.
        let comm = unsafe { Comm::of_worker(link) };
        let failure = match catch_unwind(AssertUnwindSafe(|| (self.worker)(&comm))) {
            Ok(Ok(result)) => {
                lock(&self.results).push((comm.rank(), result));
                return 0;
            }
            Ok(Err(error)) => error.into(),
            Err(payload) => Box::new(Panic::of(&*payload)),
        };
        let code = failure.downcast_ref::<Error>().map_or(0, |error| error.status().code());
        let code = if code == 0 { sys::COHORT_WORKER } else { code };
        // Only the first cause counts, and a destructor of this rank may have set it already.
        let is_first = comm.fail(code, &failure.to_string()).unwrap_or(false);
        let cause = comm.cause();
        let is_of_this = cause.map_or(false, |cause| {
            cause.status == Status::WORKER && cause.rank == Some(comm.rank())
        });
        if is_first || is_of_this {
            *lock(&self.failure) = Some(Arc::from(failure));
        }
        code
    }
}

/// A `cohort_worker_fn` that catches every panic.
unsafe extern "C" fn work<F, R, E>(comm: *mut sys::cohort_comm, user: *mut c_void) -> c_int
where
    F: Fn(&Comm) -> std::result::Result<R, E> + Send + Sync + 'static,
    R: Send + 'static,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    // SAFETY: one of the references that `Group::run()` made for its workers.
    let job = unsafe { Arc::from_raw(user as *const Job<F, R>) };
    job.started.fetch_add(1, Ordering::SeqCst);
    // Dropping the program's values here may also panic.
    contained(move || {
        let code = job.run(comm);
        drop(job);
        code
    })
    .unwrap_or(sys::COHORT_WORKER)
}
