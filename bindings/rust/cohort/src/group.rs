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

/// Some of the machine's devices, a rank on each
///
/// Dropping it closes the group once every communicator, buffer and ticket of it is gone, too:
/// with the last of them, on that thread. A close waits for what is in flight up to the close
/// deadline, then aborts, up to the abort deadline; what goes wrong is told to
/// [`on_drop_error`](crate::on_drop_error). If a [`Group::run`] has left workers behind, their
/// handles may never go, so that dropping the group closes it as [`Group::close`] does.
#[derive(Debug)]
pub struct Group {
    shared: Arc<Shared>,
    has_left_behind: bool,
}

impl Group {
    /// Open a group over all devices: `cohort_group_open()`
    ///
    /// Blocks until the ranks are connected, or the init deadline has passed.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] with the option and its value; [`Status::INIT_TIMEOUT`];
    /// [`Status::NO_LIBRARY`], [`Status::NO_DEVICE`] and others of the platform. Nothing is
    /// open then.
    pub fn open(options: Options) -> Result<Group> {
        Group::open_c(ptr::null(), 0, options)
    }

    /// Open a group over the first `n` devices, 1 or more.
    ///
    /// # Errors
    ///
    /// As [`Group::open`].
    pub fn open_first(n: usize, options: Options) -> Result<Group> {
        let call = "cohort_group_open";
        if n == 0 {
            return Err(Error::new(Status::INVALID, call, "n is 0, not 1 or more"));
        }
        Group::open_c(ptr::null(), number(call, "n", n)?, options)
    }

