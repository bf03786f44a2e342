// SPDX-License-Identifier: Apache-2.0
// Made by bindings/rust/generate.py from bindings/cohort_abi.json.  Do not edit.

use std::marker::PhantomData;
use std::mem::{align_of, size_of};
use std::os::raw::{c_char, c_int, c_uchar, c_uint, c_void};

/// The version of the headers that these declarations were made from.
pub const VERSION: &str = "0.2.0";

/// `comm.h`
pub const COHORT_NO_COLOR: c_int = -1;

/// `sim.h`
pub const COHORT_SIM_MAX_DEVICES: c_int = 1024;

/// `ticket.h`
pub const COHORT_CAPTURED: u64 = 18446744073709551615;

/// `types.h`
pub const COHORT_FOREVER: u64 = 18446744073709551615;

/// `types.h`
pub const COHORT_MAX_RANKS: c_int = 1024;

/// `types.h`
pub const COHORT_RANK_WORDS: c_int = 16;

/// `version.h`
pub const COHORT_VERSION_MAJOR: c_int = 0;

/// `version.h`
pub const COHORT_VERSION_MINOR: c_int = 2;

/// `version.h`
pub const COHORT_VERSION_PATCH: c_int = 0;

/// `enum cohort_status`, `status.h`
pub const COHORT_JOINED: c_int = 4;

/// `enum cohort_status`, `status.h`
pub const COHORT_SKIP: c_int = 3;

/// `enum cohort_status`, `status.h`
pub const COHORT_TIMED_OUT: c_int = 2;

/// `enum cohort_status`, `status.h`
pub const COHORT_ALREADY: c_int = 1;

/// `enum cohort_status`, `status.h`
pub const COHORT_OK: c_int = 0;

/// `enum cohort_status`, `status.h`
pub const COHORT_INVALID: c_int = -1;

/// `enum cohort_status`, `status.h`
pub const COHORT_STATE: c_int = -2;

/// `enum cohort_status`, `status.h`
pub const COHORT_NO_MEMORY: c_int = -3;

/// `enum cohort_status`, `status.h`
pub const COHORT_BUSY: c_int = -4;

/// `enum cohort_status`, `status.h`
pub const COHORT_OWNER: c_int = -5;

/// `enum cohort_status`, `status.h`
pub const COHORT_UNSUPPORTED: c_int = -6;

/// `enum cohort_status`, `status.h`
pub const COHORT_NO_LIBRARY: c_int = -7;

/// `enum cohort_status`, `status.h`
pub const COHORT_NO_SYMBOL: c_int = -8;

/// `enum cohort_status`, `status.h`
pub const COHORT_NO_DEVICE: c_int = -9;

/// `enum cohort_status`, `status.h`
pub const COHORT_CUDA: c_int = -10;

/// `enum cohort_status`, `status.h`
pub const COHORT_NCCL: c_int = -11;

/// `enum cohort_status`, `status.h`
pub const COHORT_SYSTEM: c_int = -12;

/// `enum cohort_status`, `status.h`
pub const COHORT_ABORTED: c_int = -13;

/// `enum cohort_status`, `status.h`
pub const COHORT_WORKER: c_int = -14;

/// `enum cohort_status`, `status.h`
pub const COHORT_WEDGED: c_int = -15;

/// `enum cohort_status`, `status.h`
pub const COHORT_MISMATCH: c_int = -16;

/// `enum cohort_status`, `status.h`
pub const COHORT_FORKED: c_int = -17;

/// `enum cohort_status`, `status.h`
pub const COHORT_THREAD_EXITED: c_int = -18;

/// `enum cohort_status`, `status.h`
pub const COHORT_STALLED: c_int = -19;

/// `enum cohort_status`, `status.h`
pub const COHORT_INIT_TIMEOUT: c_int = -20;

/// `enum cohort_status`, `status.h`
pub const COHORT_STALE: c_int = -21;

/// `enum cohort_status`, `status.h`
pub const COHORT_PROCESS_EXITED: c_int = -22;

/// `enum cohort_type`, `types.h`
pub const COHORT_I8: c_int = 0;

/// `enum cohort_type`, `types.h`
pub const COHORT_U8: c_int = 1;

/// `enum cohort_type`, `types.h`
pub const COHORT_I32: c_int = 2;

/// `enum cohort_type`, `types.h`
pub const COHORT_U32: c_int = 3;

/// `enum cohort_type`, `types.h`
pub const COHORT_I64: c_int = 4;

/// `enum cohort_type`, `types.h`
pub const COHORT_U64: c_int = 5;

/// `enum cohort_type`, `types.h`
pub const COHORT_F16: c_int = 6;

/// `enum cohort_type`, `types.h`
pub const COHORT_F32: c_int = 7;

/// `enum cohort_type`, `types.h`
pub const COHORT_F64: c_int = 8;

/// `enum cohort_type`, `types.h`
pub const COHORT_BF16: c_int = 9;

/// `enum cohort_type`, `types.h`
pub const COHORT_F8E4M3: c_int = 10;

/// `enum cohort_type`, `types.h`
pub const COHORT_F8E5M2: c_int = 11;

/// `enum cohort_op`, `types.h`
pub const COHORT_SUM: c_int = 0;

/// `enum cohort_op`, `types.h`
pub const COHORT_PROD: c_int = 1;

/// `enum cohort_op`, `types.h`
pub const COHORT_MAX: c_int = 2;

/// `enum cohort_op`, `types.h`
pub const COHORT_MIN: c_int = 3;

/// `enum cohort_op`, `types.h`
pub const COHORT_AVG: c_int = 4;

