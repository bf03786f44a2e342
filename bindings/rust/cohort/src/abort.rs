// SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::ptr;
use std::sync::Arc;

use cohort_sys as sys;

use crate::error::{Error, Result};
use crate::shared::c_text;

struct Raw(*mut sys::cohort_abort);

// SAFETY: any thread may call C's functions on a handle. The function that releases the handle must
// be the last call; this crate makes that call once no other thread has the handle.
unsafe impl Send for Raw {}
// SAFETY: as for `Send` above.
unsafe impl Sync for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: this is the last use of the handle; NULL is allowed.
        unsafe { sys::cohort_abort_put(self.0) }
    }
}

/// A handle that can end all ranks of a generation, from any thread, even while the group is
/// being opened or after it is closed
///
/// The handle does not keep the group open. After [`Group::respawn`](crate::Group::respawn),
/// create a new handle.
#[derive(Clone)]
pub struct AbortHandle(Arc<Raw>);

impl AbortHandle {
    /// Create a handle for a group that is not open yet, or for ranks that have not joined: see
    /// [`Options::abort`](crate::Options::abort)
    ///
    /// # Errors
    ///
    /// [`Status::NO_MEMORY`](crate::Status::NO_MEMORY), including in the child of a fork.
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
    /// `comm` is valid or NULL.
    pub(crate) unsafe fn of(comm: *mut sys::cohort_comm) -> AbortHandle {
        // SAFETY: the caller's promise; without a communicator the handle is NULL.
        let handle = match comm.is_null() {
            true => ptr::null_mut(),
            false => unsafe { sys::cohort_comm_abort_handle(comm) },
        };
        AbortHandle(Arc::new(Raw(handle)))
    }

    /// End every operation and communicator (`cohort_abort_fire()`); return true if this call did
    ///
    /// The first 200 bytes of `reason` are kept, for diagnostics only. The call does not block, but
    /// it allocates: signal handlers must use [`AbortHandle::as_ptr`] and the C function instead.
    pub fn fire(&self, reason: &str) -> bool {
        let reason = c_text(reason);
        // SAFETY: a handle that this object owns, or NULL; the reason is copied.
        unsafe { sys::cohort_abort_fire(self.0 .0, reason.as_ptr()) == sys::COHORT_OK }
    }

    /// Return whether the generation has a cause, from this handle or otherwise.
    pub fn fired(&self) -> bool {
        // SAFETY: as in `fire()`.
        unsafe { sys::cohort_abort_fired(self.0 .0) == 1 }
    }

    /// Return the C handle, which is valid as long as this object or a clone; NULL if the object
    /// was created after the close of the group.
    pub fn as_ptr(&self) -> *mut sys::cohort_abort {
        self.0 .0
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("fired", &self.fired()).finish()
    }
}
