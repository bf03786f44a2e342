# SPDX-License-Identifier: Apache-2.0
"""The C API, made from cohort_abi.json by generate.py: do not edit."""

import ctypes
import enum
from typing import Any, Dict, List, Tuple

VERSION = "0.2.0"
NO_COLOR = -1
SIM_MAX_DEVICES = 1024
CAPTURED = 18446744073709551615
FOREVER = 18446744073709551615
MAX_RANKS = 1024
RANK_WORDS = 16
VERSION_MAJOR = 0
VERSION_MINOR = 2
VERSION_PATCH = 0


class Status(enum.IntEnum):
    """enum cohort_status of status.h"""

    JOINED = 4
    SKIP = 3
    TIMED_OUT = 2
    ALREADY = 1
    OK = 0
    INVALID = -1
    STATE = -2
    NO_MEMORY = -3
    BUSY = -4
    OWNER = -5
    UNSUPPORTED = -6
    NO_LIBRARY = -7
    NO_SYMBOL = -8
    NO_DEVICE = -9
    CUDA = -10
    NCCL = -11
    SYSTEM = -12
    ABORTED = -13
    WORKER = -14
    WEDGED = -15
    MISMATCH = -16
    FORKED = -17
    THREAD_EXITED = -18
    STALLED = -19
    INIT_TIMEOUT = -20
    STALE = -21
    PROCESS_EXITED = -22


class Type(enum.IntEnum):
    """enum cohort_type of types.h"""

    I8 = 0
    U8 = 1
    I32 = 2
    U32 = 3
    I64 = 4
    U64 = 5
    F16 = 6
    F32 = 7
    F64 = 8
    BF16 = 9
    F8E4M3 = 10
    F8E5M2 = 11
    BOOL = 16
    I16 = 17
    U16 = 18
    C64 = 19
    C128 = 20


class Op(enum.IntEnum):
    """enum cohort_op of types.h"""

    SUM = 0
    PROD = 1
    MAX = 2
    MIN = 3
    AVG = 4


class BootstrapKind(enum.IntEnum):
    """enum cohort_bootstrap_kind of bootstrap.h"""

    TABLE = 1
    ENV = 2
    PMIX = 3
    AUTO = 4


class Scalar(enum.IntEnum):
    """enum cohort_scalar of collective.h"""

    DEVICE = 0
    HOST = 1


class Platform(enum.IntEnum):
    """enum cohort_platform of platform.h"""

    AUTO = 0
    GPU = 1
    HOST = 2


class Policy(enum.IntEnum):
    """enum cohort_policy of watch.h"""

    ABORT = 0
    REPORT = 1
    ASK = 2


class VerdictKind(enum.IntEnum):
    """enum cohort_verdict_kind of watch.h"""

    NONE = 0
    NEVER_CALLED = 1
    DIFFERENT_CALL = 2
    NOT_STARTED = 3
    NOT_FINISHED = 4
    OUTSIDE = 5
    THREAD_EXITED = 6
    ASYNC_ERROR = 7
    NATIVE_ERROR = 8
    INIT_STUCK = 9
    WEDGED = 10
    WORKER = 11
    ABORTED = 12
    PROBER_STUCK = 13
    CYCLE = 14
    ORDER = 15
    CUDA_ERROR = 16
    DEVICE_LOST = 17
    GRAPH_ALIVE = 18
    CLOSE_STUCK = 19
    REMOTE = 20
    PROCESS_EXITED = 21
    LEFT = 22
    PROCESS_STOPPED = 23


class Stage(enum.IntEnum):
    """enum cohort_stage of watch.h"""

    SLOW = 0
    WARNING = 1
    EXPIRED = 2
    ENDED = 3


class Stack(enum.IntEnum):
    """enum cohort_stack of options.h"""

    ALL = 65536


class Many(enum.IntEnum):
    """enum cohort_many of options.h"""

    AUTO = 0
    GROUP = 1
    FLAT = 2