/// `enum cohort_bootstrap_kind`, `bootstrap.h`
pub const COHORT_BOOTSTRAP_TABLE: c_int = 1;

/// `enum cohort_bootstrap_kind`, `bootstrap.h`
pub const COHORT_BOOTSTRAP_ENV: c_int = 2;

/// `enum cohort_bootstrap_kind`, `bootstrap.h`
pub const COHORT_BOOTSTRAP_PMIX: c_int = 3;

/// `enum cohort_bootstrap_kind`, `bootstrap.h`
pub const COHORT_BOOTSTRAP_AUTO: c_int = 4;

/// `enum cohort_scalar`, `collective.h`
pub const COHORT_SCALAR_DEVICE: c_int = 0;

/// `enum cohort_scalar`, `collective.h`
pub const COHORT_SCALAR_HOST: c_int = 1;

/// `enum cohort_platform`, `platform.h`
pub const COHORT_PLATFORM_AUTO: c_int = 0;

/// `enum cohort_platform`, `platform.h`
pub const COHORT_PLATFORM_GPU: c_int = 1;

/// `enum cohort_platform`, `platform.h`
pub const COHORT_PLATFORM_HOST: c_int = 2;

/// `enum cohort_policy`, `watch.h`
pub const COHORT_POLICY_ABORT: c_int = 0;

/// `enum cohort_policy`, `watch.h`
pub const COHORT_POLICY_REPORT: c_int = 1;

/// `enum cohort_policy`, `watch.h`
pub const COHORT_POLICY_ASK: c_int = 2;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_NONE: c_int = 0;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_NEVER_CALLED: c_int = 1;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_DIFFERENT_CALL: c_int = 2;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_NOT_STARTED: c_int = 3;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_NOT_FINISHED: c_int = 4;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_OUTSIDE: c_int = 5;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_THREAD_EXITED: c_int = 6;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_ASYNC_ERROR: c_int = 7;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_NATIVE_ERROR: c_int = 8;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_INIT_STUCK: c_int = 9;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_WEDGED: c_int = 10;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_WORKER: c_int = 11;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_ABORTED: c_int = 12;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_PROBER_STUCK: c_int = 13;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_CYCLE: c_int = 14;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_ORDER: c_int = 15;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_CUDA_ERROR: c_int = 16;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_DEVICE_LOST: c_int = 17;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_GRAPH_ALIVE: c_int = 18;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_CLOSE_STUCK: c_int = 19;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_REMOTE: c_int = 20;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_PROCESS_EXITED: c_int = 21;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_LEFT: c_int = 22;

/// `enum cohort_verdict_kind`, `watch.h`
pub const COHORT_VERDICT_PROCESS_STOPPED: c_int = 23;

/// `enum cohort_stage`, `watch.h`
pub const COHORT_STAGE_SLOW: c_int = 0;

/// `enum cohort_stage`, `watch.h`
pub const COHORT_STAGE_WARNING: c_int = 1;

/// `enum cohort_stage`, `watch.h`
pub const COHORT_STAGE_EXPIRED: c_int = 2;

/// `enum cohort_stage`, `watch.h`
pub const COHORT_STAGE_ENDED: c_int = 3;

/// `enum cohort_stack`, `options.h`
pub const COHORT_STACK_ALL: c_int = 65536;

/// `enum cohort_many`, `options.h`
pub const COHORT_MANY_AUTO: c_int = 0;

/// `enum cohort_many`, `options.h`
pub const COHORT_MANY_GROUP: c_int = 1;

/// `enum cohort_many`, `options.h`
pub const COHORT_MANY_FLAT: c_int = 2;

/// `enum cohort_many`, `options.h`
pub const COHORT_MANY_ALONE: c_int = 3;

/// `enum cohort_launch`, `options.h`
pub const COHORT_LAUNCH_DEFAULT: c_int = 0;

/// `enum cohort_launch`, `options.h`
pub const COHORT_LAUNCH_TOGETHER: c_int = 1;

/// `enum cohort_launch`, `options.h`
pub const COHORT_LAUNCH_AHEAD: c_int = 2;

/// `enum cohort_connect`, `options.h`
pub const COHORT_CONNECT_DEFAULT: c_int = 0;

/// `enum cohort_connect`, `options.h`
pub const COHORT_CONNECT_COLLECTIVES: c_int = 1;

/// `enum cohort_connect`, `options.h`
pub const COHORT_CONNECT_ALL: c_int = 2;

/// `enum cohort_connect`, `options.h`
pub const COHORT_CONNECT_NONE: c_int = 3;

/// `enum cohort_sim_sync`, `sim.h`
pub const COHORT_SIM_SYNC_NONE: c_int = 1;

/// `enum cohort_sim_sync`, `sim.h`
pub const COHORT_SIM_SYNC_DEVICE: c_int = 2;

/// `enum cohort_sim_sync`, `sim.h`
pub const COHORT_SIM_SYNC_MEMORY: c_int = 3;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_NEVER: c_int = 1;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_DELAY: c_int = 2;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_ERROR: c_int = 3;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_STUCK: c_int = 4;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_DIE: c_int = 5;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_ASYNC: c_int = 6;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_HUNG: c_int = 7;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_INIT: c_int = 8;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_MEMORY: c_int = 9;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_ARGUMENT: c_int = 10;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_INIT_ERROR: c_int = 11;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_DEVICE: c_int = 12;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_PATH: c_int = 13;

/// `enum cohort_fault_kind`, `sim.h`
pub const COHORT_FAULT_GARBLE: c_int = 14;

