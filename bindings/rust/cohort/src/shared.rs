// SPDX-License-Identifier: Apache-2.0

//! Who keeps what alive, and until when a communicator may be called
//!
//! A *core* is one communicator of C. `Shared` is what ends together: a group with its ranks'
//! cores, or one communicator that has joined or was split off. Each handle (`Comm`, `Ticket`,
//! `Buffer`, `Reducer`) has a *link*: a core and its `Shared`. C's communicators are valid
//! until their `Shared` is closed, which is when the last link is gone, or at
//! [`Group::close`](crate::Group::close).
//!
//! Invariants
//!
//! A. No call of C is made with a core's pointer after the close of its `Shared`. Each call
//!    passes the core's gate, which a close shuts first; then it waits until nobody is inside.
//!    The calls of a worker of `Group::run()` on its own `&Comm` need no gate: C keeps the
//!    communicator until the worker returns, and allows its thread to call during and after a
//!    close (rule 2 in `cohort/cohort.h`).
//! B. Calls that submit hold the core's *turn*, so that C never has to answer BUSY to one of two
//!    threads. A buffer that is dropped while another thread has the turn is kept in the core,
//!    and freed by the communicator's next allocation, or before the close.
//! C. A `Shared` that was split from a core has a link to it, so that the parent stays open
//!    until `Group::close()`. A split, and the close of what was split off, are inside the
//!    parent's gate, so that no close of the parent overtakes them.

use std::ffi::{c_void, CString};
use std::mem;
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use cohort_sys as sys;

use crate::error::{Error, Result, Status};
use crate::options::{Callbacks, Platform};
use crate::watch::Cause;

/// How long a destructor waits for what is in flight, and a close for threads to come out.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// No code of this crate panics with a lock held, so a poisoned lock's data is as good as any.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const SHUT: usize = 1 << (usize::BITS - 1);

/// Counts the threads that are inside, until it is shut.
#[derive(Default)]
struct Gate {
    /// How many are inside, and SHUT. The Acquire of an entry and of a close pair with the
    /// Release of those that leave.
    state: AtomicUsize,
    lock: Mutex<()>,
    left: Condvar,
}

impl Gate {
    fn enter(&self) -> bool {
        let is_open = self.state.fetch_add(1, Ordering::SeqCst) & SHUT == 0;
        if !is_open {
            self.leave();
        }
        is_open
    }

    fn leave(&self) {
        if self.state.fetch_sub(1, Ordering::SeqCst) & SHUT != 0 {
            drop(lock(&self.lock));
            self.left.notify_all();
        }
    }

    /// False: it was shut before.
    fn shut(&self) -> bool {
        self.state.fetch_or(SHUT, Ordering::SeqCst) & SHUT == 0
    }

    fn is_shut(&self) -> bool {
        self.state.load(Ordering::SeqCst) & SHUT != 0
    }

    fn open(&self) {
        self.state.fetch_and(!SHUT, Ordering::SeqCst);
    }

