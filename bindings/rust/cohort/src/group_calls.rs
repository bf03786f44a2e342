// SPDX-License-Identifier: Apache-2.0

//! Calls for all ranks of a group from one thread
//!
//! Buffers and tickets borrow the group, so that none of them exists during a split, a run, a
//! respawn or a close, which need `&mut Group` or the group itself.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, size_of, ManuallyDrop};
use std::os::raw::c_int;
use std::ptr;
use std::time::Duration;

use cohort_sys as sys;

use crate::buffer::{is_wedged, want};
use crate::comm::{number, Direction};
use crate::element::{sealed::Reduction, Element, Op};
use crate::error::{Error, Failed, Result, Status};
use crate::group::Group;
use crate::options::nanoseconds;
use crate::shared::{lock, PATIENCE};
use crate::ticket::{error_if_in_use, is_free};

/// Elements on the device of each rank, from [`Group::alloc`]
///
/// Group-level calls take it, and their [`GroupTicket`] returns it. Dropping it frees the memory by
/// `cohort_group_free()`, which may block as `cudaFree()` may.
///
/// The group cannot be split, run, respawned or closed while it exists:
///
/// ```compile_fail,E0502
/// use cohort::{Group, Options};
///
/// let mut group = Group::open(Options::new())?;
/// let data = group.alloc::<f32>(3)?;
/// group.split()?;
/// drop(data);
/// # Ok::<(), cohort::Error>(())
/// ```
pub struct GroupBuffer<'g, T: Element> {
    group: &'g Group,
    /// One pointer per rank.
    memory: Vec<*mut c_void>,
    len: usize,
    element: PhantomData<T>,
}

// SAFETY: the pointers are to device memory, which only C's functions access; any thread may free
// it, because all group-level calls take the group's turn.
unsafe impl<T: Element> Send for GroupBuffer<'_, T> {}

impl<T: Element> GroupBuffer<'_, T> {
    /// Return the number of elements on each rank.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Return whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Return the address on the device of `rank`, for kernels; `None` if there is no such rank.
    pub fn as_ptr(&self, rank: usize) -> Option<*mut T> {
        self.memory.get(rank).map(|memory| memory.cast())
    }
}

impl<T: Element> Drop for GroupBuffer<'_, T> {
    fn drop(&mut self) {
        let turn = lock(&self.group.turn);
        let (group, memory) = (self.group.shared.group(), self.memory.as_mut_ptr());
        // SAFETY: one pointer per rank, to memory that no operation uses, or NULL.
        let rc = unsafe { sys::cohort_group_free(group, memory) };
        drop(turn);
        if rc < 0 {
            crate::told(&Error::of(rc, "cohort_group_free"));
        }
    }
}

impl<T: Element> fmt::Debug for GroupBuffer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupBuffer of {} {} per rank", self.len, T::DTYPE.name())
    }
}

/// A group-level operation in flight, which owns the buffers that it uses
///
/// Waiting returns the buffers. Dropping a ticket waits at most 10 s until the operation is done.
/// Buffers that are still in use afterwards are never freed, and
/// [`on_drop_error`](crate::on_drop_error) is called. [`mem::forget`] of a ticket leaks its
/// buffers.
#[must_use = "a ticket that is dropped waits for its operation; the buffers are in it"]
pub struct GroupTicket<'g, B> {
    group: &'g Group,
    call: &'static str,
    number: u64,
    held: ManuallyDrop<B>,
}

/// The result of a group-level call that takes `B`: its ticket, or its error with `B`.
pub type GroupQueued<'g, B> = std::result::Result<GroupTicket<'g, B>, Failed<B>>;

impl<B> GroupTicket<'_, B> {
    fn ask(&self, limit: Duration) -> Result<Status> {
        let (shared, limit) = (&self.group.shared, nanoseconds(limit));
        // SAFETY: the group is open, because this borrows it; any thread may wait.
        let rc = unsafe { sys::cohort_group_wait(shared.group(), self.number, limit) };
        shared.check(self.call, rc).map(Status)
    }

    /// Wait until the operation is done on every rank
    ///
    /// # Errors
    ///
    /// The cause's error; then the outputs are undefined. [`Failed::into_parts`] returns the
    /// buffers, except after [`Status::WEDGED`].
    pub fn wait(self) -> std::result::Result<B, Failed<B>> {
        let answer = self.ask(Duration::MAX);
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used nor dropped again.
        let held = unsafe { ManuallyDrop::take(&mut this.held) };
        match answer {
            Ok(_) => Ok(held),
            Err(error) if is_free(error.status().code()) => Err(Failed::new(error, Some(held))),
            Err(error) => {
                mem::forget(held);
                Err(Failed::new(error, None))
            }
        }
    }

    /// Wait up to `limit`, and return whether the operation is done; a limit of zero only tests.
    ///
    /// # Errors
    ///
    /// The errors of [`GroupTicket::wait`].
    pub fn wait_for(&self, limit: Duration) -> Result<bool> {
        Ok(self.ask(limit)? == Status::OK)
    }
}