/// `watch.h`
pub type cohort_verdict_fn = Option<unsafe extern "C" fn(verdict: *const cohort_verdict, user: *mut c_void) -> c_int>;

/// `watch.h`
pub type cohort_cause_fn = Option<unsafe extern "C" fn(cause: *const cohort_cause, user: *mut c_void)>;

/// `group.h`
pub type cohort_worker_fn = Option<unsafe extern "C" fn(comm: *mut cohort_comm, user: *mut c_void) -> c_int>;

/// `struct cohort_bootstrap`, `bootstrap.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_bootstrap {
    pub size: usize,
    pub kind: c_int,
    pub process: c_int,
    pub processes: c_int,
    pub allgather: Option<unsafe extern "C" fn(send: *mut c_void, recv: *mut c_void, bytes: usize, info: *mut c_void, request: *mut *mut c_void) -> c_int>,
    pub req_test: Option<unsafe extern "C" fn(request: *mut c_void) -> c_int>,
    pub req_free: Option<unsafe extern "C" fn(request: *mut c_void) -> c_int>,
    pub info: *mut c_void,
    pub reserved: [u64; 9],
}

const _: () = assert!(size_of::<cohort_bootstrap>() == 128);
const _: () = assert!(align_of::<cohort_bootstrap>() == 8);

/// `struct cohort_process`, `bootstrap.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_process {
    pub first_rank: c_int,
    pub ranks: c_int,
    pub watched: c_int,
    pub pid: i64,
    pub host: [c_char; 64],
    pub reserved: [u64; 5],
}

const _: () = assert!(size_of::<cohort_process>() == 128);
const _: () = assert!(align_of::<cohort_process>() == 8);

/// `struct cohort_tensor`, `collective.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_tensor {
    pub send: *const c_void,
    pub recv: *mut c_void,
    pub count: usize,
    pub r#type: c_int,
}

const _: () = assert!(size_of::<cohort_tensor>() == 32);
const _: () = assert!(align_of::<cohort_tensor>() == 8);

/// `struct cohort_deadlines`, `deadline.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_deadlines {
    pub init_ns: u64,
    pub join_ns: u64,
    pub exec_ns: u64,
    pub close_ns: u64,
    pub abort_ns: u64,
    pub reserved: [u64; 11],
}

const _: () = assert!(size_of::<cohort_deadlines>() == 128);
const _: () = assert!(align_of::<cohort_deadlines>() == 8);

/// `struct cohort_platform_info`, `platform.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_platform_info {
    pub size: usize,
    pub platform: c_int,
    pub status: c_int,
    pub reason: [c_char; 256],
    pub devices: c_int,
    pub nccl_version: c_int,
    pub runtime_version: c_int,
    pub driver_version: c_int,
    pub nccl_file: *const c_char,
    pub runtime_file: *const c_char,
    pub notes: *const c_char,
    pub is_drop_in: c_int,
    pub launch: c_int,
    pub reserved: [u64; 4],
}

const _: () = assert!(size_of::<cohort_platform_info>() == 352);
const _: () = assert!(align_of::<cohort_platform_info>() == 8);

/// `struct cohort_rank_report`, `watch.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_rank_report {
    pub rank: c_int,
    pub device: c_int,
    pub joined: c_int,
    pub started: c_int,
    pub done: c_int,
    pub alive: c_int,
    pub inside: c_int,
    pub tid: c_int,
    pub thread: [c_char; 16],
    pub ticket: u64,
    pub age_ns: u64,
    pub call: [c_char; 96],
    pub tag: [c_char; 48],
    pub state: [c_char; 64],
    pub stack: *const c_char,
    pub bound: c_int,
    pub label: [c_char; 48],
    pub text: [c_char; 512],
    pub reserved: [u64; 3],
}

const _: () = assert!(size_of::<cohort_rank_report>() == 872);
const _: () = assert!(align_of::<cohort_rank_report>() == 8);

/// `struct cohort_verdict`, `watch.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_verdict {
    pub kind: c_int,
    pub stage: c_int,
    pub rank: c_int,
    pub generation: c_int,
    pub group: *const c_char,
    pub collective: u64,
    pub time_ns: u64,
    pub since_ns: u64,
    pub deadline_ns: u64,
    pub joined: [u64; 16],
    pub missing: [u64; 16],
    pub size: c_int,
    pub ranks: *const cohort_rank_report,
    pub text: *const c_char,
    pub rank_size: u64,
    pub line: *const c_char,
    pub world_rank: c_int,
    pub reserved: [u64; 5],
}

const _: () = assert!(size_of::<cohort_verdict>() == 400);
const _: () = assert!(align_of::<cohort_verdict>() == 8);

/// `struct cohort_cause`, `watch.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_cause {
    pub status: c_int,
    pub kind: c_int,
    pub rank: c_int,
    pub nccl: c_int,
    pub cuda: c_int,
    pub worker: c_int,
    pub ticket: u64,
    pub collective: u64,
    pub time_ns: u64,
    pub since_ns: u64,
    pub deadline_ns: u64,
    pub joined: [u64; 16],
    pub missing: [u64; 16],
    pub text: [c_char; 1024],
    pub world_rank: c_int,
    pub details: [c_char; 2048],
    pub reserved: [u64; 15],
}

const _: () = assert!(size_of::<cohort_cause>() == 3520);
const _: () = assert!(align_of::<cohort_cause>() == 8);

