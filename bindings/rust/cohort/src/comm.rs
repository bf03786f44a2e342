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

/// An id that ranks share in order to join one communicator; its bytes can be sent to processes
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; 192]);

impl UniqueId {
    /// Create an id for one communicator: `cohort_unique_id()`
    ///
    /// # Errors
    ///
    /// [`Status::NCCL`], and the errors of [`Group::open`](crate::Group::open) about the
    /// platform.
    pub fn new() -> Result<UniqueId> {
        UniqueId::on(Platform::Auto)
    }

    /// Create an id for one communicator of a platform: `cohort_unique_id()`
    ///
    /// # Errors
    ///
    /// Those of [`UniqueId::new`].
    pub fn on(platform: Platform) -> Result<UniqueId> {
        let mut id = sys::cohort_unique_id { bytes: [0; 192] };
        // SAFETY: a pointer to room for an id.
        let rc = unsafe { sys::cohort_unique_id(platform as c_int, &mut id) };
        if rc < 0 {
            return Err(Error::of(rc, "cohort_unique_id"));
        }
        Ok(UniqueId(id.bytes))
    }

    /// Create an id from bytes that another process sent.
    pub fn from_bytes(bytes: [u8; 192]) -> UniqueId {
        UniqueId(bytes)
    }

    /// Return the bytes of the id.
    pub fn to_bytes(self) -> [u8; 192] {
        self.0
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UniqueId")
    }
}

/// Counters of a rank and of its group's generation
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Number of operations that the rank has queued.
    pub operations: u64,
    /// Number of the rank's collectives.
    pub collectives: u64,
    /// Number of the rank's sends and receives.
    pub transfers: u64,
    /// Total bytes of the tensors of the rank's operations.
    pub bytes: u64,
    /// Number of waits for operations that were not done yet.
    pub waits: u64,
    /// Number of flight recorder records overwritten by newer ones.
    pub lost_records: u64,
    /// Number of the generation's operations that took longer than [`Options::slow`] allows.
    pub slow: u64,
    /// 1 if the generation has a cause, else 0.
    pub aborts: u64,
}

/// A rank's handle to its group
///
/// [`Group::split`](crate::Group::split), [`Group::run`](crate::Group::run), [`Comm::join`] and
/// [`Comm::split`] create it. It can be sent to another thread but not shared: the compiler makes
/// sure that only one thread at a time calls.
///
/// Calls with buffers are asynchronous and run in order on the communicator's own stream. A call
/// takes its buffers, and its [`Ticket`] returns them. Every rank must make the same sequence of
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
/// Dropping a `Comm` does not change the group: ranks that wait for this rank get an error when a
/// deadline expires. To leave the group in an orderly way, call [`Comm::close`]. If a panic drops
/// the `Comm`, its rank fails ([`Comm::fail`]), so that no other rank waits for it. A communicator
/// from [`Comm::join`] or [`Comm::split`] is closed with the last of its handles, buffers and
/// tickets; that close waits up to the close deadline, and then up to the abort deadline.
pub struct Comm {
    pub(crate) link: Link,
    /// Whether this is lent to a worker of `Group::run()`.
    is_worker: bool,
    pub(crate) has_batch: Cell<bool>,
    /// Whether the thread was already panicking at creation; the drop then reports nothing.
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
    /// Only the worker that gets the communicator may use it, only by reference, and only while
    /// it runs.
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