class Launch(enum.IntEnum):
    """enum cohort_launch of options.h"""

    DEFAULT = 0
    TOGETHER = 1
    AHEAD = 2


class Connect(enum.IntEnum):
    """enum cohort_connect of options.h"""

    DEFAULT = 0
    COLLECTIVES = 1
    ALL = 2
    NONE = 3


class FaultKind(enum.IntEnum):
    """enum cohort_fault_kind of sim.h"""

    NEVER = 1
    DELAY = 2
    ERROR = 3
    STUCK = 4
    DIE = 5
    ASYNC = 6
    HUNG = 7
    INIT = 8
    MEMORY = 9
    ARGUMENT = 10
    INIT_ERROR = 11
    DEVICE = 12
    PATH = 13
    GARBLE = 14


cohort_bootstrap_allgather = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p))


cohort_bootstrap_req_test = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p)


cohort_bootstrap_req_free = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p)


cohort_worker_fn = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class cohort_process(ctypes.Structure):
    """struct cohort_process of bootstrap.h"""

    _fields_ = [
        ("first_rank", ctypes.c_int),
        ("ranks", ctypes.c_int),
        ("watched", ctypes.c_int),
        ("pid", ctypes.c_int64),
        ("host", ctypes.c_char * 64),
        ("reserved", ctypes.c_uint64 * 5),
    ]


class cohort_tensor(ctypes.Structure):
    """struct cohort_tensor of collective.h"""

    _fields_ = [
        ("send", ctypes.c_void_p),
        ("recv", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("type", ctypes.c_int),
    ]


class cohort_deadlines(ctypes.Structure):
    """struct cohort_deadlines of deadline.h"""

    _fields_ = [
        ("init_ns", ctypes.c_uint64),
        ("join_ns", ctypes.c_uint64),
        ("exec_ns", ctypes.c_uint64),
        ("close_ns", ctypes.c_uint64),
        ("abort_ns", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 11),
    ]


class cohort_platform_info(ctypes.Structure):
    """struct cohort_platform_info of platform.h"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("platform", ctypes.c_int),
        ("status", ctypes.c_int),
        ("reason", ctypes.c_char * 256),
        ("devices", ctypes.c_int),
        ("nccl_version", ctypes.c_int),
        ("runtime_version", ctypes.c_int),
        ("driver_version", ctypes.c_int),
        ("nccl_file", ctypes.c_char_p),
        ("runtime_file", ctypes.c_char_p),
        ("notes", ctypes.c_char_p),
        ("is_drop_in", ctypes.c_int),
        ("launch", ctypes.c_int),
        ("reserved", ctypes.c_uint64 * 4),
    ]


class cohort_rank_report(ctypes.Structure):
    """struct cohort_rank_report of watch.h"""

    _fields_ = [
        ("rank", ctypes.c_int),
        ("device", ctypes.c_int),
        ("joined", ctypes.c_int),
        ("started", ctypes.c_int),
        ("done", ctypes.c_int),
        ("alive", ctypes.c_int),
        ("inside", ctypes.c_int),
        ("tid", ctypes.c_int),
        ("thread", ctypes.c_char * 16),
        ("ticket", ctypes.c_uint64),
        ("age_ns", ctypes.c_uint64),
        ("call", ctypes.c_char * 96),
        ("tag", ctypes.c_char * 48),
        ("state", ctypes.c_char * 64),
        ("stack", ctypes.c_char_p),
        ("bound", ctypes.c_int),
        ("label", ctypes.c_char * 48),
        ("text", ctypes.c_char * 512),
        ("reserved", ctypes.c_uint64 * 3),
    ]


class cohort_cause(ctypes.Structure):
    """struct cohort_cause of watch.h"""

    _fields_ = [
        ("status", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("nccl", ctypes.c_int),
        ("cuda", ctypes.c_int),
        ("worker", ctypes.c_int),
        ("ticket", ctypes.c_uint64),
        ("collective", ctypes.c_uint64),
        ("time_ns", ctypes.c_uint64),
        ("since_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("joined", ctypes.c_uint64 * 16),
        ("missing", ctypes.c_uint64 * 16),
        ("text", ctypes.c_char * 1024),
        ("world_rank", ctypes.c_int),
        ("details", ctypes.c_char * 2048),
        ("reserved", ctypes.c_uint64 * 15),
    ]


class cohort_unique_id(ctypes.Structure):
    """struct cohort_unique_id of comm.h"""

    _fields_ = [
        ("bytes", ctypes.c_ubyte * 192),
    ]


class cohort_stats(ctypes.Structure):
    """struct cohort_stats of stats.h"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("operations", ctypes.c_uint64),
        ("collectives", ctypes.c_uint64),
        ("transfers", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("waits", ctypes.c_uint64),
        ("captured", ctypes.c_uint64),
        ("lost_records", ctypes.c_uint64),
        ("slow", ctypes.c_uint64),
        ("aborts", ctypes.c_uint64),
        ("verdicts", ctypes.c_uint64 * 32),
        ("stops", ctypes.c_uint64),
        ("starved", ctypes.c_uint64),
        ("reserved", ctypes.c_uint64 * 6),
    ]


class cohort_parameter(ctypes.Structure):
    """struct cohort_parameter of reducer.h"""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("gradient", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("type", ctypes.c_int),
    ]


class cohort_reducer_options(ctypes.Structure):
    """struct cohort_reducer_options of reducer.h"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("first_bytes", ctypes.c_size_t),
        ("bucket_bytes", ctypes.c_size_t),
        ("op", ctypes.c_int),
        ("weighted", ctypes.c_int),
        ("find_unused", ctypes.c_int),
        ("keep_plan", ctypes.c_int),
        ("helpers_launch", ctypes.c_int),
        ("sharded", ctypes.c_int),
        ("full_buckets", ctypes.c_int),
        ("reserved", ctypes.c_uint64 * 7),
    ]


class cohort_fault(ctypes.Structure):
    """struct cohort_fault of sim.h"""

    _fields_ = [
        ("rank", ctypes.c_int),
        ("operation", ctypes.c_uint64),
        ("kind", ctypes.c_int),
        ("value", ctypes.c_uint64),
    ]


class cohort_bootstrap(ctypes.Structure):
    """struct cohort_bootstrap of bootstrap.h"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("process", ctypes.c_int),
        ("processes", ctypes.c_int),
        ("allgather", cohort_bootstrap_allgather),
        ("req_test", cohort_bootstrap_req_test),
        ("req_free", cohort_bootstrap_req_free),
        ("info", ctypes.c_void_p),
        ("reserved", ctypes.c_uint64 * 9),
    ]


