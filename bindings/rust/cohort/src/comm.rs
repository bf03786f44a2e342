// SPDX-License-Identifier: Apache-2.0

use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::mem::{size_of, MaybeUninit};
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use cohort_sys as sys;

use crate::abort::AbortHandle;
use crate::buffer::{is_wedged, want, Buffer, Source, Target};
use crate::element::Element;
use crate::error::{Error, Failed, Result, Status};
use crate::options::{nanoseconds, Options, Platform};
use crate::shared::{c_text, Inside, Link};
use crate::ticket::Ticket;
use crate::watch::{Cause, RankReport};

/// What ranks that join have in common: bytes that can be sent to other processes
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; 192]);

impl UniqueId {
    /// `cohort_unique_id()`: a new id, for one communicator
    ///
    /// # Errors
    ///
    /// [`Status::NCCL`], and what [`Group::open`](crate::Group::open) answers about the
    /// platform.
    pub fn new() -> Result<UniqueId> {
        let mut id = sys::cohort_unique_id { bytes: [0; 192] };
        // SAFETY: room for an id.
        let rc = unsafe { sys::cohort_unique_id(&mut id) };
        if rc < 0 {
            return Err(Error::of(rc, "cohort_unique_id"));
        }
        Ok(UniqueId(id.bytes))
    }

    /// An id that another process has made.
    pub fn from_bytes(bytes: [u8; 192]) -> UniqueId {
        UniqueId(bytes)
    }

    /// Its bytes.
    pub fn to_bytes(self) -> [u8; 192] {
        self.0
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UniqueId")
    }
}

/// Counters of a rank, and of its group's generation
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Operations of the rank that were queued.
    pub operations: u64,
    /// Collectives of the rank.
    pub collectives: u64,
    /// Its sends and receives.
    pub transfers: u64,
    /// Bytes of its operations' tensors.
    pub bytes: u64,
    /// Waits for operations that were not done when asked about.
    pub waits: u64,
    /// Records of the flight recorder that newer ones have overwritten.
    pub lost_records: u64,
    /// The generation's operations that took longer than [`Options::slow`] says.
    pub slow: u64,
    /// The generation's warnings of the watchdog.
    pub warnings: u64,
    /// 1 if the generation has a cause, else 0.
    pub aborts: u64,
}

/// A rank's end of its group
///
/// From [`Group::split`](crate::Group::split), [`Group::run`](crate::Group::run), [`Comm::join`]
/// or [`Comm::split`]. It can be sent to another thread, and cannot be shared: one thread at a
/// time may call, which is for the compiler to see to.
///
/// Calls with buffers are asynchronous on the communicator's own stream, in order. Each takes
/// its buffers, and the [`Ticket`] gives them back. Every rank must make the same sequence of
/// collectives.
///
/// ```
/// fn is_send<T: Send>() {}
/// is_send::<cohort::Comm>();
/// ```
///
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<cohort::Comm>();
/// ```
///
/// Dropping a `Comm` leaves the group as it is: other ranks that wait for this one are told
/// when a deadline passes. [`Comm::close`] leaves in peace. If a panic drops it, its rank gives
/// up ([`Comm::fail`]), so that no other rank waits. A communicator that has joined, or was
/// split from another, is closed with the last of its handles, buffers and tickets: that waits
/// up to the close deadline, and then up to the abort deadline.
pub struct Comm {
    pub(crate) link: Link,
    /// Borrowed by a worker of `Group::run()`.
    is_worker: bool,
    pub(crate) has_batch: Cell<bool>,
    /// What drops it then is no news.
    was_panicking: bool,
    is_left: Cell<bool>,
}

impl Comm {
    pub(crate) fn new(link: Link) -> Comm {
        link.core().is_out.store(true, Ordering::SeqCst);
        Comm::of(link, false)
    }

    /// # Safety
    ///
    /// Only the worker that the communicator is given to may have it, and only by reference,
    /// as long as it runs.
    pub(crate) unsafe fn of_worker(link: Link) -> Comm {
        Comm::of(link, true)
    }

    fn of(link: Link, is_worker: bool) -> Comm {
        let was_panicking = thread::panicking();
        Comm {
            link,
            is_worker,
            has_batch: Cell::new(false),
            was_panicking,
            is_left: Cell::new(false),
        }
    }