    /// Enter the gate for `call`, which any thread may make.
    pub(crate) fn enter(&self, call: &'static str) -> Result<Inside<'_>> {
        if self.is_worker {
            // SAFETY: by the contract of `of_worker()`, only the worker uses this, by reference.
            // The reference cannot leave its thread, because `Comm` is not `Sync`.
            return Ok(unsafe { self.link.enter_as_worker() });
        }
        self.link.enter(call)
    }

    /// Enter the gate and take the turn for `call`, which submits.
    pub(crate) fn turn(&self, call: &'static str) -> Result<Inside<'_>> {
        Ok(self.enter(call)?.in_turn())
    }

    /// Enter the gate and take the turn for `call`, which an open batch would absorb.
    pub(crate) fn submit(&self, call: &'static str) -> Result<Inside<'_>> {
        if self.has_batch.get() {
            return Err(Error::new(Status::STATE, call, "a batch is open; end it first"));
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

    /// Join a communicator as one rank: `cohort_comm_join()`
    ///
    /// Every rank must join, each from its own thread or process. Blocks until all have joined or
    /// the init deadline expires. Within a process, the options of the first rank to join apply,
    /// and their callbacks live as long as the process.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`], naming the argument and its value; [`Status::INIT_TIMEOUT`]; the errors
    /// of [`Group::open`](crate::Group::open). On an error no rank of this process has joined.
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
        // SAFETY: the join has just returned this communicator.
        let platform = Platform::of(unsafe { sys::cohort_comm_platform(comm) });
        Ok(Comm::new(Link::joined(comm, platform)))
    }

    /// Create communicators from subsets of this one's ranks: `cohort_comm_split()`
    ///
    /// Ranks that pass the same color share a new communicator, ordered by `key`; a rank that
    /// passes `None` gets none. Every rank must call this, at the same point of its sequence of
    /// collectives and from its own thread. Blocks until all ranks have called and their earlier
    /// operations are done. If this communicator ends, so does the new one, but not vice versa.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] for a color or a key that C does not accept; [`Status::STATE`] while a
    /// batch is open; the cause. If the split fails, it ends this communicator with
    /// [`Status::MISMATCH`], [`Status::STALLED`], [`Status::INIT_TIMEOUT`] or another status.
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Comm>> {
        let call = "cohort_comm_split";
        let mut child = ptr::null_mut();
        if color.map_or(false, |color| color < 0) {
            let text = format!("color is {}, not 0 or more", color.unwrap_or(0));
            return Err(Error::new(Status::INVALID, call, text));
        }
        // Stay inside, even as a worker, until a close of this communicator can find the child.
        let inside = self.link.enter(call)?.in_turn();
        let color = color.unwrap_or(sys::COHORT_NO_COLOR);
        // SAFETY: a valid communicator, and a pointer to room for another one.
        let rc = unsafe { sys::cohort_comm_split(inside.comm(), color, key, &mut child) };
        inside.check(call, rc)?;
        Ok((!child.is_null()).then(|| Comm::new(self.link.child(child))))
    }

    /// Create a communicator of some of this one's ranks; only these call:
    /// `cohort_comm_subset()`
    ///
    /// `id` is used only for this, and `ranks` are the members in the order of their new ranks.
    /// Blocks until all members have called, one has left, or the init deadline has passed. If
    /// this communicator ends, so does the new one, but not vice versa.
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`], naming the argument and its value; [`Status::INIT_TIMEOUT`] if a
    /// member does not call or has left; the cause.
    pub fn subset(&self, id: &UniqueId, ranks: &[usize]) -> Result<Comm> {
        let call = "cohort_comm_subset";
        let id = sys::cohort_unique_id { bytes: id.0 };
        let ranks: Vec<_> =
            ranks.iter().map(|&rank| number(call, "ranks", rank)).collect::<Result<_>>()?;
        let n = number(call, "n", ranks.len())?;
        let mut child = ptr::null_mut();
        // Stay inside, even as a worker, until a close of this communicator can find the child.
        let inside = self.link.enter(call)?.in_turn();
        // SAFETY: the arguments are borrowed for the call.
        let rc = unsafe {
            let name = ptr::null();
            sys::cohort_comm_subset(inside.comm(), &id, ranks.as_ptr(), n, name, &mut child)
        };
        inside.check(call, rc)?;
        Ok(Comm::new(self.link.child(child)))
    }

    /// Leave the group early: `cohort_comm_close()`
    ///
    /// Waits for this rank's tickets, up to the close deadline. After that the communicator
    /// accepts no operations. Its memory is freed only when the group closes.
    ///
    /// # Errors
    ///
    /// [`Status::TIMED_OUT`] if a ticket was not done in time; the call then had no effect.
    /// [`Status::STATE`] if the communicator was already closed or, for a communicator from
    /// [`Comm::join`] or [`Comm::split`], while tickets, buffers or other handles of it exist. The
    /// cause or [`Status::WEDGED`] if its tickets ended with it; the communicator is then closed.
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
        // SAFETY: the communicator is valid while this thread is inside its gate.
        self.enter("").map_or(-1, |inside| unsafe { ask(inside.comm()) })
    }

    /// Return this rank's number, from 0; 0 if the group was closed.
    pub fn rank(&self) -> usize {
        usize::try_from(self.fact(sys::cohort_comm_rank)).unwrap_or(0)
    }

    /// Return the number of ranks; 0 if the group was closed.
    pub fn size(&self) -> usize {
        usize::try_from(self.fact(sys::cohort_comm_size)).unwrap_or(0)
    }

    /// Return the rank's device; -1 if the group was closed.
    pub fn device(&self) -> i32 {
        self.fact(sys::cohort_comm_device)
    }

    /// Return the group's generation, from 1; 0 if the group was closed.
    pub fn generation(&self) -> u32 {
        u32::try_from(self.fact(sys::cohort_comm_generation)).unwrap_or(0)
    }

    /// Return the number that this rank had in generation 1.
    pub fn origin(&self) -> usize {
        usize::try_from(self.fact(sys::cohort_comm_origin)).unwrap_or(0)
    }

    /// Return the number that `rank` has in the group that this communicator was split from;
    /// `None` if that is unknown or the group was closed.
    pub fn group_rank(&self, rank: usize) -> Option<usize> {
        let rank = c_int::try_from(rank).ok()?;
        let inside = self.enter("").ok()?;
        // SAFETY: the communicator is valid while this thread is inside its gate.
        usize::try_from(unsafe { sys::cohort_comm_group_rank(inside.comm(), rank) }).ok()
    }

    /// Return the communicator's own stream, a `cudaStream_t` that is valid until the group closes;
    /// NULL after that.
    pub fn stream(&self) -> *mut c_void {
        // SAFETY: as in `fact()`.
        self.enter("")
            .map_or(ptr::null_mut(), |inside| unsafe { sys::cohort_comm_stream(inside.comm()) })
    }

    /// Return the cause that ended the group, or `None`.
    pub fn cause(&self) -> Option<Cause> {
        self.enter("cohort_comm_cause").ok()?.cause()
    }

    /// Report that this rank cannot continue, and end the group: `cohort_comm_fail()`
    ///
    /// Returns true if this call ended the group. Calls of the other ranks return
    /// [`Status::WORKER`], with this rank, the code, and the first 200 bytes of the text.
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

    /// Return a handle that can end all ranks of this generation, from any thread.
    pub fn abort_handle(&self) -> AbortHandle {
        let inside = self.enter("").ok();
        let comm = inside.as_ref().map_or(ptr::null_mut(), Inside::comm);
        // SAFETY: valid while this thread is inside its gate, or NULL.
        unsafe { AbortHandle::of(comm) }
    }

    /// Label this rank's later calls; verdicts show the first 47 bytes of the label.
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

    /// Return the state of every rank of this process.
    ///
    /// # Errors
    ///
    /// [`Status::STALE`] after the group was closed.
    pub fn snapshot(&self) -> Result<Vec<RankReport>> {
        let call = "cohort_comm_snapshot";
        let inside = self.enter(call)?;
        let room = self.fact(sys::cohort_comm_size);
        // SAFETY: room for `room` reports.
        RankReport::ask(room, |reports, room, size| unsafe {
            sys::cohort_comm_snapshot(inside.comm(), reports, room, size)
        })
        .map_err(|rc| inside.error(call, rc))
    }

    /// Return the counters of this rank: `cohort_stats()`.
    ///
    /// # Errors
    ///
    /// [`Status::STALE`] after the group was closed.
    pub fn stats(&self) -> Result<Stats> {
        let call = "cohort_stats";
        let inside = self.enter(call)?;
        // SAFETY: plain data, for which all zeros is a valid value.
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
            aborts: stats.aborts,
        })
    }

    /// Wait until everything that this rank queued is done; return false if `limit` passed first.
    ///
    /// # Errors
    ///
    /// The cause, or [`Status::WEDGED`].
    pub fn synchronize(&self, limit: Duration) -> Result<bool> {
        let call = "cohort_synchronize";
        let inside = self.enter(call)?;
        // SAFETY: the communicator is valid while this thread is inside its gate.
        let rc = unsafe { sys::cohort_synchronize(inside.comm(), nanoseconds(limit)) };
        Ok(inside.check(call, rc)? == sys::COHORT_OK)
    }

    /// Make later operations wait for the work that is already queued on `stream`:
    /// `cohort_after_stream()`
    ///
    /// # Errors
    ///
    /// The errors of the C function.
    ///
    /// # Safety
    ///
    /// `stream` is a `cudaStream_t` of the rank's device, or a stream of the host platform.
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
            let text = format!("{} elements are too many bytes for memory", len);
            Error::new(Status::INVALID, call, text)
        })?;
        if bytes > 0 {
            // SAFETY: a pointer to room for a pointer.
            let rc = unsafe { allocate(inside.comm(), bytes, &mut memory) };
            inside.check(call, rc)?;
        }
        Ok(Buffer::new(self.link.clone(), memory, len))
    }

    /// Allocate uninitialized memory for `len` elements on the rank's device: `cohort_alloc()`
    ///
    /// # Errors
    ///
    /// [`Status::NO_MEMORY`]; [`Status::CUDA`]; [`Status::INVALID`] if `len` is too large.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.allocate("cohort_alloc", len, sys::cohort_alloc)
    }

    /// Allocate NCCL memory that is registered with the communicator: `cohort_alloc_registered()`
    ///
    /// Collectives can use this memory without intermediate copies. Dropping the buffer deregisters
    /// the memory.
    ///
    /// # Errors
    ///
    /// The errors of [`Comm::alloc`]; [`Status::NCCL`]; the cause.
    pub fn alloc_registered<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        self.allocate("cohort_alloc_registered", len, sys::cohort_alloc_registered)
    }

    /// Wrap memory that the program owns and frees in a buffer
    ///
    /// # Safety
    ///
    /// `memory` is `len` elements on the rank's device, aligned for them. It must stay valid, and
    /// nothing else may use it, until the buffer is dropped and all operations that took it are
    /// done. If a ticket returns [`Status::WEDGED`] or is forgotten, that is forever.
    pub unsafe fn buffer_at<T: Element>(&self, memory: *mut T, len: usize) -> Buffer<T> {
        Buffer::borrowed(self.link.clone(), memory.cast(), len)
    }

    /// Allocate a buffer with these elements; waits for the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`Comm::alloc`] and [`Comm::write`].
    pub fn buffer_of<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>> {
        let buffer = self.alloc(elements.len())?;
        Ok(self.upload(buffer, elements.to_vec())?.wait()?.0)
    }

    /// Copy these elements into the buffer, in stream order, and wait for the copy
    ///
    /// # Errors
    ///
    /// [`Status::INVALID`] if the number of elements differs; [`Status::CUDA`]; the cause, after
    /// which the contents are undefined. After [`Status::WEDGED`] the buffer is unusable and stays
    /// allocated.
    pub fn write<T: Element>(&self, buffer: &mut Buffer<T>, elements: &[T]) -> Result<()> {
        self.copy_blocking(buffer, elements.to_vec(), Direction::Up).map(drop)
    }

    /// Return the buffer's elements, copied in stream order; waits for the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`Comm::write`].
    pub fn read<T: Element>(&self, buffer: &Buffer<T>) -> Result<Vec<T>> {
        self.copy_blocking(buffer, zeros(buffer.len()), Direction::Down)
    }

    /// Queue a copy of these elements into a buffer
    ///
    /// Because the memory of a `Vec` is pageable, the call may block until the stream reaches the
    /// copy, as `cudaMemcpyAsync()` does.
    ///
    /// # Errors
    ///
    /// The errors of [`Comm::write`]; on an error nothing was copied.
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

    /// Queue a copy of a buffer's elements into `elements`, overwriting them
    ///
    /// Blocks as [`Comm::upload`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Comm::write`]; on an error nothing was copied.
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
            // SAFETY: both have the same number of elements and are kept until the copy is done.
            unsafe { self.copied(place.memory, &mut elements, direction) }
        });
        match copied {
            Ok(number) => {
                // SAFETY: the ticket keeps both alive.
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
        // SAFETY: both have the same number of elements. The ticket is waited for here; if it is
        // wedged, it leaks the elements, and the buffer is marked as lost.
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

    /// Queue a copy and then an empty batch, whose ticket is done once the copy is done, because C
    /// returns no ticket for a copy
    ///
    /// # Safety
    ///
    /// `device` has as many elements as `host`. Both must be kept until the ticket is done, or
    /// forever after WEDGED.
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
        // SAFETY: an empty batch; no other is open, which `submit()` has checked.
        let rc = unsafe {
            match sys::cohort_batch_begin(comm) {
                sys::COHORT_OK => sys::cohort_batch_end(comm, stream, &mut number),
                rc => rc,
            }
        };
        if rc == sys::COHORT_OK {
            return Ok(number);
        }
        // There is a cause, or no memory. The copy is in flight, but the caller expects that
        // nothing uses the buffers after this call, so wait for the copy.
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
pub(crate) enum Direction {
    Up,
    Down,
}

pub(crate) fn zeros<T: Element>(len: usize) -> Vec<T> {
    // SAFETY: any bytes are a valid value of an element.
    vec![unsafe { MaybeUninit::<T>::zeroed().assume_init() }; len]
}

/// Convert a number to a C int, or return an error that names it.
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
                inside.fail(sys::COHORT_WORKER, "a panic dropped its communicator");
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