    /// Wait until nobody is inside; false: somebody still is.
    fn is_empty_by(&self, until: Instant) -> bool {
        let mut guard = lock(&self.lock);
        while self.state.load(Ordering::SeqCst) & !SHUT != 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            guard = self.left.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// A communicator of C.
pub(crate) struct Core {
    comm: *mut sys::cohort_comm,
    device: c_int,
    gate: Gate,
    /// Invariant B.
    turn: Mutex<()>,
    /// What the close has answered; `None` until then. Told with `ended`, as is a gate that is
    /// open again.
    end: Mutex<Option<Status>>,
    ended: Condvar,
    /// Invariant B. The number of them can be read without the lock.
    unfreed: Mutex<Vec<AtomicPtr<c_void>>>,
    unfreed_count: AtomicUsize,
    /// A `Comm` is out that is not a worker's.
    pub(crate) is_out: AtomicBool,
}

// SAFETY: the pointer is only given to C, whose functions say what threads may do; those that
// submit answer BUSY to a second one.
unsafe impl Send for Core {}
// SAFETY: as above.
unsafe impl Sync for Core {}

impl Core {
    /// # Safety
    ///
    /// `comm` is valid.
    unsafe fn new(comm: *mut sys::cohort_comm) -> Core {
        Core {
            comm,
            // SAFETY: the caller's promise.
            device: unsafe { sys::cohort_comm_device(comm) },
            gate: Gate::default(),
            turn: Mutex::default(),
            end: Mutex::default(),
            ended: Condvar::new(),
            unfreed: Mutex::default(),
            unfreed_count: AtomicUsize::new(0),
            is_out: AtomicBool::new(false),
        }
    }

    fn keep_unfreed(&self, memory: *mut c_void) {
        lock(&self.unfreed).push(AtomicPtr::new(memory));
        self.unfreed_count.fetch_add(1, Ordering::SeqCst);
    }

    /// Free what could not be freed before; what still cannot be is put back. The caller has
    /// the turn, or closes.
    pub(crate) fn free_unfreed(&self) {
        if self.unfreed_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let memory = mem::take(&mut *lock(&self.unfreed));
        self.unfreed_count.fetch_sub(memory.len(), Ordering::SeqCst);
        for each in memory {
            let memory = each.into_inner();
            // SAFETY: from an allocation of this communicator, which was not freed, and which
            // no operation uses.
            if unsafe { sys::cohort_free(self.comm, memory) } != sys::COHORT_OK {
                self.keep_unfreed(memory);
            }
        }
    }

    fn reopen(&self) {
        self.gate.open();
        drop(lock(&self.end));
        self.ended.notify_all();
    }

    fn set_end(&self, status: Status) {
        *lock(&self.end) = Some(status);
        self.ended.notify_all();
    }

    /// Shut the gate; false: threads are inside even after an abort.
    fn shut(&self, abort: &dyn Fn()) -> bool {
        self.gate.shut();
        self.gate.is_empty_by(Instant::now()) || {
            abort();
            self.gate.is_empty_by(Instant::now() + PATIENCE)
        }
    }
}

/// A thread inside a core's gate.
pub(crate) struct Inside<'a> {
    core: &'a Core,
    is_counted: bool,
    turn: Option<MutexGuard<'a, ()>>,
}

impl<'a> Inside<'a> {
    /// Wait for the turn to submit, and keep it.
    pub(crate) fn in_turn(mut self) -> Inside<'a> {
        self.turn = Some(lock(&self.core.turn));
        self
    }

    /// Take the turn, unless another thread has it.
    pub(crate) fn try_turn(mut self) -> Option<Inside<'a>> {
        self.turn = match self.core.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self)
    }

    /// The communicator, valid as long as this is.
    pub(crate) fn comm(&self) -> *mut sys::cohort_comm {
        self.core.comm
    }

    /// The result of `call` on the communicator, which has just returned `rc`.
    pub(crate) fn check(&self, call: &'static str, rc: c_int) -> Result<c_int> {
        if rc >= 0 {
            Ok(rc)
        } else {
            Err(self.error(call, rc))
        }
    }

    /// The error of `call`, which has just returned `rc`.
    pub(crate) fn error(&self, call: &'static str, rc: c_int) -> Error {
        let error = Error::of(rc, call);
        error.with_cause(self.cause())
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        // SAFETY: the communicator is valid, and `cause` room for one.
        Cause::ask(|cause| unsafe { sys::cohort_comm_cause(self.core.comm, cause) })
    }

    /// `cohort_comm_fail()`, which any thread may call.
    pub(crate) fn fail(&self, code: c_int, text: &str) -> c_int {
        let text = c_text(text);
        // SAFETY: the communicator is valid; the text is copied.
        unsafe { sys::cohort_comm_fail(self.core.comm, code, text.as_ptr()) }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        if self.is_counted {
            self.core.gate.leave();
        }
    }
}