    /// Enter for `call`, which any thread may make.
    pub(crate) fn enter(&self, call: &'static str) -> Result<Inside<'_>> {
        if self.is_worker {
            // SAFETY: by `of_worker()` only the worker has it, by a reference, which cannot
            // leave its thread, as a `Comm` is not `Sync`.
            return Ok(unsafe { self.link.enter_as_worker() });
        }
        self.link.enter(call)
    }

    /// Enter for `call`, which submits.
    pub(crate) fn turn(&self, call: &'static str) -> Result<Inside<'_>> {
        Ok(self.enter(call)?.in_turn())
    }

    /// Enter for a call that would become part of a batch.
    pub(crate) fn submit(&self, call: &'static str) -> Result<Inside<'_>> {
        if self.has_batch.get() {
            return Err(Error::new(Status::STATE, call, "a batch is open: end it first"));
        }
        self.turn(call)
    }

    fn plain(
        &self,
        call: &'static str,
        make: impl FnOnce(*mut sys::cohort_comm) -> c_int,
    ) -> Result<c_int> {
        let inside = self.turn(call)?;
        let rc = make(inside.comm());
        inside.check(call, rc)
    }

    /// Be one rank of a communicator, a thread or a process per rank: `cohort_comm_join()`
    ///
    /// Every rank joins, each from a thread of its own; blocks until all have, or the init
    /// deadline has passed. Within a process the options of the first rank to join count; their
    /// callbacks are kept as long as the process lives.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] with the argument and its value; [`Status::INIT_TIMEOUT`]; as
    /// [`Group::open`](crate::Group::open). No rank of this process has joined then.
    pub fn join(
        id: &UniqueId,
        ranks: usize,
        rank: usize,
        device: i32,
        options: Options,
    ) -> Result<Comm> {
        let call = "cohort_comm_join";
        let id = sys::cohort_unique_id { bytes: id.0 };
        let (ranks, rank) = (number(call, "ranks", ranks)?, number(call, "rank", rank)?);
        let (comm, _) = options.open(call, |options| {
            let mut comm = ptr::null_mut();
            // SAFETY: the arguments are borrowed for the call.
            let rc = unsafe { sys::cohort_comm_join(&id, ranks, rank, device, options, &mut comm) };
            if rc < 0 {
                return Err(Error::of(rc, call));
            }
            Ok(comm)
        })?;
        // SAFETY: the communicator has just been made.
        let platform = Platform::of(unsafe { sys::cohort_comm_platform(comm) });
        Ok(Comm::new(Link::joined(comm, platform)))
    }

    /// Communicators of some of this one's ranks: `cohort_comm_split()`
    ///
    /// Those that give the same color are together, in the order of `key`; with `None` a rank
    /// is in none. Every rank calls it, in the sequence of calls that all make, from a thread
    /// of its own; blocks until all have, and all before it is done. When this communicator
    /// ends, so does the new one; the reverse does not hold.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] for a color or a key that C does not take; [`Status::STATE`] while a
    /// batch is open; the cause. [`Status::MISMATCH`], [`Status::STALLED`],
    /// [`Status::INIT_TIMEOUT`] and others if it fails, which end this communicator.
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Comm>> {
        let call = "cohort_comm_split";
        let mut child = ptr::null_mut();
        if color.map_or(false, |color| color < 0) {
            let text = format!("color is {}, not 0 or more", color.unwrap_or(0));
            return Err(Error::new(Status::INVALID, call, text));
        }
        // Inside until the child is known to this one's close, in a worker, too.
        let inside = self.link.enter(call)?.in_turn();
        let color = color.unwrap_or(sys::COHORT_NO_COLOR);
        // SAFETY: a valid communicator, and room for another one.
        let rc = unsafe { sys::cohort_comm_split(inside.comm(), color, key, &mut child) };
        inside.check(call, rc)?;
        Ok((!child.is_null()).then(|| Comm::new(self.link.child(child))))
    }

    /// Leave early: `cohort_comm_close()`
    ///
    /// Waits for this rank's tickets, up to the close deadline. Afterwards the communicator
    /// takes no operations. It frees no memory either: that waits for the group's close.
    ///
    /// # Errors
    ///
    /// [`Status::TIMED_OUT`] if a ticket was not answered in time, and nothing has changed;
    /// [`Status::STATE`] if it was closed, or, for one that has joined or was split off, if
    /// there are tickets, buffers or other handles of it; the cause, or [`Status::WEDGED`], if
    /// that is what its tickets answered: closed all the same.
    pub fn close(&self) -> Result<()> {
        let closed = self.link.close();
        let is_open = closed.as_ref().err().map_or(false, |error| {
            let open = [Status::TIMED_OUT, Status::STATE, Status::BUSY, Status::OWNER];
            open.contains(&error.status())
        });
        self.is_left.set(self.is_left.get() || !is_open);
        closed
    }

    fn fact(&self, ask: unsafe extern "C" fn(*const sys::cohort_comm) -> c_int) -> c_int {
        // SAFETY: a communicator that is valid while the gate is passed.
        self.enter("").map_or(-1, |inside| unsafe { ask(inside.comm()) })
    }

    /// This rank, from 0; 0 if the group was closed.
    pub fn rank(&self) -> usize {
        usize::try_from(self.fact(sys::cohort_comm_rank)).unwrap_or(0)
    }

    /// The number of ranks; 0 if the group was closed.
    pub fn size(&self) -> usize {
        usize::try_from(self.fact(sys::cohort_comm_size)).unwrap_or(0)
    }

    /// Its device; -1 if the group was closed.
    pub fn device(&self) -> i32 {
        self.fact(sys::cohort_comm_device)
    }

    /// The group's generation, from 1; 0 if the group was closed.
    pub fn generation(&self) -> u32 {
        u32::try_from(self.fact(sys::cohort_comm_generation)).unwrap_or(0)
    }

    /// The number that its rank had in generation 1.
    pub fn origin(&self) -> usize {
        usize::try_from(self.fact(sys::cohort_comm_origin)).unwrap_or(0)
    }

    /// The number that rank `rank` of this communicator has in the group that it was split
    /// from; `None` if that is not known, or the group was closed.
    pub fn group_rank(&self, rank: usize) -> Option<usize> {
        let rank = c_int::try_from(rank).ok()?;
        let inside = self.enter("").ok()?;
        // SAFETY: a communicator that is valid while the gate is passed.
        usize::try_from(unsafe { sys::cohort_comm_group_rank(inside.comm(), rank) }).ok()
    }

    /// Its own stream, a `cudaStream_t`, valid until the group is closed; NULL after that.
    pub fn stream(&self) -> *mut c_void {
        // SAFETY: as in `fact()`.
        self.enter("")
            .map_or(ptr::null_mut(), |inside| unsafe { sys::cohort_comm_stream(inside.comm()) })
    }

    /// What has ended the group, if anything has.
    pub fn cause(&self) -> Option<Cause> {
        self.enter("cohort_comm_cause").ok()?.cause()
    }

    /// This rank gives up: `cohort_comm_fail()`; true if this call ended the group
    ///
    /// The other ranks are told [`Status::WORKER`], this rank, the code and the text (200 bytes
    /// of it).
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] for a code of 0.
    pub fn fail(&self, code: i32, text: &str) -> Result<bool> {
        let call = "cohort_comm_fail";
        let inside = self.enter(call)?;
        let rc = inside.fail(code, text);
        Ok(inside.check(call, rc)? == sys::COHORT_OK)
    }

    /// A handle that ends all ranks of this generation, from any thread.
    pub fn abort_handle(&self) -> AbortHandle {
        let inside = self.enter("").ok();
        let comm = inside.as_ref().map_or(ptr::null_mut(), Inside::comm);
        // SAFETY: a communicator that is valid while the gate is passed, or NULL.
        unsafe { AbortHandle::of(comm) }
    }

    /// A label for this rank's calls from now on, which verdicts show; 47 bytes of it.
    ///
    /// # Errors
    ///
    /// [`Status::STATE`] if the communicator is closed.
    pub fn tag(&self, text: &str) -> Result<()> {
        let text = c_text(text);
        self.plain("cohort_tag", |comm| {
            // SAFETY: the text is copied.
            unsafe { sys::cohort_tag(comm, text.as_ptr()) }
        })
        .map(drop)
    }

    /// What this rank and the others of its group are doing now.
    ///
    /// # Errors
    ///
    /// [`Status::STALE`] after the group was closed.
    pub fn snapshot(&self) -> Result<Vec<RankReport>> {
        let call = "cohort_comm_snapshot";
        let inside = self.enter(call)?;
        let room = self.fact(sys::cohort_comm_size);
        // SAFETY: room for as many reports.
        RankReport::ask(room, |reports, room, size| unsafe {
            sys::cohort_comm_snapshot(inside.comm(), reports, room, size)
        })
        .map_err(|rc| inside.error(call, rc))
    }

    /// Its counters: `cohort_stats()`.
    ///
    /// # Errors
    ///
    /// [`Status::STALE`] after the group was closed.
    pub fn stats(&self) -> Result<Stats> {
        let call = "cohort_stats";
        let inside = self.enter(call)?;
        // SAFETY: plain data, of which zeros are values.
        let mut stats: sys::cohort_stats = unsafe { MaybeUninit::zeroed().assume_init() };
        stats.size = size_of::<sys::cohort_stats>();
        // SAFETY: the size is set.
        let rc = unsafe { sys::cohort_stats(inside.comm(), &mut stats) };
        inside.check(call, rc)?;
        Ok(Stats {
            operations: stats.operations,
            collectives: stats.collectives,
            transfers: stats.transfers,
            bytes: stats.bytes,
            waits: stats.waits,
            lost_records: stats.lost_records,
            slow: stats.slow,
            warnings: stats.warnings,
            aborts: stats.aborts,
        })
    }

    /// Wait until all that this rank has queued is done, at most for `limit`; false: not done.
    ///
    /// # Errors
    ///
    /// The cause, or [`Status::WEDGED`].
    pub fn synchronize(&self, limit: Duration) -> Result<bool> {
        let call = "cohort_synchronize";
        let inside = self.enter(call)?;
        // SAFETY: a communicator that is valid while the gate is passed.
        let rc = unsafe { sys::cohort_synchronize(inside.comm(), nanoseconds(limit)) };
        Ok(inside.check(call, rc)? == sys::COHORT_OK)
    }

    /// `cohort_after_stream()`: what is queued from now on starts after what `stream` has now
    ///
    /// # Errors
    ///
    /// Those of the function of C.
    ///
    /// # Safety
    ///
    /// `stream` is a `cudaStream_t` of the rank's device, or one of the platform's.
    pub unsafe fn after_stream(&self, stream: *mut c_void) -> Result<()> {
        self.plain("cohort_after_stream", |comm| {
            // SAFETY: the caller's promise.
            unsafe { sys::cohort_after_stream(comm, stream) }
        })
        .map(drop)
    }

    // ---- memory ----------------------------------------------------------

    fn allocate<T: Element>(
        &self,
        call: &'static str,
        len: usize,
        allocate: unsafe extern "C" fn(*mut sys::cohort_comm, usize, *mut *mut c_void) -> c_int,
    ) -> Result<Buffer<T>> {
        let inside = self.turn(call)?;
        let mut memory = ptr::null_mut();
        self.link.core().free_unfreed();
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            let text = format!("{} elements have more bytes than there can be", len);
            Error::new(Status::INVALID, call, text)
        })?;
        if bytes > 0 {
            // SAFETY: room for a pointer.
            let rc = unsafe { allocate(inside.comm(), bytes, &mut memory) };
            inside.check(call, rc)?;
        }
        Ok(Buffer::new(self.link.clone(), memory, len))
    }

