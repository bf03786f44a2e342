// SPDX-License-Identifier: Apache-2.0

//! Stand-ins for the C functions, for memory tests
//!
//! Each C object is one allocation, freed when the object is closed. A wait for an operation
//! accesses its buffers, so that a buffer that was freed too early is a use after free, which Miri
//! and AddressSanitizer report. Collectives neither wait for other ranks nor change their data.

use std::collections::HashMap;
use std::ffi::{c_void, CStr, CString};
use std::mem::{size_of, take, zeroed};
use std::os::raw::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use cohort::sys::*;

/// Status that the next call that queues an operation returns; later calls return OK.
pub static REFUSAL: AtomicI32 = AtomicI32::new(COHORT_OK);
/// Status that waits return.
pub static ANSWER: AtomicI32 = AtomicI32::new(COHORT_OK);

/// Memory and its size in bytes.
#[derive(Clone, Copy)]
struct Span(*mut u8, usize);

// SAFETY: the crate promises that other threads may use this memory.
unsafe impl Send for Span {}

impl Span {
    /// Access the memory as the operation would; it must still be allocated.
    fn touch(self) {
        for i in 0..self.1 {
            // SAFETY: this is what the tests check.
            unsafe { ptr::write_volatile(self.0.add(i), ptr::read_volatile(self.0.add(i))) };
        }
    }
}

/// The state of a group's end, and its callbacks.
struct End {
    status: AtomicI32,
    options: cohort_group_options,
    /// Open communicators that were split off, which end with the group.
    children: Mutex<Vec<Span>>,
}

// SAFETY: any thread may use the options' `user`.
unsafe impl Send for End {}
// SAFETY: as above.
unsafe impl Sync for End {}

struct Group {
    comms: Vec<*mut cohort_comm>,
    end: Arc<End>,
}

struct Communicator {
    rank: c_int,
    size: c_int,
    end: Arc<End>,
    is_split: bool,
    next: AtomicU64,
    /// Operations in flight, by ticket; ticket 0 is an open batch.
    queued: Mutex<Vec<(u64, Vec<Span>)>>,
}

/// The gradients, and which of them the reducer allocated.
struct Reducer {
    spans: Vec<(Span, bool)>,
}

unsafe fn reducer<'a>(reducer: *const cohort_reducer) -> &'a Reducer {
    unsafe { &*reducer.cast() }
}

/// Number of words of each allocation, for `cohort_free()`.
static ALLOCATED: Mutex<Option<HashMap<usize, usize>>> = Mutex::new(None);

fn sizes<R>(f: impl FnOnce(&mut HashMap<usize, usize>) -> R) -> R {
    f(ALLOCATED.lock().unwrap().get_or_insert_with(HashMap::new))
}

unsafe fn group<'a>(group: *const cohort_group) -> &'a Group {
    unsafe { &*group.cast() }
}

unsafe fn comm<'a>(comm: *const cohort_comm) -> &'a Communicator {
    unsafe { &*comm.cast() }
}

fn made(rank: c_int, size: c_int, end: &Arc<End>, is_split: bool) -> *mut cohort_comm {
    let (end, next, queued) = (end.clone(), AtomicU64::new(1), Mutex::default());
    Box::into_raw(Box::new(Communicator { rank, size, end, is_split, next, queued })).cast()
}

impl Communicator {
    fn queue(&self, spans: Vec<Span>, ticket: *mut u64) -> c_int {
        let refusal = REFUSAL.swap(COHORT_OK, SeqCst);
        if refusal < 0 {
            return refusal;
        }
        let mut queued = self.queued.lock().unwrap();
        match queued.last_mut() {
            Some((0, batch)) => batch.extend(spans),
            _ => {
                let number = self.next.fetch_add(1, SeqCst);
                queued.push((number, spans));
                unsafe { *ticket = number };
            }
        }
        COHORT_OK
    }

    fn carry_out(&self, last: u64) {
        let mut queued = self.queued.lock().unwrap();
        queued.retain(|(number, spans)| {
            let is_later = *number == 0 || *number > last;
            if !is_later {
                spans.iter().for_each(|span| span.touch());
            }
            is_later
        });
    }
}

fn fill(text: &mut [c_char], with: &str) {
    text.iter_mut().zip(with.bytes()).for_each(|(to, from)| *to = from as c_char);
}

fn cause_of(end: &End, rank: c_int, cause: *mut cohort_cause) -> c_int {
    let status = end.status.load(SeqCst);
    unsafe {
        *cause = zeroed();
        (*cause).status = status;
        (*cause).kind = if status == 0 { COHORT_VERDICT_NONE } else { COHORT_VERDICT_WORKER };
        (*cause).rank = rank;
        fill(&mut (*cause).text, "the stand-in's cause");
    }
    COHORT_OK
}