/// A text for people as C has it: without NULs.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

enum Kind {
    Group(*mut sys::cohort_group),
    /// The only core.
    Comm,
}

/// What ends together.
pub(crate) struct Shared {
    kind: Kind,
    platform: Platform,
    /// For calls on the group by observers, as the cores' for theirs.
    gate: Gate,
    parent: Option<Link>,
    cores: Mutex<Vec<Arc<Core>>>,
    children: Mutex<Vec<Weak<Shared>>>,
    callbacks: AtomicPtr<Callbacks>,
    /// The close of a split has left a thread behind, which may still come to the callbacks.
    keeps_callbacks: AtomicBool,
    is_closed: AtomicBool,
}

// SAFETY: as for `Core`; the calls on a group that are for one thread at a time are made by
// methods with `&mut Group`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    fn new(
        kind: Kind,
        platform: Platform,
        parent: Option<Link>,
        callbacks: *mut Callbacks,
    ) -> Shared {
        Shared {
            kind,
            platform,
            gate: Gate::default(),
            parent,
            cores: Mutex::default(),
            children: Mutex::default(),
            callbacks: AtomicPtr::new(callbacks),
            keeps_callbacks: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn of_group(
        group: *mut sys::cohort_group,
        callbacks: *mut Callbacks,
    ) -> Arc<Shared> {
        // SAFETY: an open group.
        let platform = Platform::of(unsafe { sys::cohort_group_platform(group) });
        Arc::new(Shared::new(Kind::Group(group), platform, None, callbacks))
    }

    pub(crate) fn platform(&self) -> Platform {
        self.platform
    }

    /// NULL after a close, and for what is no group.
    pub(crate) fn group(&self) -> *mut sys::cohort_group {
        match self.kind {
            Kind::Group(group) if !self.is_closed.load(Ordering::SeqCst) => group,
            _ => ptr::null_mut(),
        }
    }

    /// What `ask` answers about the group, for any thread; `None` after a close.
    pub(crate) fn observe<R>(&self, ask: impl FnOnce(*mut sys::cohort_group) -> R) -> Option<R> {
        let answer = self.gate.enter().then(|| ask(self.group()));
        if answer.is_some() {
            self.gate.leave();
        }
        answer
    }

    /// The group's answer to `rc` of `call`, which has just returned.
    pub(crate) fn check(&self, call: &'static str, rc: c_int) -> Result<c_int> {
        if rc >= 0 {
            return Ok(rc);
        }
        Err(Error::of(rc, call).with_cause(self.cause()))
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        // SAFETY: an open group or NULL, which is refused.
        Cause::ask(|cause| unsafe { sys::cohort_group_cause(self.group(), cause) })
    }

    /// The core of this communicator, which lives as long as the group.
    pub(crate) fn core(&self, comm: *mut sys::cohort_comm) -> Arc<Core> {
        let mut cores = lock(&self.cores);
        if let Some(core) = cores.iter().find(|core| core.comm == comm) {
            return core.clone();
        }
        // SAFETY: the group's, which is open, or has left the worker behind that asks.
        let core = Arc::new(unsafe { Core::new(comm) });
        if self.is_closed.load(Ordering::SeqCst) {
            core.gate.shut();
        }
        cores.push(core.clone());
        core
    }

    /// Whether a `Comm` of the program's is out, for any rank.
    pub(crate) fn is_out(&self) -> bool {
        lock(&self.cores).iter().any(|core| core.is_out.load(Ordering::SeqCst))
    }

    /// After a respawn: what is out is of the former generation.
    pub(crate) fn respawned(&self) {
        lock(&self.cores).iter().for_each(|core| core.is_out.store(false, Ordering::SeqCst));
    }

    fn keep_callbacks(&self) {
        self.keeps_callbacks.store(true, Ordering::SeqCst);
        if let Some(parent) = &self.parent {
            parent.shared.keep_callbacks();
        }
    }

    fn release_callbacks(&self, status: c_int) {
        // What was split off calls the callbacks of what it was split from.
        if let (Some(parent), true) = (&self.parent, status == sys::COHORT_WEDGED) {
            parent.shared.keep_callbacks();
        }
        let callbacks = self.callbacks.swap(ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: not freed yet, as it was swapped out only now.
        if callbacks.is_null() || !unsafe { (*callbacks).release() } {
            return;
        }
        let is_closed = status == sys::COHORT_OK || status == sys::COHORT_ABORTED;
        if is_closed && !self.keeps_callbacks.load(Ordering::SeqCst) {
            // SAFETY: from Box::into_raw(). The group is closed, and has left no thread behind,
            // of any generation, which would be WEDGED: nothing has the pointer any more.
            drop(unsafe { Box::from_raw(callbacks) });
        }
    }

    /// Shut all gates, those of what was split from here, too; false: a thread is still inside
    /// one. What was shut beside this one is put into `held`, and not dropped before it is
    /// open again or ended: its own close would wait for that.
    fn shut(&self, abort: &dyn Fn(), held: &mut Vec<Arc<Shared>>) -> bool {
        if self.is_closed.load(Ordering::SeqCst) {
            return true;
        }
        self.gate.shut();
        let cores = lock(&self.cores).clone();
        if !(self.gate.is_empty_by(Instant::now() + PATIENCE)
            && cores.iter().all(|core| core.shut(abort)))
        {
            return false;
        }
        // All that there will be: a split is inside until its child is among these.
        let children: Vec<_> = lock(&self.children).iter().filter_map(Weak::upgrade).collect();
        held.extend(children.iter().cloned());
        children.iter().all(|child| child.shut(abort, held))
    }

    fn reopen(&self) {
        if !self.is_closed.load(Ordering::SeqCst) {
            self.gate.open();
            lock(&self.cores).iter().for_each(|core| core.reopen());
        }
    }

    fn ended(&self, status: Status) {
        self.is_closed.store(true, Ordering::SeqCst);
        lock(&self.cores).iter().for_each(|core| core.set_end(status));
    }

    /// A thread inside the parent, if there is one, whose close waits for it. `None`: the parent
    /// was closed, and this with it.
    fn enter_parent(&self) -> Option<Option<Inside<'_>>> {
        let parent = match &self.parent {
            Some(parent) => parent,
            None => return Some(None),
        };
        loop {
            match parent.enter("") {
                Ok(inside) => return Some(Some(inside)),
                Err(_) if parent.end(Duration::MAX).is_some() => return None,
                Err(_) => {} // it is open again
            }
        }
    }

    /// Close what is open, whoever has handles: they are told STALE from now on.
    pub(crate) fn close(&self) -> Result<()> {
        let (group, call) = match self.kind {
            Kind::Group(group) => (group, "cohort_group_close"),
            Kind::Comm => (ptr::null_mut(), "cohort_comm_close"),
        };
        let abort = || {
            let reason = c_text("closed while a thread was inside a call");
            match lock(&self.cores).first() {
                // SAFETY: an open group; the reason is copied.
                _ if !group.is_null() => unsafe { sys::cohort_group_abort(group, reason.as_ptr()) },
                // SAFETY: a communicator that is open until the end of this function.
                Some(core) => unsafe { sys::cohort_comm_fail(core.comm, -1, reason.as_ptr()) },
                None => 0,
            };
        };
        if self.is_closed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _parent = match self.enter_parent() {
            Some(inside) => inside,
            None => return Ok(()),
        };
        let mut held = Vec::new();
        let reopen = |held: &[Arc<Shared>]| {
            self.reopen();
            held.iter().for_each(|child| child.reopen());
        };
        if !self.shut(&abort, &mut held) {
            reopen(&held);
            let text = "a thread is inside a call and does not come out: it stays open";
            return Err(Error::new(Status::STATE, call, text));
        }
        lock(&self.cores).iter().for_each(|core| core.free_unfreed());
        let rc = if group.is_null() {
            self.close_comm()
        } else {
            self.free_for_the_closed(group);
            // SAFETY: an open group. By the gates no thread is inside a call but workers that
            // a run has left behind, after a cause, as C allows.
            unsafe { sys::cohort_group_close(group) }
        };
        let closed = if rc < 0 { Err(Error::of(rc, call)) } else { Ok(()) };
        if rc == sys::COHORT_STATE || rc == sys::COHORT_BUSY || rc == sys::COHORT_OWNER {
            reopen(&held);
            return closed;
        }
        held.iter().for_each(|child| child.ended(Status(rc)));
        self.ended(Status(rc));
        self.release_callbacks(rc);
        closed
    }

    /// Close the only core, twice if its tickets are not done: with a cause they have answers.
    fn close_comm(&self) -> c_int {
        let comm = match lock(&self.cores).first() {
            Some(core) => core.comm,
            None => return sys::COHORT_OK,
        };
        // SAFETY: a communicator that joined or was split off, which nobody has closed: each
        // close goes through this function, once. No other thread is inside it, as the gate
        // is shut.
        let mut rc = unsafe { sys::cohort_comm_close(comm) };
        if rc == sys::COHORT_TIMED_OUT {
            let text = c_text("not done at the close deadline");
            // SAFETY: it is still open, as the close has timed out.
            rc = unsafe {
                sys::cohort_comm_fail(comm, sys::COHORT_TIMED_OUT, text.as_ptr());
                sys::cohort_comm_close(comm)
            };
        }
        rc
    }

    /// Free what belongs to ranks that were closed, and so do not free.
    fn free_for_the_closed(&self, group: *mut sys::cohort_group) {
        // SAFETY: an open group.
        let size = unsafe { sys::cohort_group_size(group) };
        let mut row = vec![ptr::null_mut(); usize::try_from(size).unwrap_or(0)];
        for core in lock(&self.cores).iter() {
            for memory in mem::take(&mut *lock(&core.unfreed)) {
                if let Some(first) = row.first_mut() {
                    *first = memory.into_inner();
                }
                // SAFETY: one pointer per rank, of which one is memory of this group that no
                // operation uses.
                unsafe { sys::cohort_group_free(group, row.as_mut_ptr()) };
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            crate::told(&error);
        }
    }
}

/// A core, and what keeps it open.
#[derive(Clone)]
pub struct Link {
    core: Arc<Core>,
    shared: Arc<Shared>,
}

impl Link {
    pub(crate) fn new(core: Arc<Core>, shared: Arc<Shared>) -> Link {
        Link { core, shared }
    }

    /// A communicator of its own, which has joined.
    pub(crate) fn joined(comm: *mut sys::cohort_comm, platform: Platform) -> Link {
        // Its callbacks are those of the first rank to join, and are kept for ever.
        let shared = Arc::new(Shared::new(Kind::Comm, platform, None, ptr::null_mut()));
        Link::new(shared.core(comm), shared)
    }

    /// A communicator that was split from this one.
    pub(crate) fn child(&self, comm: *mut sys::cohort_comm) -> Link {
        let (platform, parent) = (self.platform(), Some(self.clone()));
        let shared = Arc::new(Shared::new(Kind::Comm, platform, parent, ptr::null_mut()));
        let mut children = lock(&self.shared.children);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&shared));
        drop(children);
        Link::new(shared.core(comm), shared)
    }

    pub(crate) fn platform(&self) -> Platform {
        self.shared.platform()
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// The platform and the device that its memory is of.
    pub(crate) fn location(&self) -> (Platform, c_int) {
        (self.platform(), self.core.device)
    }

    pub(crate) fn is_same(&self, other: &Link) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// Enter the gate for `call`; STALE after a close.
    pub(crate) fn enter(&self, call: &'static str) -> Result<Inside<'_>> {
        if self.core.gate.enter() {
            return Ok(Inside { core: &self.core, is_counted: true, turn: None });
        }
        let text = "the communicator's group was closed";
        Err(Error::new(Status::STALE, call, text))
    }

    /// As `enter()`, for a worker's calls on its own `&Comm` (invariant A).
    ///
    /// # Safety
    ///
    /// The worker that this communicator was given to is running, on this thread.
    pub(crate) unsafe fn enter_as_worker(&self) -> Inside<'_> {
        Inside { core: &self.core, is_counted: false, turn: None }
    }

    /// What the close has answered that has shut the gate, waiting for it up to `limit`: until
    /// then operations may still use buffers. `None`: not known yet, or the gate is open again.
    pub(crate) fn end(&self, limit: Duration) -> Option<Status> {
        let (core, begin) = (&self.core, Instant::now());
        let mut end = lock(&core.end);
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            if end.is_some() || left.is_zero() || !core.gate.is_shut() {
                return *end;
            }
            // A limit that is too long for the clock is none; this looks now and then.
            let left = left.min(PATIENCE);
            end = core.ended.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Give back memory that no operation uses.
    pub(crate) fn free(&self, memory: *mut c_void) {
        let inside = match self.enter("cohort_free") {
            Ok(inside) => inside,
            Err(_) => return, // it went with the group, or stays
        };
        let rc = match inside.try_turn() {
            // SAFETY: an allocation of this communicator; no operation uses it, as a buffer
            // that is in one is not dropped.
            Some(inside) => unsafe { sys::cohort_free(inside.comm(), memory) },
            None => sys::COHORT_BUSY,
        };
        if rc != sys::COHORT_OK && rc != sys::COHORT_WEDGED {
            self.core.keep_unfreed(memory);
        }
    }

    /// `cohort_comm_close()` by its owner, before its handles are gone.
    pub(crate) fn close(&self) -> Result<()> {
        match self.shared.kind {
            Kind::Comm => self.close_alone(),
            Kind::Group(_) => {
                let call = "cohort_comm_close";
                let inside = self.enter(call)?.in_turn();
                self.core.free_unfreed();
                // SAFETY: valid; it may still be asked about its tickets afterwards.
                let rc = unsafe { sys::cohort_comm_close(inside.comm()) };
                match inside.check(call, rc)? {
                    sys::COHORT_TIMED_OUT => Err(inside.error(call, rc)),
                    _ => Ok(()),
                }
            }
        }
    }

    /// It may be the process's last rank of its kind, after whose close C allows no call.
    fn close_alone(&self) -> Result<()> {
        let (call, core) = ("cohort_comm_close", &self.core);
        // One for the caller's link, one for `Shared`.
        if Arc::strong_count(core) > 2 {
            let text = "there are tickets, buffers or other handles of it";
            return Err(Error::new(Status::STATE, call, text));
        }
        let parent = self.shared.enter_parent();
        if parent.is_none() || !core.gate.shut() {
            return Err(Error::new(Status::STATE, call, "closed already"));
        }
        if !core.gate.is_empty_by(Instant::now()) {
            core.reopen();
            return Err(Error::new(Status::BUSY, call, "a thread is inside a call"));
        }
        core.free_unfreed();
        // SAFETY: nobody is inside, and this is its only close, unless it answers that it is
        // still open.
        let rc = unsafe { sys::cohort_comm_close(core.comm) };
        let error = Error::of(rc, call);
        match rc {
            sys::COHORT_TIMED_OUT | sys::COHORT_STATE | sys::COHORT_BUSY | sys::COHORT_OWNER => {
                core.reopen();
                return Err(error);
            }
            _ => self.shared.ended(Status(rc)),
        }
        self.shared.release_callbacks(rc);
        if rc < 0 {
            return Err(error);
        }
        Ok(())
    }
}
