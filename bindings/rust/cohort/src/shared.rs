// SPDX-License-Identifier: Apache-2.0

//! Lifetimes: which object keeps another one alive, and until when a communicator may be called
//!
//! A *core* is one C communicator. A `Shared` is a unit that is closed as a whole: a group with
//! the cores of its ranks, or one communicator from a join or a split. Each handle (`Comm`,
//! `Ticket`, `Buffer`, `Reducer`) has a *link* to a core and its `Shared`. C communicators are
//! valid until their `Shared` is closed: when the last link is dropped, or in
//! [`Group::close`](crate::Group::close).
//!
//! Invariants
//!
//! A. No C call uses a core's pointer after the close of its `Shared`. Each call enters the core's
//!    gate. A close first shuts the gate and then waits until no thread is inside. Calls of a
//!    `Group::run()` worker on its own `&Comm` need no gate: C keeps the communicator until the
//!    worker returns, and allows its thread to call during and after a close (rule 2 in
//!    `cohort/cohort.h`).
//! B. Calls that submit hold the core's *turn*, so that C never returns BUSY because two threads
//!    call at once. A buffer that is dropped while another thread has the turn is kept in the
//!    core, and freed by the communicator's next allocation or before the close.
//! C. A `Shared` that was split from a core has a link to it, so that the parent stays open until
//!    `Group::close()`. A split, and the close of a split communicator, stay inside the parent's
//!    gate, so that a close of the parent waits for them.

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

/// Time that a destructor waits for operations, and that a close waits for threads to leave calls.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Time that a close waits for threads inside before it aborts: enough for a call that only
/// returns a fact, which must not cut operations short.
const BRIEF: Duration = Duration::from_millis(100);

/// Lock a mutex. No code of this crate panics with a lock held, so poisoning does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const SHUT: usize = 1 << (usize::BITS - 1);

/// A counter of threads inside, which can be shut.
#[derive(Default)]
struct Gate {
    /// Number of threads inside, plus SHUT. The Acquire of an entry and of a close pairs with
    /// the Release of threads that leave.
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

    /// Shut the gate; return false if it was already shut.
    fn shut(&self) -> bool {
        self.state.fetch_or(SHUT, Ordering::SeqCst) & SHUT == 0
    }

    fn is_shut(&self) -> bool {
        self.state.load(Ordering::SeqCst) & SHUT != 0
    }

    fn open(&self) {
        self.state.fetch_and(!SHUT, Ordering::SeqCst);
    }

    /// Wait until no thread is inside; return false if a thread is still inside at `until`.
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

/// A communicator of C, with the state that makes its use safe.
pub(crate) struct Core {
    comm: *mut sys::cohort_comm,
    device: c_int,
    gate: Gate,
    /// The right to submit (invariant B).
    turn: Mutex<()>,
    /// Result of the close; `None` before. `ended` is signaled when it changes, and when a gate
    /// opens again.
    end: Mutex<Option<Status>>,
    ended: Condvar,
    /// Memory to free later (invariant B). Its length is also readable without the lock.
    unfreed: Mutex<Vec<AtomicPtr<c_void>>>,
    unfreed_count: AtomicUsize,
    /// Whether a `Comm` exists that is not lent to a worker.
    pub(crate) is_out: AtomicBool,
}

// SAFETY: the pointer is only passed to C, whose functions define which threads may call; those
// that submit return BUSY to a second thread.
unsafe impl Send for Core {}
// SAFETY: as for `Send` above.
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

