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

/// A setting that lasts until this object is dropped, from [`Comm::bind`],
/// [`Comm::push_deadlines`] or [`Comm::pause`]
///
/// Drop the scope on the thread that created it. If a panic drops the scope of a bound
/// communicator, the rank fails first. A scope that is forgotten lasts until the communicator is
/// closed.
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

    /// Allow only this thread to submit; its exit ends the group: `cohort_comm_bind()`
    ///
    /// Workers of [`Group::run`](crate::Group::run) are bound already; for them the scope has no
    /// effect.
    ///
    /// # Errors
    ///
    /// [`Status::STATE`](crate::Status::STATE) if the communicator was closed;
    /// [`Status::STALE`](crate::Status::STALE).
    pub fn bind(&self) -> Result<Scope<'_>> {
        let (mut scope, rc) = self.scope(
            "cohort_comm_bind",
            // SAFETY: valid while this thread is inside its gate.
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

    /// Use other `join` and `exec` deadlines for this rank's calls: `cohort_deadline_push()`
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`](crate::Status::INVALID) if another field is set;
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

    /// Suspend deadlines while this rank is busy for a good reason: `cohort_pause()`.
    ///
    /// # Errors
    ///
    /// [`Status::STATE`](crate::Status::STATE) if the communicator was closed.
    pub fn pause(&self) -> Result<Scope<'_>> {
        // SAFETY: the communicator is valid while this thread is inside its gate.
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
                inside.fail(sys::COHORT_WORKER, "a panic dropped its bound scope");
            }
            let inside = inside.in_turn();
            // SAFETY: the communicator is valid while this thread is inside its gate.
            unsafe { (self.end)(inside.comm()) };
        }
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope of {:?}", self.comm)
    }
}

/// A quiet section, from [`quiet`]: prevents this process from launching collectives
#[must_use = "it ends when it is dropped"]
#[derive(Debug)]
pub struct Quiet {
    /// Makes the type stay on its thread, which must end the section.
    not_send: PhantomData<*const ()>,
}

/// Begin a quiet section, for the program's own GPU memory operations: `cohort_quiet_begin()`
///
/// # Errors
///
/// [`Status::FORKED`](crate::Status::FORKED).
pub fn quiet() -> Result<Quiet> {
    // SAFETY: any thread may call it.
    let rc = unsafe { sys::cohort_quiet_begin() };
    if rc < 0 {
        return Err(Error::of(rc, "cohort_quiet_begin"));
    }
    Ok(Quiet { not_send: PhantomData })
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: this thread began the section.
        unsafe { sys::cohort_quiet_end() };
    }
}