/// `struct cohort_group_options`, `options.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_group_options {
    pub size: usize,
    pub name: *const c_char,
    pub platform: c_int,
    pub recorder_slots: c_uint,
    pub deadlines: cohort_deadlines,
    pub policy: c_int,
    pub warn_percent: c_uint,
    pub on_verdict: cohort_verdict_fn,
    pub user: *mut c_void,
    pub nccl_config: *const c_void,
    pub stream_priority: c_int,
    pub no_start_marks: c_int,
    pub allow_capture: c_int,
    pub dump_signal: c_int,
    pub dump_directory: *const c_char,
    pub dump_fifo: *const c_char,
    pub on_abort: cohort_cause_fn,
    pub on_slow: cohort_verdict_fn,
    pub slow_ns: u64,
    pub stack_signal: c_int,
    pub many: c_int,
    pub adaptive_factor: c_uint,
    pub adaptive_warmup: c_uint,
    pub adaptive_floor_ns: u64,
    pub launch: c_int,
    pub connect: c_int,
    pub bootstrap: *const cohort_bootstrap,
    pub abort: *mut cohort_abort,
    pub log: *const c_char,
    pub reserved: [u64; 30],
}

const _: () = assert!(size_of::<cohort_group_options>() == 536);
const _: () = assert!(align_of::<cohort_group_options>() == 8);

/// `struct cohort_unique_id`, `comm.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_unique_id {
    pub bytes: [c_uchar; 192],
}

const _: () = assert!(size_of::<cohort_unique_id>() == 192);
const _: () = assert!(align_of::<cohort_unique_id>() == 1);

/// `struct cohort_stats`, `stats.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_stats {
    pub size: usize,
    pub operations: u64,
    pub collectives: u64,
    pub transfers: u64,
    pub bytes: u64,
    pub waits: u64,
    pub captured: u64,
    pub lost_records: u64,
    pub slow: u64,
    pub warnings: u64,
    pub aborts: u64,
    pub verdicts: [u64; 32],
    pub stops: u64,
    pub starved: u64,
    pub reserved: [u64; 6],
}

const _: () = assert!(size_of::<cohort_stats>() == 408);
const _: () = assert!(align_of::<cohort_stats>() == 8);

/// `struct cohort_parameter`, `reducer.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_parameter {
    pub name: *const c_char,
    pub gradient: *mut c_void,
    pub count: usize,
    pub r#type: c_int,
}

const _: () = assert!(size_of::<cohort_parameter>() == 32);
const _: () = assert!(align_of::<cohort_parameter>() == 8);

/// `struct cohort_reducer_options`, `reducer.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_reducer_options {
    pub size: usize,
    pub first_bytes: usize,
    pub bucket_bytes: usize,
    pub op: c_int,
    pub weighted: c_int,
    pub find_unused: c_int,
    pub keep_plan: c_int,
    pub helpers_launch: c_int,
    pub sharded: c_int,
    pub full_buckets: c_int,
    pub reserved: [u64; 7],
}

const _: () = assert!(size_of::<cohort_reducer_options>() == 112);
const _: () = assert!(align_of::<cohort_reducer_options>() == 8);

/// `struct cohort_fault`, `sim.h`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cohort_fault {
    pub rank: c_int,
    pub operation: u64,
    pub kind: c_int,
    pub value: u64,
}

const _: () = assert!(size_of::<cohort_fault>() == 32);
const _: () = assert!(align_of::<cohort_fault>() == 8);

/// `struct cohort_comm`, `abort.h`
#[repr(C)]
#[derive(Debug)]
pub struct cohort_comm {
    _opaque: [u8; 0],
    _is_neither_send_nor_sync: PhantomData<*mut u8>,
}

/// `struct cohort_abort`, `abort.h`
#[repr(C)]
#[derive(Debug)]
pub struct cohort_abort {
    _opaque: [u8; 0],
    _is_neither_send_nor_sync: PhantomData<*mut u8>,
}

/// `struct cohort_group`, `bootstrap.h`
#[repr(C)]
#[derive(Debug)]
pub struct cohort_group {
    _opaque: [u8; 0],
    _is_neither_send_nor_sync: PhantomData<*mut u8>,
}

/// `struct cohort_reducer`, `reducer.h`
#[repr(C)]
#[derive(Debug)]
pub struct cohort_reducer {
    _opaque: [u8; 0],
    _is_neither_send_nor_sync: PhantomData<*mut u8>,
}