/// Record the first cause and call the callbacks, with reports that are longer than the crate
/// knows, as a newer library's would be.
fn end_by(end: &End, rank: c_int, status: c_int) -> c_int {
    #[repr(C)]
    struct Longer(cohort_rank_report, [u64; 2]);

    if end.status.compare_exchange(0, status, SeqCst, SeqCst).is_err() {
        return COHORT_ALREADY;
    }
    let text = CString::new("the stand-in's verdict").unwrap();
    let mut reports = Vec::new();
    for rank in 0..2 {
        let mut report: cohort_rank_report = unsafe { zeroed() };
        (report.rank, report.stack) = (rank, text.as_ptr());
        fill(&mut report.call, "a call");
        reports.push(Longer(report, [u64::MAX; 2]));
    }
    let mut verdict: cohort_verdict = unsafe { zeroed() };
    (verdict.kind, verdict.stage) = (COHORT_VERDICT_WORKER, COHORT_STAGE_ENDED);
    verdict.rank = rank;
    (verdict.group, verdict.text) = (text.as_ptr(), text.as_ptr());
    (verdict.line, verdict.call) = (text.as_ptr(), text.as_ptr());
    (verdict.size, verdict.ranks) = (2, reports.as_ptr().cast());
    verdict.rank_size = size_of::<Longer>() as u64;
    let options = &end.options;
    if let Some(tell) = options.on_verdict {
        unsafe { tell(&verdict, options.user) };
    }
    COHORT_OK
}