impl<B> Drop for GroupTicket<'_, B> {
    fn drop(&mut self) {
        match error_if_in_use(self.ask(PATIENCE), self.call) {
            // SAFETY: not taken before, because taking it forgets the ticket.
            None => unsafe { ManuallyDrop::drop(&mut self.held) },
            Some(error) => crate::told(&error),
        }
    }
}

impl<B> fmt::Debug for GroupTicket<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupTicket {} of {}", self.number, self.call)
    }
}

/// Calls for all ranks from one thread
///
/// ```
/// use cohort::{Group, Op, Options};
///
/// let group = Group::open(Options::new())?;
/// let own = (0..group.size()).map(|rank| vec![rank as f32; 3]).collect();
/// let (data, rows) = group.upload(group.alloc(3)?, own)?.wait()?;
/// let data = group.all_reduce(data, Op::Max)?.wait()?;
/// let (_, rows) = group.download(data, rows)?.wait()?;
/// assert_eq!(rows[0], [(group.size() - 1) as f32; 3]);
/// group.close()?;
/// # Ok::<(), cohort::Error>(())
/// ```
///
/// The calls are allowed until the group is split or run. Threads that call at the same time take
/// turns. Each operation is queued on the ranks' own streams.
///
/// # Errors
///
/// Each returns [`INVALID`] for buffers and roots that do not fit, [`STATE`] if the group was split
/// or run, [`UNSUPPORTED`] if `CUDA_LAUNCH_BLOCKING` is set, and the cause if the group has one.
/// On these errors nothing was queued, and the error returns the buffers. Other errors end the
/// group; they also return the buffers, except [`WEDGED`]. The ticket reports later failures.
///
/// [`INVALID`]: crate::Status::INVALID
/// [`STATE`]: crate::Status::STATE
/// [`UNSUPPORTED`]: crate::Status::UNSUPPORTED
/// [`WEDGED`]: crate::Status::WEDGED
impl Group {
    /// Allocate uninitialized memory for `len` elements on the device of each rank:
    /// `cohort_group_alloc()`
    ///
    /// # Errors
    ///
    /// [`Status::NO_MEMORY`]; [`Status::CUDA`]; [`Status::INVALID`] if `len` is too large.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<GroupBuffer<'_, T>> {
        let call = "cohort_group_alloc";
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            let text = format!("{} elements are too many bytes for memory", len);
            Error::new(Status::INVALID, call, text)
        })?;
        let mut memory = vec![ptr::null_mut(); self.size()];
        if bytes > 0 {
            let _turn = lock(&self.turn);
            // SAFETY: room for one pointer per rank.
            let rc =
                unsafe { sys::cohort_group_alloc(self.shared.group(), bytes, memory.as_mut_ptr()) };
            self.shared.check(call, rc)?;
        }
        Ok(GroupBuffer { group: self, memory, len, element: PhantomData })
    }

    fn queue<B>(
        &self,
        call: &'static str,
        held: B,
        make: impl FnOnce(*mut sys::cohort_group, &B, *mut u64) -> Result<c_int>,
    ) -> GroupQueued<'_, B> {
        let mut number = 0;
        let turn = lock(&self.turn);
        let queued = make(self.shared.group(), &held, &mut number)
            .and_then(|rc| self.shared.check(call, rc));
        drop(turn);
        match queued {
            Ok(_) => Ok(GroupTicket { group: self, call, number, held: ManuallyDrop::new(held) }),
            Err(error) if is_wedged(&error) => {
                mem::forget(held);
                Err(Failed::new(error, None))
            }
            Err(error) => Err(Failed::new(error, Some(held))),
        }
    }

    /// Return the addresses of a buffer, or an error of `call` if it belongs to another group.
    fn pointers<'b, T: Element>(
        &self,
        call: &'static str,
        data: &'b GroupBuffer<'_, T>,
    ) -> Result<&'b [*mut c_void]> {
        if ptr::eq(self, data.group) {
            return Ok(&data.memory);
        }
        Err(Error::new(Status::INVALID, call, "the buffer belongs to another group"))
    }

    /// Combine `data` across ranks, with the result on every rank: `cohort_group_all_reduce()`.
    pub fn all_reduce<'g, T: Element>(
        &'g self,
        data: GroupBuffer<'g, T>,
        op: Op,
    ) -> GroupQueued<'g, GroupBuffer<'g, T>> {
        let call = "cohort_group_all_reduce";
        self.queue(call, data, |group, data, number| {
            let (memory, none) = (self.pointers(call, data)?.as_ptr(), ptr::null());
            let (dtype, op) = (T::DTYPE.code(), op.code());
            // SAFETY: one pointer per rank to `len` elements, which the ticket keeps alive.
            Ok(unsafe {
                let from = memory.cast();
                sys::cohort_group_all_reduce(group, from, memory, data.len, dtype, op, none, number)
            })
        })
    }

    /// Copy `data` from rank `root` to every rank: `cohort_group_broadcast()`.
    pub fn broadcast<'g, T: Element>(
        &'g self,
        data: GroupBuffer<'g, T>,
        root: usize,
    ) -> GroupQueued<'g, GroupBuffer<'g, T>> {
        let call = "cohort_group_broadcast";
        self.queue(call, data, |group, data, number| {
            let (memory, none) = (self.pointers(call, data)?.as_ptr(), ptr::null());
            let (dtype, root) = (T::DTYPE.code(), self::number(call, "root", root)?);
            // SAFETY: one pointer per rank to `len` elements, which the ticket keeps alive.
            Ok(unsafe {
                let from = memory.cast();
                sys::cohort_group_broadcast(
                    group, from, memory, data.len, dtype, root, none, number,
                )
            })
        })
    }

    /// Queue a copy of `rows[r]` into the memory of each rank r: `cohort_group_copy()`
    ///
    /// Because the memory of a `Vec` is pageable, the call may block until each stream reaches the
    /// copy, as `cudaMemcpyAsync()` does.
    pub fn upload<'g, T: Element>(
        &'g self,
        data: GroupBuffer<'g, T>,
        rows: Vec<Vec<T>>,
    ) -> GroupQueued<'g, (GroupBuffer<'g, T>, Vec<Vec<T>>)> {
        self.copy(data, rows, Direction::Up)
    }

    /// Queue a copy of the memory of each rank r into `rows[r]`, overwriting it
    ///
    /// Blocks as [`Group::upload`] does.
    pub fn download<'g, T: Element>(
        &'g self,
        data: GroupBuffer<'g, T>,
        rows: Vec<Vec<T>>,
    ) -> GroupQueued<'g, (GroupBuffer<'g, T>, Vec<Vec<T>>)> {
        self.copy(data, rows, Direction::Down)
    }

    fn copy<'g, T: Element>(
        &'g self,
        data: GroupBuffer<'g, T>,
        mut rows: Vec<Vec<T>>,
        direction: Direction,
    ) -> GroupQueued<'g, (GroupBuffer<'g, T>, Vec<Vec<T>>)> {
        let call = "cohort_group_copy";
        let host: Vec<*mut c_void> = rows.iter_mut().map(|row| row.as_mut_ptr().cast()).collect();
        self.queue(call, (data, rows), |group, (data, rows), number| {
            let device = self.pointers(call, data)?;
            if rows.len() != device.len() {
                let text = format!("there are {} rows for {} ranks", rows.len(), device.len());
                return Err(Error::new(Status::INVALID, call, text));
            }
            for (rank, row) in rows.iter().enumerate() {
                want(call, &format!("row {}", rank), row.len(), data.len)?;
            }
            let (to, from) = match direction {
                Direction::Up => (device, &*host),
                Direction::Down => (&*host, device),
            };
            let (bytes, none) = (data.len * size_of::<T>(), ptr::null());
            let (to, from) = (to.as_ptr(), from.as_ptr().cast());
            // SAFETY: one pointer per rank to `bytes` bytes, which the ticket keeps alive.
            Ok(unsafe { sys::cohort_group_copy(group, to, from, bytes, none, number) })
        })
    }
}
