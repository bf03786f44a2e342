// SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::thread;

use cohort_sys as sys;

use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::options::Deadlines;

type End = unsafe extern "C" fn(*mut sys::cohort_comm) -> c_int;

/// What holds while it lives: from [`Comm::bind`], [`Comm::push_deadlines`] or [`Comm::pause`]
///
/// Dropping it ends that, from the thread that it was made on. If a panic drops a bound one,
/// the rank gives up first. Forgotten, it holds until the communicator is closed.
#[must_use = "it ends when it is dropped"]
pub struct Scope<'c> {
    comm: &'c Comm,
    end: End,
    fails: bool,
}

impl Comm {
    fn scope(
        &self,
        call: &'static str,
        begin: impl FnOnce(*mut sys::cohort_comm) -> c_int,
        end: End,
    ) -> Result<(Scope<'_>, c_int)> {
        let inside = self.turn(call)?;
        let rc = begin(inside.comm());
        inside.check(call, rc)?;
        Ok((Scope { comm: self, end, fails: false }, rc))
    }

    /// Only this thread may submit, and its end ends the group: `cohort_comm_bind()`
    ///
    /// Workers of [`Group::run`](crate::Group::run) are bound already; then the scope changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`Status::STATE`](crate::Status::STATE) if it was closed;
    /// [`Status::STALE`](crate::Status::STALE).
    pub fn bind(&self) -> Result<Scope<'_>> {
        let (mut scope, rc) = self.scope(
            "cohort_comm_bind",
            // SAFETY: a communicator that is valid while the gate is passed; likewise below.
            |comm| unsafe { sys::cohort_comm_bind(comm) },
            nothing,
        )?;
        match rc {
            sys::COHORT_ALREADY => scope.end = nothing,
            _ => {
                scope.end = sys::cohort_comm_unbind;
                scope.fails = !thread::panicking();
            }
        }
        Ok(scope)
    }

    /// Other deadlines for this rank's calls: `cohort_deadline_push()`; `join` and `exec` count
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`](crate::Status::INVALID) for another field;
    /// [`Status::STATE`](crate::Status::STATE) for more than 16 scopes.
    pub fn push_deadlines(&self, deadlines: Deadlines) -> Result<Scope<'_>> {
        let deadlines = deadlines.to_c();
        self.scope(
            "cohort_deadline_push",
            // SAFETY: the deadlines are borrowed for the call.
            |comm| unsafe { sys::cohort_deadline_push(comm, &deadlines) },
            sys::cohort_deadline_pop,
        )
        .map(|scope| scope.0)
    }

    /// This rank is away for a while, with good reason: `cohort_pause()`. No deadline runs.
    ///
    /// # Errors
    ///
    /// [`Status::STATE`](crate::Status::STATE) if it was closed.
    pub fn pause(&self) -> Result<Scope<'_>> {
        // SAFETY: see above.
        let pause = |comm| unsafe { sys::cohort_pause(comm) };
        self.scope("cohort_pause", pause, sys::cohort_resume).map(|scope| scope.0)
    }
}

unsafe extern "C" fn nothing(_: *mut sys::cohort_comm) -> c_int {
    sys::COHORT_OK
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        if let Ok(inside) = self.comm.enter("") {
            if self.fails && thread::panicking() {
                inside.fail(sys::COHORT_WORKER, "a panic has left its bound scope");
            }
            let inside = inside.in_turn();
            // SAFETY: a communicator that is valid while the gate is passed.
            unsafe { (self.end)(inside.comm()) };
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope of {:?}", self.comm)
    }
}

/// Keeps collectives of this process from being launched while it lives: from [`quiet`]
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub struct Quiet {
    /// Each thread ends what it has begun.
    not_send: PhantomData<*const ()>,
}

/// Begin a quiet section, for memory operations of the program's own: `cohort_quiet_begin()`
///
/// # Errors
///
/// [`Status::FORKED`](crate::Status::FORKED).
pub fn quiet() -> Result<Quiet> {
    // SAFETY: any thread may.
    let rc = unsafe { sys::cohort_quiet_begin() };
    if rc < 0 {
        return Err(Error::of(rc, "cohort_quiet_begin"));
    }
    Ok(Quiet { not_send: PhantomData })
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: this thread has begun it.
        unsafe { sys::cohort_quiet_end() };
    }
}