    /// Memory for `len` elements on the rank's device, with any contents: `cohort_alloc()`
    ///
    /// # Errors
    ///
    /// [`Status::NO_MEMORY`]; [`Status::CUDA`]; [`Status::INVALID`] for too large a `len`.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.allocate("cohort_alloc", len, sys::cohort_alloc)
    }

    /// Memory of NCCL's own, registered with the communicator: `cohort_alloc_registered()`
    ///
    /// Collectives on it may go without copies in between. Dropping it deregisters it.
    ///
    /// # Errors
    ///
    /// As [`Comm::alloc`]; [`Status::NCCL`]; the cause.
    pub fn alloc_registered<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.allocate("cohort_alloc_registered", len, sys::cohort_alloc_registered)
    }

    /// A buffer of memory that the program has, and frees
    ///
    /// # Safety
    ///
    /// `memory` is `len` elements on the rank's device, aligned for them. It lives, and nothing
    /// else uses it, as long as the buffer, and any operation that the buffer is given to: for
    /// ever, if a ticket answers [`Status::WEDGED`] or is forgotten.
    pub unsafe fn buffer_at<T: Element>(&self, memory: *mut T, len: usize) -> Buffer<T> {
        Buffer::borrowed(self.link.clone(), memory.cast(), len)
    }

    /// A new buffer with these elements; waits for the copy.
    ///
    /// # Errors
    ///
    /// As [`Comm::alloc`] and [`Comm::write`].
    pub fn buffer_of<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>> {
        let buffer = self.alloc(elements.len())?;
        Ok(self.upload(buffer, elements.to_vec())?.wait()?.0)
    }

    /// Copy these elements into the buffer, in stream order, and wait for the copy
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] for another number of elements; [`Status::CUDA`]; the cause, after
    /// which the contents are undefined. After [`Status::WEDGED`] the buffer cannot be used any
    /// more, and stays allocated.
    pub fn write<T: Element>(&self, buffer: &mut Buffer<T>, elements: &[T]) -> Result<()> {
        self.copy_blocking(buffer, elements.to_vec(), Direction::Up).map(drop)
    }

    /// The buffer's elements, copied in stream order; waits for the copy.
    ///
    /// # Errors
    ///
    /// As [`Comm::write`].
    pub fn read<T: Element>(&self, buffer: &Buffer<T>) -> Result<Vec<T>> {
        self.copy_blocking(buffer, zeros(buffer.len()), Direction::Down)
    }

    /// Queue a copy of these elements into a buffer
    ///
    /// As memory of a `Vec` is pageable, the call may block until the stream comes to the copy,
    /// as `cudaMemcpyAsync()` does.
    ///
    /// # Errors
    ///
    /// As [`Comm::write`]; nothing was copied then.
    pub fn upload<B, T>(
        &self,
        buffer: B,
        elements: Vec<T>,
    ) -> std::result::Result<Ticket<(B::Kept, Vec<T>)>, Failed<(B, Vec<T>)>>
    where
        B: Target<Element = T>,
        T: Element,
    {
        self.copy(buffer, elements, Direction::Up)
    }

    /// Queue a copy of a buffer's elements into these, which are overwritten
    ///
    /// Blocks as [`Comm::upload`].
    ///
    /// # Errors
    ///
    /// As [`Comm::write`]; nothing was copied then.
    pub fn download<B, T>(
        &self,
        buffer: B,
        elements: Vec<T>,
    ) -> std::result::Result<Ticket<(B::Kept, Vec<T>)>, Failed<(B, Vec<T>)>>
    where
        B: Source<Element = T>,
        T: Element,
    {
        self.copy(buffer, elements, Direction::Down)
    }

    fn copy<B, T>(
        &self,
        buffer: B,
        mut elements: Vec<T>,
        direction: Direction,
    ) -> std::result::Result<Ticket<(B::Kept, Vec<T>)>, Failed<(B, Vec<T>)>>
    where
        B: Source<Element = T>,
        T: Element,
    {
        let place = buffer.place(&self.link, "cohort_copy");
        let copied = place.and_then(|place| {
            want("cohort_copy", "the slice of the host", elements.len(), place.len)?;
            // SAFETY: both have as many elements, and both are kept until the copy is done.
            unsafe { self.copied(place.memory, &mut elements, direction) }
        });
        match copied {
            Ok(number) => {
                // SAFETY: the ticket keeps both.
                let held = (unsafe { buffer.kept() }, elements);
                Ok(Ticket::new(self.link.clone(), number, held))
            }
            Err(error) if is_wedged(&error) => {
                buffer.lose();
                std::mem::forget(elements);
                Err(Failed::new(error, None))
            }
            Err(error) => Err(Failed::new(error, Some((buffer, elements)))),
        }
    }

    fn copy_blocking<T: Element>(
        &self,
        buffer: &Buffer<T>,
        mut elements: Vec<T>,
        direction: Direction,
    ) -> Result<Vec<T>> {
        let place = buffer.place(&self.link, "cohort_copy")?;
        want("cohort_copy", "the slice of the host", elements.len(), place.len)?;
        // SAFETY: both have as many elements. The ticket is waited for here; if it is wedged,
        // the elements are leaked by it, and the buffer is lost.
        let copied = unsafe { self.copied(place.memory, &mut elements, direction) };
        let done = match copied {
            Ok(number) => Ticket::new(self.link.clone(), number, elements).wait(),
            Err(error) if is_wedged(&error) => {
                std::mem::forget(elements);
                Err(Failed::new(error, None))
            }
            Err(error) => Err(Failed::new(error, Some(elements))),
        };
        done.map_err(|failed| {
            let (error, elements) = failed.into_parts();
            if elements.is_none() {
                buffer.lose();
            }
            error
        })
    }

    /// Queue a copy and, as C gives no ticket for that, an empty batch behind it, whose ticket
    /// is done when the stream comes to it.
    ///
    /// # Safety
    ///
    /// `device` has as many elements as `host`. Both are kept until the ticket is answered;
    /// after WEDGED, for ever.
    unsafe fn copied<T: Element>(
        &self,
        device: *mut c_void,
        host: &mut [T],
        direction: Direction,
    ) -> Result<u64> {
        let call = "cohort_copy";
        let inside = self.submit(call)?;
        let (comm, bytes) = (inside.comm(), std::mem::size_of_val(host));
        let host = host.as_mut_ptr().cast::<c_void>();
        let (to, from) = match direction {
            Direction::Up => (device, host),
            Direction::Down => (host, device),
        };
        // SAFETY: the stream is the communicator's own; the rest is the caller's promise.
        let (stream, rc) = unsafe {
            let stream = sys::cohort_comm_stream(comm);
            let none = bytes == 0;
            (stream, if none { 0 } else { sys::cohort_copy(comm, to, from, bytes, stream) })
        };
        inside.check(call, rc)?;
        let mut number = 0;
        // SAFETY: a batch without calls; no other is open, by `submit()`.
        let rc = unsafe {
            match sys::cohort_batch_begin(comm) {
                sys::COHORT_OK => sys::cohort_batch_end(comm, stream, &mut number),
                rc => rc,
            }
        };
        if rc == sys::COHORT_OK {
            return Ok(number);
        }
        // There is a cause, or no memory. The copy is on its way; nothing may touch the buffers
        // after this call.
        let error = inside.error(call, rc);
        // SAFETY: a valid communicator.
        match unsafe { sys::cohort_synchronize(comm, sys::COHORT_FOREVER) } {
            rc @ (sys::COHORT_WEDGED | sys::COHORT_FORKED) => {
                Err(Error::new(Status::WEDGED, call, Status(rc).text()))
            }
            _ => Err(error),
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

pub(crate) fn zeros<T: Element>(len: usize) -> Vec<T> {
    // SAFETY: any bytes are a value of an element.
    vec![unsafe { MaybeUninit::<T>::zeroed().assume_init() }; len]
}

/// A number as C has it, or an error that names it.
pub(crate) fn number(call: &'static str, what: &str, value: usize) -> Result<c_int> {
    c_int::try_from(value).map_err(|_| {
        Error::new(Status::INVALID, call, format!("{} is {}, which is too large", what, value))
    })
}

impl Drop for Comm {
    fn drop(&mut self) {
        if self.is_worker {
            return;
        }
        if let Ok(inside) = self.link.enter("") {
            if thread::panicking() && !self.was_panicking && !self.is_left.get() {
                inside.fail(sys::COHORT_WORKER, "a panic has dropped its communicator");
            }
            if let Some(_turn) = inside.try_turn() {
                self.link.core().free_unfreed();
            }
        }
        self.link.core().is_out.store(false, Ordering::SeqCst);
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comm of rank {} of {}", self.rank(), self.size())
    }
}