class cohort_verdict(ctypes.Structure):
    """struct cohort_verdict of watch.h"""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("stage", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("generation", ctypes.c_int),
        ("group", ctypes.c_char_p),
        ("collective", ctypes.c_uint64),
        ("time_ns", ctypes.c_uint64),
        ("since_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("joined", ctypes.c_uint64 * 16),
        ("missing", ctypes.c_uint64 * 16),
        ("size", ctypes.c_int),
        ("ranks", ctypes.POINTER(cohort_rank_report)),
        ("text", ctypes.c_char_p),
        ("rank_size", ctypes.c_uint64),
        ("line", ctypes.c_char_p),
        ("world_rank", ctypes.c_int),
        ("call", ctypes.c_char_p),
        ("reserved", ctypes.c_uint64 * 4),
    ]


cohort_verdict_fn = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(cohort_verdict), ctypes.c_void_p)


class cohort_group_options(ctypes.Structure):
    """struct cohort_group_options of options.h"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("platform", ctypes.c_int),
        ("recorder_slots", ctypes.c_uint),
        ("deadlines", cohort_deadlines),
        ("policy", ctypes.c_int),
        ("on_verdict", cohort_verdict_fn),
        ("user", ctypes.c_void_p),
        ("slow_ns", ctypes.c_uint64),
        ("nccl_config", ctypes.c_void_p),
        ("no_start_marks", ctypes.c_int),
        ("allow_capture", ctypes.c_int),
        ("dump_signal", ctypes.c_int),
        ("dump_directory", ctypes.c_char_p),
        ("dump_fifo", ctypes.c_char_p),
        ("stack_signal", ctypes.c_int),
        ("many", ctypes.c_int),
        ("adaptive_factor", ctypes.c_uint),
        ("adaptive_warmup", ctypes.c_uint),
        ("adaptive_floor_ns", ctypes.c_uint64),
        ("launch", ctypes.c_int),
        ("connect", ctypes.c_int),
        ("bootstrap", ctypes.POINTER(cohort_bootstrap)),
        ("abort", ctypes.c_void_p),
        ("log", ctypes.c_char_p),
        ("reserved", ctypes.c_uint64 * 30),
    ]


# Result and arguments of each function.
FUNCTIONS: Dict[str, Tuple[Any, List[Any]]] = {
    "cohort_status_text": (ctypes.c_char_p, [
        ctypes.c_int]),
    "cohort_status_name": (ctypes.c_char_p, [
        ctypes.c_int]),
    "cohort_last_error": (ctypes.c_char_p, []),
    "cohort_comm_abort_handle": (ctypes.c_void_p, [
        ctypes.c_void_p]),
    "cohort_abort_create": (ctypes.c_void_p, []),
    "cohort_abort_fire": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_char_p]),
    "cohort_abort_fired": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_abort_put": (None, [
        ctypes.c_void_p]),
    "cohort_batch_begin": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_batch_end": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_type_name": (ctypes.c_char_p, [
        ctypes.c_int]),
    "cohort_type_size": (ctypes.c_size_t, [
        ctypes.c_int]),
    "cohort_op_name": (ctypes.c_char_p, [
        ctypes.c_int]),
    "cohort_struct_size": (ctypes.c_size_t, [
        ctypes.c_char_p]),
    "cohort_group_process": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_group_processes": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_process), ctypes.c_int]),
    "cohort_all_reduce": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_broadcast": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_reduce": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_all_gather": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_reduce_scatter": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_gather": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_scatter": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_all_to_all": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_barrier": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_all_reduce_many": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_tensor), ctypes.c_size_t, ctypes.c_int,
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_broadcast_many": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_tensor), ctypes.c_size_t, ctypes.c_int,
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_premul_sum_create": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int,
        ctypes.POINTER(ctypes.c_int)]),
    "cohort_op_destroy": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_int]),
    "cohort_deadline_push": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_deadlines)]),
    "cohort_deadline_pop": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_pause": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_resume": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_platform_probe": (ctypes.c_int, [
        ctypes.c_int, ctypes.POINTER(cohort_platform_info)]),
    "cohort_verdict_text": (ctypes.c_char_p, [
        ctypes.c_int]),
    "cohort_group_snapshot": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_rank_report), ctypes.c_int, ctypes.c_size_t]),
    "cohort_comm_snapshot": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_rank_report), ctypes.c_int, ctypes.c_size_t]),
    "cohort_group_options_init": (None, [
        ctypes.POINTER(cohort_group_options)]),
    "cohort_unique_id": (ctypes.c_int, [
        ctypes.c_int, ctypes.POINTER(cohort_unique_id)]),
    "cohort_comm_join": (ctypes.c_int, [
        ctypes.POINTER(cohort_unique_id), ctypes.c_int, ctypes.c_int, ctypes.c_int,
        ctypes.POINTER(cohort_group_options), ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_comm_rank": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_comm_size": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_comm_device": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_comm_platform": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_comm_generation": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_comm_origin": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_comm_group_rank": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_int]),
    "cohort_comm_stream": (ctypes.c_void_p, [
        ctypes.c_void_p]),
    "cohort_comm_cause": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_cause)]),
    "cohort_comm_bind": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_comm_unbind": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_comm_fail": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]),
    "cohort_tag": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_char_p]),
    "cohort_comm_split": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_comm_subset": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_unique_id), ctypes.POINTER(ctypes.c_int),
        ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_comm_close": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_comm_native_enter": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_comm_native_leave": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_alloc": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_free": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p]),
    "cohort_quiet_begin": (ctypes.c_int, []),
    "cohort_quiet_end": (ctypes.c_int, []),
    "cohort_alloc_registered": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_register": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_deregister": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p]),
    "cohort_copy": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]),
    "cohort_dump": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_char_p]),
    "cohort_group_open": (ctypes.c_int, [
        ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.POINTER(cohort_group_options),
        ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_group_close": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_group_split": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_group_run": (ctypes.c_int, [
        ctypes.c_void_p, cohort_worker_fn, ctypes.c_void_p, ctypes.POINTER(cohort_cause)]),
    "cohort_group_respawn": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.c_int]),
    "cohort_group_abort": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_char_p]),
    "cohort_group_size": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_group_platform": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_group_devices": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]),
    "cohort_group_cause": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_cause)]),
    "cohort_group_generation": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_group_abandoned": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.c_int]),
    "cohort_group_lost": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.c_int]),
    "cohort_group_all_reduce": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_group_broadcast": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_group_alloc": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_group_free": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_group_copy": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_group_stream": (ctypes.c_void_p, [
        ctypes.c_void_p, ctypes.c_int]),
    "cohort_group_wait": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]),
    "cohort_all_reduce_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
        ctypes.c_uint64]),
    "cohort_broadcast_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
        ctypes.c_uint64]),
    "cohort_reduce_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
        ctypes.c_int, ctypes.c_uint64]),
    "cohort_all_gather_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_uint64]),
    "cohort_reduce_scatter_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_int, ctypes.c_uint64]),
    "cohort_gather_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_int, ctypes.c_uint64]),
    "cohort_scatter_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_int, ctypes.c_uint64]),
    "cohort_all_to_all_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
        ctypes.c_uint64]),
    "cohort_send_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
        ctypes.c_uint64]),
    "cohort_recv_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
        ctypes.c_uint64]),
    "cohort_wait_host": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64]),
    "cohort_send": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_recv": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]),
    "cohort_stats": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_stats)]),
    "cohort_wait": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]),
    "cohort_synchronize": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_uint64]),
    "cohort_stream_after": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p]),
    "cohort_after_stream": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p]),
    "cohort_version": (ctypes.c_char_p, []),
    "cohort_reducer_options_init": (None, [
        ctypes.POINTER(cohort_reducer_options)]),
    "cohort_reducer_create": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(cohort_parameter), ctypes.c_size_t,
        ctypes.POINTER(cohort_reducer_options), ctypes.POINTER(ctypes.c_void_p)]),
    "cohort_reducer_free": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_reducer_begin": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p]),
    "cohort_reducer_begin_weighted": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_double, ctypes.c_void_p]),
    "cohort_reducer_accumulate": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_reducer_ready": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_size_t]),
    "cohort_reducer_progress": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_uint64]),
    "cohort_reducer_finish": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_uint64]),
    "cohort_reducer_cancel": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_uint64]),
    "cohort_reducer_finish_on": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_void_p]),
    "cohort_reducer_join": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_uint64]),
    "cohort_reducer_gather": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_uint64]),
    "cohort_reducer_shard": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t),
        ctypes.POINTER(ctypes.c_size_t)]),
    "cohort_reducer_view": (ctypes.c_void_p, [
        ctypes.c_void_p, ctypes.c_size_t]),
    "cohort_reducer_used": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_size_t]),
    "cohort_reducer_buckets": (ctypes.c_int, [
        ctypes.c_void_p]),
    "cohort_reducer_bucket": (ctypes.c_int, [
        ctypes.c_void_p, ctypes.c_size_t]),
    "cohort_sim_set_devices": (ctypes.c_int, [
        ctypes.c_int]),
    "cohort_sim_fault_add": (ctypes.c_int, [
        ctypes.POINTER(cohort_fault)]),
    "cohort_sim_faults_clear": (None, []),
}