macro_rules! stand_in {
    ($($name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(
            #[no_mangle]
            unsafe extern "C" fn $name($($argument: $kind),*) $(-> $result)? {
                #[allow(unused_unsafe)]
                unsafe { $body }
            }
        )*
    };
}

fn constant(text: &'static [u8]) -> *const c_char {
    CStr::from_bytes_with_nul(text).unwrap().as_ptr()
}

stand_in! {
    // ---- texts ------------------------------------------------------------
    cohort_last_error() -> *const c_char { constant(b"the stand-in refuses\0") }
    cohort_status_text(_status: c_int) -> *const c_char { constant(b"a status\0") }
    cohort_status_name(_status: c_int) -> *const c_char { constant(b"STATUS\0") }
    cohort_type_name(_kind: c_int) -> *const c_char { constant(b"a type\0") }
    cohort_verdict_text(_kind: c_int) -> *const c_char { constant(b"a verdict\0") }

    // ---- groups -------------------------------------------------------------
    cohort_group_options_init(options: *mut cohort_group_options) { *options = zeroed() }

    cohort_group_open(
        _devices: *const c_int, n: c_int, options: *const cohort_group_options,
        group: *mut *mut cohort_group
    ) -> c_int {
        let refusal = REFUSAL.swap(COHORT_OK, SeqCst);
        if refusal < 0 {
            return refusal;
        }
        let (status, children) = (AtomicI32::new(0), Mutex::default());
        let end = Arc::new(End { status, options: *options, children });
        let comms = (0..n).map(|rank| made(rank, n, &end, false)).collect();
        *group = Box::into_raw(Box::new(Group { comms, end })).cast();
        COHORT_OK
    }

    cohort_group_split(g: *mut cohort_group, comms: *mut *mut cohort_comm) -> c_int {
        let from = &group(g).comms;
        ptr::copy_nonoverlapping(from.as_ptr(), comms, from.len());
        COHORT_OK
    }

    cohort_group_run(
        g: *mut cohort_group, worker: cohort_worker_fn, user: *mut c_void,
        cause: *mut cohort_cause
    ) -> c_int {
        let (worker, user, end) = (worker.unwrap(), Span(user.cast(), 0), group(g).end.clone());
        let threads: Vec<_> = group(g).comms.iter().enumerate().map(|(rank, c)| {
            let (c, end) = (Span(c.cast(), 0), end.clone());
            thread::spawn(move || {
                let (c, user) = (c, user); // capture whole, because their pointers are not Send
                let rc = unsafe { worker(c.0.cast(), user.0.cast()) };
                if rc != 0 {
                    end_by(&end, rank as c_int, COHORT_WORKER);
                }
            })
        }).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        cause_of(&end, 0, cause);
        end.status.load(SeqCst)
    }

    cohort_group_close(g: *mut cohort_group) -> c_int {
        let group = Box::from_raw(g.cast::<Group>());
        let children = take(&mut *group.end.children.lock().unwrap());
        for comm in children.iter().map(|child| child.0.cast()).chain(group.comms) {
            let comm = Box::from_raw(comm.cast::<Communicator>());
            comm.carry_out(u64::MAX);
        }
        COHORT_OK
    }

    cohort_group_size(g: *const cohort_group) -> c_int { group(g).comms.len() as c_int }
    cohort_group_platform(_g: *const cohort_group) -> c_int { COHORT_PLATFORM_HOST }
    cohort_group_abandoned(_g: *const cohort_group, _r: *mut c_int, _n: c_int) -> c_int { 0 }

    cohort_group_cause(g: *const cohort_group, cause: *mut cohort_cause) -> c_int {
        if g.is_null() {
            return COHORT_INVALID;
        }
        cause_of(&group(g).end, 0, cause)
    }

    cohort_group_abort(g: *mut cohort_group, _reason: *const c_char) -> c_int {
        end_by(&group(g).end, -1, COHORT_ABORTED)
    }

    cohort_group_alloc(g: *mut cohort_group, bytes: usize, memory: *mut *mut c_void) -> c_int {
        for rank in 0..group(g).comms.len() {
            cohort_alloc(ptr::null_mut(), bytes, memory.add(rank));
        }
        COHORT_OK
    }

    cohort_group_free(g: *mut cohort_group, memory: *mut *mut c_void) -> c_int {
        for rank in 0..group(g).comms.len() {
            if !(*memory.add(rank)).is_null() {
                cohort_free(ptr::null_mut(), *memory.add(rank));
            }
            *memory.add(rank) = ptr::null_mut();
        }
        COHORT_OK
    }

    cohort_group_all_reduce(
        g: *mut cohort_group, send: *const *const c_void, recv: *const *mut c_void, count: usize,
        kind: c_int, op: c_int, _streams: *const *mut c_void, ticket: *mut u64
    ) -> c_int {
        for (rank, &c) in group(g).comms.iter().enumerate() {
            let (send, recv) = (*send.add(rank), *recv.add(rank));
            let rc = cohort_all_reduce(c, send, recv, count, kind, op, ptr::null_mut(), ticket);
            if rc != COHORT_OK {
                return rc;
            }
        }
        COHORT_OK
    }

    cohort_group_copy(
        g: *mut cohort_group, to: *const *mut c_void, from: *const *const c_void, bytes: usize,
        _streams: *const *mut c_void, ticket: *mut u64
    ) -> c_int {
        for (rank, &c) in group(g).comms.iter().enumerate() {
            let (to, from) = (*to.add(rank), *from.add(rank));
            ptr::copy(from.cast::<u8>(), to.cast(), bytes);
            let spans = vec![Span(to.cast(), bytes), Span(from as *mut u8, bytes)];
            comm(c).queue(spans, ticket);
        }
        COHORT_OK
    }

    cohort_group_wait(g: *mut cohort_group, ticket: u64, timeout: u64) -> c_int {
        let answers = group(g).comms.iter().map(|&c| cohort_wait(c, ticket, timeout));
        answers.collect::<Vec<_>>()[0]
    }

    // ---- communicators --------------------------------------------------------
    cohort_comm_rank(c: *const cohort_comm) -> c_int { comm(c).rank }
    cohort_comm_size(c: *const cohort_comm) -> c_int {
        thread::yield_now(); // let a close on another thread run
        comm(c).size
    }
    cohort_comm_device(c: *const cohort_comm) -> c_int { comm(c).rank }
    cohort_comm_stream(c: *mut cohort_comm) -> *mut c_void { c.cast() }

    cohort_comm_cause(c: *mut cohort_comm, cause: *mut cohort_cause) -> c_int {
        cause_of(&comm(c).end, comm(c).rank, cause)
    }

    cohort_comm_fail(c: *mut cohort_comm, _code: c_int, _text: *const c_char) -> c_int {
        end_by(&comm(c).end, comm(c).rank, COHORT_WORKER)
    }

    cohort_comm_split(
        c: *mut cohort_comm, _color: c_int, _key: c_int, child: *mut *mut cohort_comm
    ) -> c_int {
        let end = &comm(c).end;
        *child = made(comm(c).rank, comm(c).size, end, true);
        end.children.lock().unwrap().push(Span((*child).cast(), 0));
        COHORT_OK
    }

    cohort_comm_close(c: *mut cohort_comm) -> c_int {
        comm(c).carry_out(u64::MAX);
        if comm(c).is_split {
            comm(c).end.children.lock().unwrap().retain(|child| child.0 != c.cast());
            drop(Box::from_raw(c.cast::<Communicator>()));
        }
        COHORT_OK
    }

    cohort_comm_abort_handle(c: *mut cohort_comm) -> *mut cohort_abort {
        Arc::into_raw(comm(c).end.clone()) as *mut cohort_abort
    }

    cohort_abort_put(handle: *mut cohort_abort) {
        if !handle.is_null() {
            drop(Arc::from_raw(handle.cast::<End>()));
        }
    }

    cohort_abort_fire(handle: *mut cohort_abort, _reason: *const c_char) -> c_int {
        end_by(&*handle.cast::<End>(), -1, COHORT_ABORTED)
    }

    cohort_abort_fired(handle: *const cohort_abort) -> c_int {
        ((*handle.cast::<End>()).status.load(SeqCst) != 0).into()
    }

    // ---- memory -----------------------------------------------------------------
    cohort_alloc(_c: *mut cohort_comm, bytes: usize, memory: *mut *mut c_void) -> c_int {
        let words = vec![0_u64; (bytes + 7) / 8].into_boxed_slice();
        let len = words.len();
        *memory = Box::into_raw(words).cast();
        sizes(|sizes| sizes.insert(*memory as usize, len));
        COHORT_OK
    }

    cohort_free(_c: *mut cohort_comm, memory: *mut c_void) -> c_int {
        let len = sizes(|sizes| sizes.remove(&(memory as usize))).unwrap();
        drop(Box::from_raw(ptr::slice_from_raw_parts_mut(memory.cast::<u64>(), len)));
        COHORT_OK
    }

    cohort_copy(
        c: *mut cohort_comm, to: *mut c_void, from: *const c_void, bytes: usize,
        _stream: *mut c_void
    ) -> c_int {
        ptr::copy(from.cast::<u8>(), to.cast(), bytes);
        let mut ticket = 0;
        comm(c).queue(vec![Span(to.cast(), bytes), Span(from as *mut u8, bytes)], &mut ticket)
    }

    cohort_synchronize(c: *mut cohort_comm, _timeout: u64) -> c_int {
        comm(c).carry_out(u64::MAX);
        COHORT_OK
    }

    // ---- operations ---------------------------------------------------------------
    cohort_all_reduce(
        c: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize,
        kind: c_int, _op: c_int, _stream: *mut c_void, ticket: *mut u64
    ) -> c_int {
        if kind < 0 {
            comm(c).queued.lock().unwrap().pop(); // the open batch
            return COHORT_INVALID;
        }
        let bytes = count * 4; // all tests use 32-bit elements
        comm(c).queue(vec![Span(send as *mut u8, bytes), Span(recv.cast(), bytes)], ticket)
    }

    cohort_batch_begin(c: *mut cohort_comm) -> c_int {
        comm(c).queued.lock().unwrap().push((0, Vec::new()));
        COHORT_OK
    }

    cohort_batch_end(c: *mut cohort_comm, _stream: *mut c_void, ticket: *mut u64) -> c_int {
        *ticket = comm(c).next.fetch_add(1, SeqCst);
        match comm(c).queued.lock().unwrap().last_mut() {
            Some((number @ 0, _)) => *number = *ticket,
            _ => return COHORT_INVALID, // a call in the batch was refused
        }
        COHORT_OK
    }

    cohort_wait(c: *mut cohort_comm, ticket: u64, timeout: u64) -> c_int {
        let is_queued = |(number, _): &(u64, _)| *number == ticket;
        if timeout == 0 && comm(c).queued.lock().unwrap().iter().any(is_queued) {
            return COHORT_TIMED_OUT;
        }
        comm(c).carry_out(ticket);
        ANSWER.load(SeqCst)
    }

    // ---- reducers -----------------------------------------------------------------
    cohort_reducer_options_init(options: *mut cohort_reducer_options) { *options = zeroed() }

    cohort_reducer_create(
        c: *mut cohort_comm, parameters: *const cohort_parameter, n: usize,
        _options: *const cohort_reducer_options, made: *mut *mut cohort_reducer
    ) -> c_int {
        let parameters = std::slice::from_raw_parts(parameters, n);
        let spans = parameters.iter().map(|parameter| {
            let mut memory = parameter.gradient;
            if memory.is_null() {
                cohort_alloc(c, parameter.count * 4, &mut memory);
            }
            (Span(memory.cast(), parameter.count * 4), parameter.gradient.is_null())
        });
        *made = Box::into_raw(Box::new(Reducer { spans: spans.collect() })).cast();
        COHORT_OK
    }

    cohort_reducer_view(r: *const cohort_reducer, i: usize) -> *mut c_void {
        reducer(r).spans[i].0.0.cast()
    }

    cohort_reducer_begin(_r: *mut cohort_reducer, _stream: *mut c_void) -> c_int { COHORT_OK }

    cohort_reducer_ready(r: *mut cohort_reducer, i: usize) -> c_int {
        reducer(r).spans[i].0.touch();
        COHORT_OK
    }

    cohort_reducer_finish(r: *mut cohort_reducer, _timeout: u64) -> c_int {
        reducer(r).spans.iter().for_each(|(span, _)| span.touch());
        COHORT_OK
    }

    cohort_reducer_free(r: *mut cohort_reducer) -> c_int {
        for (span, is_own) in Box::from_raw(r.cast::<Reducer>()).spans {
            if is_own {
                cohort_free(ptr::null_mut(), span.0.cast());
            }
        }
        COHORT_OK
    }
}