extern "C" {
    /// `status.h`
    pub fn cohort_status_text(status: c_int) -> *const c_char;
    /// `status.h`
    pub fn cohort_status_name(status: c_int) -> *const c_char;
    /// `status.h`
    pub fn cohort_last_error() -> *const c_char;
    /// `abort.h`
    pub fn cohort_comm_abort_handle(comm: *mut cohort_comm) -> *mut cohort_abort;
    /// `abort.h`
    pub fn cohort_abort_create() -> *mut cohort_abort;
    /// `abort.h`
    pub fn cohort_abort_fire(handle: *mut cohort_abort, reason: *const c_char) -> c_int;
    /// `abort.h`
    pub fn cohort_abort_fired(handle: *const cohort_abort) -> c_int;
    /// `abort.h`
    pub fn cohort_abort_put(handle: *mut cohort_abort);
    /// `batch.h`
    pub fn cohort_batch_begin(comm: *mut cohort_comm) -> c_int;
    /// `batch.h`
    pub fn cohort_batch_end(comm: *mut cohort_comm, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `types.h`
    pub fn cohort_type_name(r#type: c_int) -> *const c_char;
    /// `types.h`
    pub fn cohort_type_size(r#type: c_int) -> usize;
    /// `types.h`
    pub fn cohort_op_name(op: c_int) -> *const c_char;
    /// `types.h`
    pub fn cohort_enum_name(of: *const c_char, value: c_int) -> *const c_char;
    /// `types.h`
    pub fn cohort_struct_size(name: *const c_char) -> usize;
    /// `bootstrap.h`
    pub fn cohort_group_process(group: *const cohort_group) -> c_int;
    /// `bootstrap.h`
    pub fn cohort_group_processes(group: *const cohort_group, processes: *mut cohort_process, room: c_int) -> c_int;
    /// `collective.h`
    pub fn cohort_all_reduce(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, op: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_broadcast(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, root: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_reduce(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, op: c_int, root: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_all_gather(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_reduce_scatter(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, op: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_gather(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, root: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_scatter(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, root: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_all_to_all(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_barrier(comm: *mut cohort_comm, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_all_reduce_many(comm: *mut cohort_comm, tensors: *const cohort_tensor, n: usize, op: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_broadcast_many(comm: *mut cohort_comm, tensors: *const cohort_tensor, n: usize, root: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_all_gather_many(comm: *mut cohort_comm, tensors: *const cohort_tensor, n: usize, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_reduce_scatter_many(comm: *mut cohort_comm, tensors: *const cohort_tensor, n: usize, op: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `collective.h`
    pub fn cohort_premul_sum_create(comm: *mut cohort_comm, scalar: *const c_void, r#type: c_int, residence: c_int, op: *mut c_int) -> c_int;
    /// `collective.h`
    pub fn cohort_op_destroy(comm: *mut cohort_comm, op: c_int) -> c_int;
    /// `deadline.h`
    pub fn cohort_deadline_push(comm: *mut cohort_comm, deadlines: *const cohort_deadlines) -> c_int;
    /// `deadline.h`
    pub fn cohort_deadline_pop(comm: *mut cohort_comm) -> c_int;
    /// `deadline.h`
    pub fn cohort_pause(comm: *mut cohort_comm) -> c_int;
    /// `deadline.h`
    pub fn cohort_resume(comm: *mut cohort_comm) -> c_int;
    /// `platform.h`
    pub fn cohort_platform_probe(platform: c_int, info: *mut cohort_platform_info) -> c_int;
    /// `watch.h`
    pub fn cohort_verdict_text(kind: c_int) -> *const c_char;
    /// `watch.h`
    pub fn cohort_group_snapshot(group: *mut cohort_group, ranks: *mut cohort_rank_report, room: c_int, rank_size: usize) -> c_int;
    /// `watch.h`
    pub fn cohort_comm_snapshot(comm: *mut cohort_comm, ranks: *mut cohort_rank_report, room: c_int, rank_size: usize) -> c_int;
    /// `options.h`
    pub fn cohort_group_options_init(options: *mut cohort_group_options);
    /// `comm.h`
    pub fn cohort_unique_id(id: *mut cohort_unique_id) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_join(id: *const cohort_unique_id, nranks: c_int, rank: c_int, device: c_int, options: *const cohort_group_options, comm: *mut *mut cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_rank(comm: *const cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_size(comm: *const cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_device(comm: *const cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_platform(comm: *const cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_launch(comm: *const cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_generation(comm: *const cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_origin(comm: *const cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_group_rank(comm: *const cohort_comm, rank: c_int) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_stream(comm: *mut cohort_comm) -> *mut c_void;
    /// `comm.h`
    pub fn cohort_comm_cause(comm: *mut cohort_comm, cause: *mut cohort_cause) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_bind(comm: *mut cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_unbind(comm: *mut cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_fail(comm: *mut cohort_comm, code: c_int, text: *const c_char) -> c_int;
    /// `comm.h`
    pub fn cohort_tag(comm: *mut cohort_comm, text: *const c_char) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_split(comm: *mut cohort_comm, color: c_int, key: c_int, child: *mut *mut cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_close(comm: *mut cohort_comm) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_native_enter(comm: *mut cohort_comm, nccl_comm: *mut *mut c_void) -> c_int;
    /// `comm.h`
    pub fn cohort_comm_native_leave(comm: *mut cohort_comm) -> c_int;
    /// `device_memory.h`
    pub fn cohort_alloc(comm: *mut cohort_comm, bytes: usize, memory: *mut *mut c_void) -> c_int;
    /// `device_memory.h`
    pub fn cohort_free(comm: *mut cohort_comm, memory: *mut c_void) -> c_int;
    /// `device_memory.h`
    pub fn cohort_quiet_begin() -> c_int;
    /// `device_memory.h`
    pub fn cohort_quiet_end() -> c_int;
    /// `device_memory.h`
    pub fn cohort_alloc_registered(comm: *mut cohort_comm, bytes: usize, memory: *mut *mut c_void) -> c_int;
    /// `device_memory.h`
    pub fn cohort_register(comm: *mut cohort_comm, memory: *mut c_void, bytes: usize, registration: *mut *mut c_void) -> c_int;
    /// `device_memory.h`
    pub fn cohort_deregister(comm: *mut cohort_comm, registration: *mut c_void) -> c_int;
    /// `device_memory.h`
    pub fn cohort_copy(comm: *mut cohort_comm, dst: *mut c_void, src: *const c_void, bytes: usize, stream: *mut c_void) -> c_int;
    /// `dump.h`
    pub fn cohort_dump(group: *mut cohort_group, directory: *const c_char) -> c_int;
    /// `group.h`
    pub fn cohort_group_open(devices: *const c_int, n: c_int, options: *const cohort_group_options, group: *mut *mut cohort_group) -> c_int;
    /// `group.h`
    pub fn cohort_group_close(group: *mut cohort_group) -> c_int;
    /// `group.h`
    pub fn cohort_group_split(group: *mut cohort_group, comms: *mut *mut cohort_comm) -> c_int;
    /// `group.h`
    pub fn cohort_group_run(group: *mut cohort_group, worker: cohort_worker_fn, user: *mut c_void, cause: *mut cohort_cause) -> c_int;
    /// `group.h`
    pub fn cohort_group_respawn(group: *mut cohort_group, lost_ranks: *const c_int, n: c_int) -> c_int;
    /// `group.h`
    pub fn cohort_group_abort(group: *mut cohort_group, reason: *const c_char) -> c_int;
    /// `group.h`
    pub fn cohort_group_size(group: *const cohort_group) -> c_int;
    /// `group.h`
    pub fn cohort_group_platform(group: *const cohort_group) -> c_int;
    /// `group.h`
    pub fn cohort_group_devices(group: *const cohort_group, devices: *mut c_int) -> c_int;
    /// `group.h`
    pub fn cohort_group_cause(group: *const cohort_group, cause: *mut cohort_cause) -> c_int;
    /// `group.h`
    pub fn cohort_group_launch(group: *const cohort_group) -> c_int;
    /// `group.h`
    pub fn cohort_group_generation(group: *const cohort_group) -> c_int;
    /// `group.h`
    pub fn cohort_group_abandoned(group: *const cohort_group, ranks: *mut c_int, room: c_int) -> c_int;
    /// `group.h`
    pub fn cohort_group_lost(group: *const cohort_group, ranks: *mut c_int, room: c_int) -> c_int;
    /// `group.h`
    pub fn cohort_group_all_reduce(group: *mut cohort_group, send: *const *const c_void, recv: *const *mut c_void, count: usize, r#type: c_int, op: c_int, streams: *const *mut c_void, ticket: *mut u64) -> c_int;
    /// `group.h`
    pub fn cohort_group_broadcast(group: *mut cohort_group, send: *const *const c_void, recv: *const *mut c_void, count: usize, r#type: c_int, root: c_int, streams: *const *mut c_void, ticket: *mut u64) -> c_int;
    /// `group.h`
    pub fn cohort_group_alloc(group: *mut cohort_group, bytes: usize, memory: *mut *mut c_void) -> c_int;
    /// `group.h`
    pub fn cohort_group_free(group: *mut cohort_group, memory: *mut *mut c_void) -> c_int;
    /// `group.h`
    pub fn cohort_group_copy(group: *mut cohort_group, dst: *const *mut c_void, src: *const *const c_void, bytes: usize, streams: *const *mut c_void, ticket: *mut u64) -> c_int;
    /// `group.h`
    pub fn cohort_group_stream(group: *const cohort_group, rank: c_int) -> *mut c_void;
    /// `group.h`
    pub fn cohort_group_wait(group: *mut cohort_group, ticket: u64, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_all_reduce_host(comm: *mut cohort_comm, data: *mut c_void, count: usize, r#type: c_int, op: c_int, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_broadcast_host(comm: *mut cohort_comm, data: *mut c_void, count: usize, r#type: c_int, root: c_int, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_reduce_host(comm: *mut cohort_comm, data: *mut c_void, count: usize, r#type: c_int, op: c_int, root: c_int, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_all_gather_host(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_reduce_scatter_host(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, op: c_int, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_gather_host(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, root: c_int, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_scatter_host(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, root: c_int, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_all_to_all_host(comm: *mut cohort_comm, send: *const c_void, recv: *mut c_void, count: usize, r#type: c_int, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_send_host(comm: *mut cohort_comm, send: *const c_void, count: usize, r#type: c_int, peer: c_int, timeout_ns: u64) -> c_int;
    /// `host_memory.h`
    pub fn cohort_recv_host(comm: *mut cohort_comm, recv: *mut c_void, count: usize, r#type: c_int, peer: c_int, timeout_ns: u64) -> c_int;
    /// `p2p.h`
    pub fn cohort_send(comm: *mut cohort_comm, send: *const c_void, count: usize, r#type: c_int, peer: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `p2p.h`
    pub fn cohort_recv(comm: *mut cohort_comm, recv: *mut c_void, count: usize, r#type: c_int, peer: c_int, stream: *mut c_void, ticket: *mut u64) -> c_int;
    /// `stats.h`
    pub fn cohort_stats(comm: *mut cohort_comm, stats: *mut cohort_stats) -> c_int;
    /// `stats.h`
    pub fn cohort_stats_write(group: *mut cohort_group, fd: c_int) -> c_int;
    /// `ticket.h`
    pub fn cohort_wait(comm: *mut cohort_comm, ticket: u64, timeout_ns: u64) -> c_int;
    /// `ticket.h`
    pub fn cohort_synchronize(comm: *mut cohort_comm, timeout_ns: u64) -> c_int;
    /// `ticket.h`
    pub fn cohort_stream_after(comm: *mut cohort_comm, ticket: u64, stream: *mut c_void) -> c_int;
    /// `ticket.h`
    pub fn cohort_after_stream(comm: *mut cohort_comm, stream: *mut c_void) -> c_int;
    /// `version.h`
    pub fn cohort_version() -> *const c_char;
    /// `reducer.h`
    pub fn cohort_reducer_options_init(options: *mut cohort_reducer_options);
    /// `reducer.h`
    pub fn cohort_reducer_create(comm: *mut cohort_comm, parameters: *const cohort_parameter, n: usize, options: *const cohort_reducer_options, reducer: *mut *mut cohort_reducer) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_free(reducer: *mut cohort_reducer) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_begin(reducer: *mut cohort_reducer, stream: *mut c_void) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_begin_weighted(reducer: *mut cohort_reducer, weight: f64, stream: *mut c_void) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_accumulate(reducer: *mut cohort_reducer) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_ready(reducer: *mut cohort_reducer, i: usize) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_progress(reducer: *mut cohort_reducer, timeout_ns: u64) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_finish(reducer: *mut cohort_reducer, timeout_ns: u64) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_cancel(reducer: *mut cohort_reducer, timeout_ns: u64) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_finish_on(reducer: *mut cohort_reducer, stream: *mut c_void) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_join(reducer: *mut cohort_reducer, timeout_ns: u64) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_gather(reducer: *mut cohort_reducer, parameters: *const *mut c_void, stream: *mut c_void, timeout_ns: u64) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_shard(reducer: *const cohort_reducer, i: usize, first: *mut usize, count: *mut usize) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_view(reducer: *const cohort_reducer, i: usize) -> *mut c_void;
    /// `reducer.h`
    pub fn cohort_reducer_used(reducer: *const cohort_reducer, i: usize) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_buckets(reducer: *const cohort_reducer) -> c_int;
    /// `reducer.h`
    pub fn cohort_reducer_bucket(reducer: *const cohort_reducer, i: usize) -> c_int;
    /// `sim.h`
    pub fn cohort_sim_set_devices(n: c_int) -> c_int;
    /// `sim.h`
    pub fn cohort_sim_set_sync(sync: c_int) -> c_int;
    /// `sim.h`
    pub fn cohort_sim_fault_add(fault: *const cohort_fault) -> c_int;
    /// `sim.h`
    pub fn cohort_sim_faults_clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! offset {
        ($type:ident, $field:ident, $offset:expr) => {{
            let value = std::mem::MaybeUninit::<$type>::uninit();
            let base = value.as_ptr();
            // SAFETY: `base` points to memory of the struct; no reference is made, and
            // nothing is read.
            let field = unsafe { std::ptr::addr_of!((*base).$field) };
            assert_eq!(field as usize - base as usize, $offset, stringify!($type.$field));
        }};
    }

    macro_rules! size {
        ($type:ident) => {
            let name = concat!(stringify!($type), "\0");
            // SAFETY: `name` is a string of C.
            let size = unsafe { cohort_struct_size(name.as_ptr().cast()) };
            assert_eq!(size, size_of::<$type>(), "{name}");
        };
    }

    #[test]
    fn the_library_has_these_sizes() {
        size!(cohort_bootstrap);
        size!(cohort_process);
        size!(cohort_tensor);
        size!(cohort_deadlines);
        size!(cohort_platform_info);
        size!(cohort_rank_report);
        size!(cohort_verdict);
        size!(cohort_cause);
        size!(cohort_group_options);
        size!(cohort_unique_id);
        size!(cohort_stats);
        size!(cohort_parameter);
        size!(cohort_reducer_options);
        size!(cohort_fault);
    }

    #[test]
    fn fields_are_where_c_has_them() {
        offset!(cohort_bootstrap, size, 0);
        offset!(cohort_bootstrap, kind, 8);
        offset!(cohort_bootstrap, process, 12);
        offset!(cohort_bootstrap, processes, 16);
        offset!(cohort_bootstrap, allgather, 24);
        offset!(cohort_bootstrap, req_test, 32);
        offset!(cohort_bootstrap, req_free, 40);
        offset!(cohort_bootstrap, info, 48);
        offset!(cohort_bootstrap, reserved, 56);
        offset!(cohort_process, first_rank, 0);
        offset!(cohort_process, ranks, 4);
        offset!(cohort_process, watched, 8);
        offset!(cohort_process, pid, 16);
        offset!(cohort_process, host, 24);
        offset!(cohort_process, reserved, 88);
        offset!(cohort_tensor, send, 0);
        offset!(cohort_tensor, recv, 8);
        offset!(cohort_tensor, count, 16);
        offset!(cohort_tensor, r#type, 24);
        offset!(cohort_deadlines, init_ns, 0);
        offset!(cohort_deadlines, join_ns, 8);
        offset!(cohort_deadlines, exec_ns, 16);
        offset!(cohort_deadlines, close_ns, 24);
        offset!(cohort_deadlines, abort_ns, 32);
        offset!(cohort_deadlines, reserved, 40);
        offset!(cohort_platform_info, size, 0);
        offset!(cohort_platform_info, platform, 8);
        offset!(cohort_platform_info, status, 12);
        offset!(cohort_platform_info, reason, 16);
        offset!(cohort_platform_info, devices, 272);
        offset!(cohort_platform_info, nccl_version, 276);
        offset!(cohort_platform_info, runtime_version, 280);
        offset!(cohort_platform_info, driver_version, 284);
        offset!(cohort_platform_info, nccl_file, 288);
        offset!(cohort_platform_info, runtime_file, 296);
        offset!(cohort_platform_info, notes, 304);
        offset!(cohort_platform_info, is_drop_in, 312);
        offset!(cohort_platform_info, launch, 316);
        offset!(cohort_platform_info, reserved, 320);
        offset!(cohort_rank_report, rank, 0);
        offset!(cohort_rank_report, device, 4);
        offset!(cohort_rank_report, joined, 8);
        offset!(cohort_rank_report, started, 12);
        offset!(cohort_rank_report, done, 16);
        offset!(cohort_rank_report, alive, 20);
        offset!(cohort_rank_report, inside, 24);
        offset!(cohort_rank_report, tid, 28);
        offset!(cohort_rank_report, thread, 32);
        offset!(cohort_rank_report, ticket, 48);
        offset!(cohort_rank_report, age_ns, 56);
        offset!(cohort_rank_report, call, 64);
        offset!(cohort_rank_report, tag, 160);
        offset!(cohort_rank_report, state, 208);
        offset!(cohort_rank_report, stack, 272);
        offset!(cohort_rank_report, bound, 280);
        offset!(cohort_rank_report, label, 284);
        offset!(cohort_rank_report, text, 332);
        offset!(cohort_rank_report, reserved, 848);
        offset!(cohort_verdict, kind, 0);
        offset!(cohort_verdict, stage, 4);
        offset!(cohort_verdict, rank, 8);
        offset!(cohort_verdict, generation, 12);
        offset!(cohort_verdict, group, 16);
        offset!(cohort_verdict, collective, 24);
        offset!(cohort_verdict, time_ns, 32);
        offset!(cohort_verdict, since_ns, 40);
        offset!(cohort_verdict, deadline_ns, 48);
        offset!(cohort_verdict, joined, 56);
        offset!(cohort_verdict, missing, 184);
        offset!(cohort_verdict, size, 312);
        offset!(cohort_verdict, ranks, 320);
        offset!(cohort_verdict, text, 328);
        offset!(cohort_verdict, rank_size, 336);
        offset!(cohort_verdict, line, 344);
        offset!(cohort_verdict, world_rank, 352);
        offset!(cohort_verdict, reserved, 360);
        offset!(cohort_cause, status, 0);
        offset!(cohort_cause, kind, 4);
        offset!(cohort_cause, rank, 8);
        offset!(cohort_cause, nccl, 12);
        offset!(cohort_cause, cuda, 16);
        offset!(cohort_cause, worker, 20);
        offset!(cohort_cause, ticket, 24);
        offset!(cohort_cause, collective, 32);
        offset!(cohort_cause, time_ns, 40);
        offset!(cohort_cause, since_ns, 48);
        offset!(cohort_cause, deadline_ns, 56);
        offset!(cohort_cause, joined, 64);
        offset!(cohort_cause, missing, 192);
        offset!(cohort_cause, text, 320);
        offset!(cohort_cause, world_rank, 1344);
        offset!(cohort_cause, details, 1348);
        offset!(cohort_cause, reserved, 3400);
        offset!(cohort_group_options, size, 0);
        offset!(cohort_group_options, name, 8);
        offset!(cohort_group_options, platform, 16);
        offset!(cohort_group_options, recorder_slots, 20);
        offset!(cohort_group_options, deadlines, 24);
        offset!(cohort_group_options, policy, 152);
        offset!(cohort_group_options, warn_percent, 156);
        offset!(cohort_group_options, on_verdict, 160);
        offset!(cohort_group_options, user, 168);
        offset!(cohort_group_options, nccl_config, 176);
        offset!(cohort_group_options, stream_priority, 184);
        offset!(cohort_group_options, no_start_marks, 188);
        offset!(cohort_group_options, allow_capture, 192);
        offset!(cohort_group_options, dump_signal, 196);
        offset!(cohort_group_options, dump_directory, 200);
        offset!(cohort_group_options, dump_fifo, 208);
        offset!(cohort_group_options, on_abort, 216);
        offset!(cohort_group_options, on_slow, 224);
        offset!(cohort_group_options, slow_ns, 232);
        offset!(cohort_group_options, stack_signal, 240);
        offset!(cohort_group_options, many, 244);
        offset!(cohort_group_options, adaptive_factor, 248);
        offset!(cohort_group_options, adaptive_warmup, 252);
        offset!(cohort_group_options, adaptive_floor_ns, 256);
        offset!(cohort_group_options, launch, 264);
        offset!(cohort_group_options, connect, 268);
        offset!(cohort_group_options, bootstrap, 272);
        offset!(cohort_group_options, abort, 280);
        offset!(cohort_group_options, log, 288);
        offset!(cohort_group_options, reserved, 296);
        offset!(cohort_unique_id, bytes, 0);
        offset!(cohort_stats, size, 0);
        offset!(cohort_stats, operations, 8);
        offset!(cohort_stats, collectives, 16);
        offset!(cohort_stats, transfers, 24);
        offset!(cohort_stats, bytes, 32);
        offset!(cohort_stats, waits, 40);
        offset!(cohort_stats, captured, 48);
        offset!(cohort_stats, lost_records, 56);
        offset!(cohort_stats, slow, 64);
        offset!(cohort_stats, warnings, 72);
        offset!(cohort_stats, aborts, 80);
        offset!(cohort_stats, verdicts, 88);
        offset!(cohort_stats, stops, 344);
        offset!(cohort_stats, starved, 352);
        offset!(cohort_stats, reserved, 360);
        offset!(cohort_parameter, name, 0);
        offset!(cohort_parameter, gradient, 8);
        offset!(cohort_parameter, count, 16);
        offset!(cohort_parameter, r#type, 24);
        offset!(cohort_reducer_options, size, 0);
        offset!(cohort_reducer_options, first_bytes, 8);
        offset!(cohort_reducer_options, bucket_bytes, 16);
        offset!(cohort_reducer_options, op, 24);
        offset!(cohort_reducer_options, weighted, 28);
        offset!(cohort_reducer_options, find_unused, 32);
        offset!(cohort_reducer_options, keep_plan, 36);
        offset!(cohort_reducer_options, helpers_launch, 40);
        offset!(cohort_reducer_options, sharded, 44);
        offset!(cohort_reducer_options, full_buckets, 48);
        offset!(cohort_reducer_options, reserved, 56);
        offset!(cohort_fault, rank, 0);
        offset!(cohort_fault, operation, 8);
        offset!(cohort_fault, kind, 16);
        offset!(cohort_fault, value, 24);
    }
}