    /// Open a group with rank r on `devices[r]`, each at most once.
    ///
    /// # Errors
    ///
    /// As [`Group::open`].
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
            // SAFETY: `n` devices, or none; all is borrowed for the call.
            let rc = unsafe { sys::cohort_group_open(devices, n, options, &mut group) };
            if rc < 0 {
                return Err(Error::of(rc, call));
            }
            Ok(group)
        })?;
        Ok(Group { shared: Shared::of_group(group, callbacks), has_left_behind: false })
    }

    /// One communicator per rank: `cohort_group_split()`, once in a generation
    ///
    /// # Errors
    ///
    /// [`Status::STATE`] if the group was split or run before, or has a cause.
    pub fn split(&mut self) -> Result<Vec<Comm>> {
        let mut comms = vec![ptr::null_mut(); self.size()];
        // SAFETY: room for a pointer per rank.
        let rc = unsafe { sys::cohort_group_split(self.shared.group(), comms.as_mut_ptr()) };
        self.shared.check("cohort_group_split", rc)?;
        let comm = |comm| Comm::new(Link::new(self.shared.core(comm), self.shared.clone()));
        Ok(comms.into_iter().map(comm).collect())
    }

    /// Run a function on every rank, a thread per rank: `cohort_group_run()`
    ///
    /// Returns what the workers have returned, in the order of the ranks. A worker that returns
    /// an error, or panics, ends the group: no other rank goes on waiting for it.
    ///
    /// Blocks until every worker has returned; once the group has a cause, no longer than the
    /// abort deadline. Workers that have not returned then are left behind
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
    /// Nor does its communicator leave it:
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
    /// The cause's; its text is the worker's error, or the panic's message (200 bytes of it),
    /// and [`source()`](StdError::source) has the error itself, or a [`Panic`].
    /// [`Status::STATE`] if the group has a cause already, or a communicator of
    /// [`Group::split`] is alive; [`Status::SYSTEM`] if threads cannot be started.
    pub fn run<F, R, E>(&mut self, worker: F) -> Result<Vec<R>>
    where
        F: Fn(&Comm) -> std::result::Result<R, E> + Send + Sync + 'static,
        R: Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let call = "cohort_group_run";
        if self.shared.is_out() {
            let text = "a communicator of the group's split is alive: drop it first";
            return Err(Error::new(Status::STATE, call, text));
        }
        let job = Arc::new(Job {
            worker,
            shared: self.shared.clone(),
            started: AtomicUsize::new(0),
            results: Mutex::new((0..self.size()).map(|_| None).collect()),
            failure: Mutex::default(),
        });
        let user = Arc::as_ptr(&job);
        for _ in 0..self.size() {
            // SAFETY: from an Arc. Each worker that starts takes one of these references.
            unsafe { Arc::increment_strong_count(user) };
        }
        let group = self.shared.group();
        let mut rc = sys::COHORT_OK;
        let cause = Cause::ask(|cause| {
            let user = user as *mut c_void;
            // SAFETY: `work` takes what `user` points to, which its references keep alive.
            rc = unsafe { sys::cohort_group_run(group, Some(work::<F, R, E>), user, cause) };
            rc
        });
        let error = (rc < 0).then(|| Error::of(rc, call));
        // With STATE they are those of the run before.
        // SAFETY: an open group; room for none.
        let left = rc != sys::COHORT_STATE
            && unsafe { sys::cohort_group_abandoned(group, ptr::null_mut(), 0) } > 0;
        self.has_left_behind |= left;
        if !left {
            // None is running, so these have not started, and never will.
            for _ in job.started.load(Ordering::SeqCst)..self.size() {
                // SAFETY: a reference from above that nobody has taken.
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
        let results = std::mem::take(&mut *lock(&job.results));
        Ok(results.into_iter().flatten().collect())
    }

    /// A new generation without these ranks: `cohort_group_respawn()`
    ///
    /// Blocks until the former generation is reclaimed, then as [`Group::open`]. Communicators
    /// of the former generation answer [`Status::STALE`].
    ///
    /// # Errors
    ///
    /// [`Status::STATE`] while there is no cause, or the former generation is not reclaimed;
    /// [`Status::INVALID`]; as [`Group::open`]. The group is as before.
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

    /// End every operation and communicator: `cohort_group_abort()`; true if this call did.
    pub fn abort(&self, reason: &str) -> bool {
        let reason = c_text(reason);
        // SAFETY: an open group; the reason is copied.
        unsafe { sys::cohort_group_abort(self.shared.group(), reason.as_ptr()) == sys::COHORT_OK }
    }

    /// Close the group now, whoever has handles: `cohort_group_close()`
    ///
    /// All other handles answer [`Status::STALE`] from now on; buffers that are still held stay
    /// allocated. If a thread is inside a call, the group is aborted, which brings it out.
    /// Blocks up to the close deadline, then up to the abort deadline.
    ///
    /// # Errors
    ///
    /// [`Status::ABORTED`] if work in flight was cut short; [`Status::WEDGED`] if something
    /// did not end in its time: closed all the same. [`Status::STATE`] if a thread did not come
    /// out of a call: the group is open until its handles are gone.
    pub fn close(self) -> Result<()> {
        self.shared.close()
    }

    /// The number of ranks in this process.
    pub fn size(&self) -> usize {
        // SAFETY: an open group.
        usize::try_from(unsafe { sys::cohort_group_size(self.shared.group()) }).unwrap_or(0)
    }

    /// What it runs on.
    pub fn platform(&self) -> Platform {
        self.shared.platform()
    }

    /// 1, and 1 more with each respawn.
    pub fn generation(&self) -> u32 {
        // SAFETY: an open group.
        let generation = unsafe { sys::cohort_group_generation(self.shared.group()) };
        u32::try_from(generation).unwrap_or(0)
    }

    /// Its devices, in the order of the ranks.
    pub fn devices(&self) -> Vec<i32> {
        let mut devices = vec![-1; self.size()];
        // SAFETY: room for as many numbers as there are ranks.
        unsafe { sys::cohort_group_devices(self.shared.group(), devices.as_mut_ptr()) };
        devices
    }

    /// The ranks that the last run of this generation has left behind.
    pub fn abandoned(&self) -> Vec<usize> {
        self.ranks(sys::cohort_group_abandoned)
    }

    /// The ranks that a supervisor gives to [`Group::respawn`] after the group has ended.
    /// There are none if no rank is to blame.
    pub fn lost(&self) -> Vec<usize> {
        self.ranks(sys::cohort_group_lost)
    }

    fn ranks(
        &self,
        ask: unsafe extern "C" fn(*const sys::cohort_group, *mut c_int, c_int) -> c_int,
    ) -> Vec<usize> {
        let mut ranks = vec![0; sys::COHORT_MAX_RANKS as usize];
        // SAFETY: an open group, and room for as many numbers as a group can have ranks.
        let n = unsafe { ask(self.shared.group(), ranks.as_mut_ptr(), sys::COHORT_MAX_RANKS) };
        ranks.truncate(usize::try_from(n).unwrap_or(0));
        ranks.into_iter().filter_map(|rank| usize::try_from(rank).ok()).collect()
    }

    /// What has ended the generation, if anything has.
    pub fn cause(&self) -> Option<Cause> {
        self.shared.cause()
    }

    /// What any thread may ask of the group, and do to it, while it runs.
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

/// A group for supervisors: from [`Group::observer`], for any thread
///
/// It does not keep the group open. After its close, [`Observer::abort`] does nothing and the
/// others answer [`Status::STALE`].
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

    /// [`Group::abort`]; false, too, after the close.
    pub fn abort(&self, reason: &str) -> bool {
        let reason = c_text(reason);
        // SAFETY: an open group; the reason is copied.
        let abort = |group| unsafe { sys::cohort_group_abort(group, reason.as_ptr()) };
        self.ask(abort) == Some(sys::COHORT_OK)
    }

    /// [`Group::cause`]; `None`, too, after the close.
    pub fn cause(&self) -> Option<Cause> {
        // SAFETY: an open group, and room for a cause.
        self.ask(|group| Cause::ask(|cause| unsafe { sys::cohort_group_cause(group, cause) }))?
    }

    /// What each rank is doing now: `cohort_group_snapshot()`.
    ///
    /// # Errors
    ///
    /// [`Status::STALE`] after the close.
    pub fn snapshot(&self) -> Result<Vec<RankReport>> {
        let mut reports = Vec::new();
        self.check("cohort_group_snapshot", |group| {
            // SAFETY: an open group.
            let room = unsafe { sys::cohort_group_size(group) };
            // SAFETY: room for as many reports.
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

    /// Write the flight recorder's files into this folder: `cohort_dump()`.
    ///
    /// # Errors
    ///
    /// [`Status::SYSTEM`] with the file's name; [`Status::STALE`] after the close.
    pub fn dump(&self, directory: impl AsRef<Path>) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;

        let call = "cohort_dump";
        let directory = CString::new(directory.as_ref().as_os_str().as_bytes())
            .map_err(|_| Error::new(Status::INVALID, call, "directory has a NUL in it"))?;
        // SAFETY: an open group; the text is borrowed for the call.
        self.check(call, |group| unsafe { sys::cohort_dump(group, directory.as_ptr()) })
    }
}

/// A worker's panic: the [`source()`](StdError::source) of [`Group::run`]'s error
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
        Panic(text.unwrap_or("with a value that is no text").to_string())
    }
}