    /// Free memory that could not be freed earlier, and keep memory that still cannot be freed. The
    /// caller must have the turn, or be closing.
    pub(crate) fn free_unfreed(&self) {
        if self.unfreed_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let memory = mem::take(&mut *lock(&self.unfreed));
        self.unfreed_count.fetch_sub(memory.len(), Ordering::SeqCst);
        for each in memory {
            let memory = each.into_inner();
            // SAFETY: an allocation of this communicator that was not freed and that no operation
            // uses.
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

    /// Shut the gate; return false if threads are inside even after an abort.
    fn shut(&self, abort: &dyn Fn()) -> bool {
        self.gate.shut();
        self.gate.is_empty_by(Instant::now() + BRIEF) || {
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
    /// Wait for the turn, and keep it until this is dropped.
    pub(crate) fn in_turn(mut self) -> Inside<'a> {
        self.turn = Some(lock(&self.core.turn));
        self
    }

    /// Take the turn; return `None` if another thread has it.
    pub(crate) fn try_turn(mut self) -> Option<Inside<'a>> {
        self.turn = match self.core.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self)
    }

    /// Return the communicator, which is valid as long as this object.
    pub(crate) fn comm(&self) -> *mut sys::cohort_comm {
        self.core.comm
    }

    /// Convert the result of `call` on the communicator, which has just returned `rc`.
    pub(crate) fn check(&self, call: &'static str, rc: c_int) -> Result<c_int> {
        if rc >= 0 {
            Ok(rc)
        } else {
            Err(self.error(call, rc))
        }
    }

    /// Return the error of `call`, which has just returned `rc`.
    pub(crate) fn error(&self, call: &'static str, rc: c_int) -> Error {
        let error = Error::of(rc, call);
        error.with_cause(self.cause())
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        // SAFETY: the communicator is valid, and `cause` points to room for one.
        Cause::ask(|cause| unsafe { sys::cohort_comm_cause(self.core.comm, cause) })
    }

    /// Call `cohort_comm_fail()`, which any thread may do.
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

/// Convert a text to a C string; NULs become spaces.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

enum Kind {
    Group(*mut sys::cohort_group),
    /// A communicator from a join or a split, which is the only core.
    Comm,
}

/// A group or a single communicator, which is closed as a whole.
pub(crate) struct Shared {
    kind: Kind,
    platform: Platform,
    /// Gate for calls on the group by observers; calls on cores use the cores' gates.
    gate: Gate,
    parent: Option<Link>,
    cores: Mutex<Vec<Arc<Core>>>,
    children: Mutex<Vec<Weak<Shared>>>,
    callbacks: AtomicPtr<Callbacks>,
    /// Whether the close of a split left a thread behind that may still call the callbacks.
    keeps_callbacks: AtomicBool,
    is_closed: AtomicBool,
}

// SAFETY: as for `Core`; calls on a group that only one thread at a time may make are made by
// methods with `&mut Group`.
unsafe impl Send for Shared {}
// SAFETY: as for `Send` above.
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

    /// Return the group; NULL after a close, or if this is not a group.
    pub(crate) fn group(&self) -> *mut sys::cohort_group {
        match self.kind {
            Kind::Group(group) if !self.is_closed.load(Ordering::SeqCst) => group,
            _ => ptr::null_mut(),
        }
    }

    /// Call `ask` with the group, on any thread; return `None` after a close.
    pub(crate) fn observe<R>(&self, ask: impl FnOnce(*mut sys::cohort_group) -> R) -> Option<R> {
        let answer = self.gate.enter().then(|| ask(self.group()));
        if answer.is_some() {
            self.gate.leave();
        }
        answer
    }

    /// Convert the result of `call` on the group, which has just returned `rc`.
    pub(crate) fn check(&self, call: &'static str, rc: c_int) -> Result<c_int> {
        if rc >= 0 {
            return Ok(rc);
        }
        Err(Error::of(rc, call).with_cause(self.cause()))
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        // SAFETY: an open group, or NULL, which C refuses.
        Cause::ask(|cause| unsafe { sys::cohort_group_cause(self.group(), cause) })
    }

    /// Return the core of this communicator, which lives as long as the group.
    pub(crate) fn core(&self, comm: *mut sys::cohort_comm) -> Arc<Core> {
        let mut cores = lock(&self.cores);
        if let Some(core) = cores.iter().find(|core| core.comm == comm) {
            return core.clone();
        }
        // SAFETY: the communicator belongs to the open group, or to the abandoned worker that
        // calls this.
        let core = Arc::new(unsafe { Core::new(comm) });
        if self.is_closed.load(Ordering::SeqCst) {
            core.gate.shut();
        }
        cores.push(core.clone());
        core
    }

    /// Return whether the program has a `Comm` of any rank.
    pub(crate) fn is_out(&self) -> bool {
        lock(&self.cores).iter().any(|core| core.is_out.load(Ordering::SeqCst))
    }

    /// Record a respawn, after which existing `Comm`s belong to the previous generation.
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
        // A split communicator calls the callbacks of its parent.
        if let (Some(parent), true) = (&self.parent, status == sys::COHORT_WEDGED) {
            parent.shared.keep_callbacks();
        }
        let callbacks = self.callbacks.swap(ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: not freed yet, because only this call has swapped it out.
        if callbacks.is_null() || !unsafe { (*callbacks).release() } {
            return;
        }
        let is_closed = status == sys::COHORT_OK || status == sys::COHORT_ABORTED;
        if is_closed && !self.keeps_callbacks.load(Ordering::SeqCst) {
            // SAFETY: from Box::into_raw(). The group is closed. No thread of any generation was
            // left behind, which would be WEDGED, so nothing has the pointer.
            drop(unsafe { Box::from_raw(callbacks) });
        }
    }

    /// Shut all gates, including those of communicators that were split from this one; return false
    /// if a thread is still inside a gate. Puts children that were shut into `held`, which the
    /// caller must not drop before this one is open again or closed, because a child's close would
    /// wait for that.
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
        // No child is missing: a split stays inside until its child is in this list.
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

    /// Enter the parent's gate, if there is a parent, so that its close waits for this thread.
    /// Returns `None` if the parent, and this child with it, was closed.
    fn enter_parent(&self) -> Option<Option<Inside<'_>>> {
        let parent = match &self.parent {
            Some(parent) => parent,
            None => return Some(None),
        };
        loop {
            match parent.enter("") {
                Ok(inside) => return Some(Some(inside)),
                Err(_) if parent.end(Duration::MAX).is_some() => return None,
                Err(_) => {} // the parent is open again
            }
        }
    }

