// SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::ptr;
use std::sync::Arc;

use cohort_sys as sys;

use crate::error::{Error, Result};
use crate::shared::c_text;

struct Raw(*mut sys::cohort_abort);

// SAFETY: C's functions on a handle may be called by any thread, but for the one that gives it
// back, which is called once nobody has it.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: this is the last use of the handle; NULL is allowed.
        unsafe { sys::cohort_abort_put(self.0) }
    }
}

/// A right to end all ranks of a generation, from any thread, also while the group is being
/// opened, and after it is closed
///
/// It does not keep the group open. Take a new one after
/// [`Group::respawn`](crate::Group::respawn).
#[derive(Clone)]
pub struct AbortHandle(Arc<Raw>);

impl AbortHandle {
    /// A handle for a group that is still to be opened, or for ranks that join: see
    /// [`Options::abort`](crate::Options::abort)
    ///
    /// # Errors
    ///
    /// [`Status::NO_MEMORY`](crate::Status::NO_MEMORY), also in the child of a fork.
    pub fn new() -> Result<AbortHandle> {
        // SAFETY: any thread may call it.
        let handle = unsafe { sys::cohort_abort_create() };
        match handle.is_null() {
            true => Err(Error::of(sys::COHORT_NO_MEMORY, "cohort_abort_create")),
            false => Ok(AbortHandle(Arc::new(Raw(handle)))),
        }
    }

    /// # Safety
    ///
    /// `comm` is valid, or NULL.
    pub(crate) unsafe fn of(comm: *mut sys::cohort_comm) -> AbortHandle {
        // SAFETY: the caller's promise; without a communicator the handle is NULL, too.
        let handle = match comm.is_null() {
            true => ptr::null_mut(),
            false => unsafe { sys::cohort_comm_abort_handle(comm) },
        };
        AbortHandle(Arc::new(Raw(handle)))
    }

    /// End every operation and communicator: `cohort_abort_fire()`; true if this call did
    ///
    /// `reason` is for people, 200 bytes of it. Does not block. It allocates, so it is not for
    /// signal handlers: [`AbortHandle::as_ptr`] and the function of C are.
    pub fn fire(&self, reason: &str) -> bool {
        let reason = c_text(reason);
        // SAFETY: a handle that this keeps, or NULL; the reason is copied.
        unsafe { sys::cohort_abort_fire(self.0 .0, reason.as_ptr()) == sys::COHORT_OK }
    }

    /// Whether the generation has a cause, whoever set it.
    pub fn fired(&self) -> bool {
        // SAFETY: as in `fire()`.
        unsafe { sys::cohort_abort_fired(self.0 .0) == 1 }
    }

    /// The handle as C has it, valid as long as this one or a clone; NULL if it was taken after
    /// the group was closed.
    pub fn as_ptr(&self) -> *mut sys::cohort_abort {
        self.0 .0
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("fired", &self.fired()).finish()
    }
}