/// What a run's workers share; workers that are left behind keep it.
struct Job<F, R> {
    worker: F,
    shared: Arc<Shared>,
    started: AtomicUsize,
    results: Mutex<Vec<Option<R>>>,
    failure: Mutex<Option<Arc<dyn StdError + Send + Sync>>>,
}

impl<F, R> Job<F, R> {
    fn run<E>(&self, comm: *mut sys::cohort_comm) -> c_int
    where
        F: Fn(&Comm) -> std::result::Result<R, E>,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let link = Link::new(self.shared.core(comm), self.shared.clone());
        // SAFETY: it goes before the worker returns, and the worker gets a reference.
        let comm = unsafe { Comm::of_worker(link) };
        let failure = match catch_unwind(AssertUnwindSafe(|| (self.worker)(&comm))) {
            Ok(Ok(result)) => {
                if let Some(slot) = lock(&self.results).get_mut(comm.rank()) {
                    *slot = Some(result);
                }
                return 0;
            }
            Ok(Err(error)) => error.into(),
            Err(payload) => Box::new(Panic::of(&*payload)),
        };
        let code = failure.downcast_ref::<Error>().map_or(0, |error| error.status().code());
        let code = if code == 0 { sys::COHORT_WORKER } else { code };
        // The first cause counts: it may be a destructor's, of this rank.
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

/// A `cohort_worker_fn`: no panic leaves it.
unsafe extern "C" fn work<F, R, E>(comm: *mut sys::cohort_comm, user: *mut c_void) -> c_int
where
    F: Fn(&Comm) -> std::result::Result<R, E> + Send + Sync + 'static,
    R: Send + 'static,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    // SAFETY: one of the references that `Group::run()` has made for its workers.
    let job = unsafe { Arc::from_raw(user as *const Job<F, R>) };
    job.started.fetch_add(1, Ordering::SeqCst);
    // What is dropped here is the program's, and may panic, too.
    contained(move || {
        let code = job.run(comm);
        drop(job);
        code
    })
    .unwrap_or(sys::COHORT_WORKER)
}