    /// Close even if other handles exist; their later calls return STALE.
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
                // SAFETY: a communicator that stays open until the end of this function.
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
            // SAFETY: an open group. Because of the gates, no thread is inside a call, except
            // abandoned workers after a cause, which C allows.
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

    /// Close the only core. If its tickets are not done, set a cause, which completes them, and
    /// close again.
    fn close_comm(&self) -> c_int {
        let comm = match lock(&self.cores).first() {
            Some(core) => core.comm,
            None => return sys::COHORT_OK,
        };
        // SAFETY: an open communicator from a join or a split: each close goes through this
        // function, once. No other thread is inside it, because the gate is shut.
        let mut rc = unsafe { sys::cohort_comm_close(comm) };
        if rc == sys::COHORT_TIMED_OUT {
            let text = c_text("not done at the close deadline");
            // SAFETY: it is still open, because the close has timed out.
            rc = unsafe {
                sys::cohort_comm_fail(comm, sys::COHORT_TIMED_OUT, text.as_ptr());
                sys::cohort_comm_close(comm)
            };
        }
        rc
    }

    /// Free the memory of ranks that were closed and therefore cannot free it themselves.
    fn free_for_the_closed(&self, group: *mut sys::cohort_group) {
        // SAFETY: an open group.
        let size = unsafe { sys::cohort_group_size(group) };
        let mut row = vec![ptr::null_mut(); usize::try_from(size).unwrap_or(0)];
        for core in lock(&self.cores).iter() {
            for memory in mem::take(&mut *lock(&core.unfreed)) {
                if let Some(first) = row.first_mut() {
                    *first = memory.into_inner();
                }
                // SAFETY: one pointer per rank, one of which is memory of this group that no
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

/// A reference to a core and to the `Shared` that keeps it open.
#[derive(Clone)]
pub struct Link {
    core: Arc<Core>,
    shared: Arc<Shared>,
}

impl Link {
    pub(crate) fn new(core: Arc<Core>, shared: Arc<Shared>) -> Link {
        Link { core, shared }
    }

    /// Create the link of a communicator that has joined.
    pub(crate) fn joined(comm: *mut sys::cohort_comm, platform: Platform) -> Link {
        // C calls the callbacks of the first rank to join, which are never freed.
        let shared = Arc::new(Shared::new(Kind::Comm, platform, None, ptr::null_mut()));
        Link::new(shared.core(comm), shared)
    }

    /// Create the link of a communicator that was split from this one.
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

    /// Return the platform and device of the communicator's memory.
    pub(crate) fn location(&self) -> (Platform, c_int) {
        (self.platform(), self.core.device)
    }

    pub(crate) fn is_same(&self, other: &Link) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// Enter the gate for `call`; return STALE after a close.
    pub(crate) fn enter(&self, call: &'static str) -> Result<Inside<'_>> {
        if self.core.gate.enter() {
            return Ok(Inside { core: &self.core, is_counted: true, turn: None });
        }
        let text = "the communicator's group was closed";
        Err(Error::new(Status::STALE, call, text))
    }

    /// Enter without the gate, for a worker's calls on its own `&Comm` (invariant A).
    ///
    /// # Safety
    ///
    /// The worker that this communicator was lent to must be running on this thread.
    pub(crate) unsafe fn enter_as_worker(&self) -> Inside<'_> {
        Inside { core: &self.core, is_counted: false, turn: None }
    }

    /// Wait up to `limit` for the close that shut the gate, and return its status; operations may
    /// use buffers until then. Returns `None` if the status is unknown, or the gate is open again.
    pub(crate) fn end(&self, limit: Duration) -> Option<Status> {
        let (core, begin) = (&self.core, Instant::now());
        let mut end = lock(&core.end);
        loop {
            let left = limit.saturating_sub(begin.elapsed());
            if end.is_some() || left.is_zero() || !core.gate.is_shut() {
                return *end;
            }
            // Bounded, because the clock cannot add a very long limit; the loop waits again.
            let left = left.min(PATIENCE);
            end = core.ended.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Free memory that no operation uses.
    pub(crate) fn free(&self, memory: *mut c_void) {
        let inside = match self.enter("cohort_free") {
            Ok(inside) => inside,
            Err(_) => return, // the memory was freed with the group, or stays allocated
        };
        let rc = match inside.try_turn() {
            // SAFETY: an allocation of this communicator; no operation uses it, because a buffer
            // in use is not dropped.
            Some(inside) => unsafe { sys::cohort_free(inside.comm(), memory) },
            None => sys::COHORT_BUSY,
        };
        if rc != sys::COHORT_OK && rc != sys::COHORT_WEDGED {
            self.core.keep_unfreed(memory);
        }
    }

    /// Call `cohort_comm_close()` for the owner, before the other handles are dropped.
    pub(crate) fn close(&self) -> Result<()> {
        match self.shared.kind {
            Kind::Comm => self.close_alone(),
            Kind::Group(_) => {
                let call = "cohort_comm_close";
                let inside = self.enter(call)?.in_turn();
                self.core.free_unfreed();
                // SAFETY: valid; its tickets may still be queried after the close.
                let rc = unsafe { sys::cohort_comm_close(inside.comm()) };
                match inside.check(call, rc)? {
                    sys::COHORT_TIMED_OUT => Err(inside.error(call, rc)),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Close a communicator that may be the process's last rank of its kind, after which C allows
    /// no call.
    fn close_alone(&self) -> Result<()> {
        let (call, core) = ("cohort_comm_close", &self.core);
        // One reference is the caller's link, one is in `Shared`.
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
        // SAFETY: no thread is inside, and this is its only close, unless C returns that it is
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
