/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Wrappers of NCCL's functions: each records the call and passes it to NCCL
 *
 * The table at the end has a row for each function in platform/functions.h,
 * which has the signatures.
 *
 * The calls of a group are launched when the group ends, so the marks of
 * these calls are queued after the end of the group.
 */

#include <cohort/cohort.h>
#include <dlfcn.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "base/util.h"
#include "platform/functions.h"
#include "shim/watched.h"

/* Name under which NCCL's library is found, as in mk/build.mk. */
#define REAL "libcohort-watched-nccl.so"

/* NCCL's own functions.  Constant after the constructor; NULL if this NCCL does
 * not have the function. */
#define POINTER(since, result, name, parameters, arguments)                    \
	result(*name) parameters;
static struct {
	NCCL_FUNCTIONS(POINTER)
} real;

__attribute__((constructor)) static void find_real(void)
{
	void *library = dlopen(REAL, RTLD_NOW | RTLD_NOLOAD);

#define FIND(since, result, name, parameters, arguments)                       \
	*(void **)&real.name = dlsym(library, #name);
	if (library) {
		NCCL_FUNCTIONS(FIND)
	}
}

/* ---- groups -------------------------------------------------------------- */

/* The calls of a thread's open group to one communicator. */
struct member {
	struct watched *w; /* retained if the group makes calls */
	struct watched_calls calls;

	/* Where NCCL will store the communicator that the group creates, or
	 * NULL if the group makes calls. */
	ncclComm_t *comm;

	/* Parent of the communicator that the group creates, or NULL. */
	struct watched *parent;
	bool is_refused; /* the communicator was aborted */
};

#define MEMBERS 64

/* The open group of a thread. */
static _Thread_local struct group {
	int depth;
	/* Number of NCCL's own functions that the thread is inside.  Calls that
	 * NCCL makes itself are not recorded. */
	int inside;
	int n;
	struct member members[MEMBERS];
} group;

/* Query the properties of a communicator, unless it is still being created,
 * because NCCL would then print a warning and change its last error. */
static void describe(struct watched *w, ncclComm_t comm)
{
	int rank = -1, ranks = -1, device = -1, version = 0;
	ncclResult_t state = ncclSuccess;

	/* Do not record calls that NCCL's functions make themselves. */
	group.inside++;
	if (!real.ncclGetVersion(&version))
		atomic_store(&w->shared->nccl, version);
	if (real.ncclCommGetAsyncError)
		real.ncclCommGetAsyncError(comm, &state);
	if (!state && !real.ncclCommUserRank(comm, &rank) &&
	    !real.ncclCommCount(comm, &ranks) &&
	    !real.ncclCommCuDevice(comm, &device))
		watched_describe(w, rank, ranks, device);
	group.inside--;
}

/* Store the new communicator of a rank.  @comm is NULL if it was not
 * created. */
static void opened(struct watched *w, ncclComm_t comm)
{
	if (w && comm)
		describe(w, comm);
	watched_opened(w, comm);
}

/* Store the communicator that was split or shrunk from @parent.  If the call
 * was nonblocking, NCCL stores it later. */
static void settle_child(struct watched *parent)
{
	struct watched *child = parent->child;

	if (!child || !*parent->child_comm)
		return;
	parent->child = NULL;
	opened(child, *parent->child_comm);
}

/* Record the result of a call, or of a group's calls to one communicator. */
static void settle(const struct member *m, ncclResult_t result)
{
	const bool has_failed =
		result != ncclSuccess && result != ncclInProgress;

	if (m->comm && m->w && m->parent && !has_failed && !*m->comm) {
		m->parent->child = m->w;
		m->parent->child_comm = m->comm;
		return;
	}
	if (m->comm) {
		opened(m->w, has_failed ? NULL : *m->comm);
		return;
	}
	watched_end(m->w, &m->calls, result);
	watched_put(m->w);
}

/* Record that the thread is about to end its group. */
static void end_group(void)
{
	int i;

	for (i = 0; i < group.n && !group.inside && group.depth == 1; i++)
		atomic_store(&group.members[i].w->shared->grouped, 0);
}

static void settle_group(ncclResult_t result)
{
	int i;

	for (i = 0; i < group.n; i++)
		settle(&group.members[i], result);
	group.n = 0;
}

/* Add a call to the open group.  If the group has too many communicators, the
 * call counts as done, and a communicator that it creates is not watched,
 * because NCCL stores that communicator only at the end of the group. */
static void join_group(const struct member *call)
{
	struct member *m = group.members, *end = m + group.n;

	while (m < end && (m->w != call->w || m->comm || call->comm))
		m++;
	if (m < end) {
		m->calls.last = call->calls.last;
		m->calls.collectives += call->calls.collectives;
		m->calls.stream = call->calls.stream;
		watched_put(call->w);
	} else if (group.n < MEMBERS) {
		atomic_store(&call->w->shared->grouped, 1);
		group.members[group.n++] = *call;
	} else {
		settle(call, call->comm ? ncclInvalidUsage : ncclInProgress);
	}
}

/* ---- aborts -------------------------------------------------------------- */

/* Result of all calls to an aborted communicator. */
#define ABORTED ncclRemoteError

/* Return the struct watched of @comm, or NULL if its calls are not recorded. */
static struct watched *find(ncclComm_t comm)
{
	return group.inside ? NULL : watched_find(comm);
}

static bool is_aborted(const struct watched *w)
{
	return w && atomic_load(&w->is_aborted);
}

void watched_abort(ncclComm_t comm)
{
	group.inside++;
	if (!group.depth++)
		real.ncclGroupStart();
	real.ncclCommAbort(comm);
	group.inside--;
}

/* ---- calls --------------------------------------------------------------- */

/* Record the start of a call, unless the call or its communicator is not
 * watched. */
static struct member begin(enum op_kind kind, size_t count, ncclDataType_t type,
                           int redop, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
	const struct cohort_tensor t = { .count = count, .type = (int)type };
	const struct op op = {
		.kind = kind,
		/* The ncclRedOp_t of a premultiplied sum can differ between
		 * ranks. */
		.redop = redop < ncclNumOps ? redop : REDOP_PREMUL_SUM,
		.root = root,
		.tensors = &t,
		.n = 1,
		.stream = stream,
	};
	struct member m = { .calls.stream = stream };

	if (group.inside || (unsigned)type >= ncclNumTypes || redop < 0)
		return m;
	m.w = watched_find(comm);
	m.is_refused = is_aborted(m.w);
	if (m.is_refused)
		m.w = NULL;
	if (m.w) {
		watched_hold(m.w);
		m.calls.first = m.calls.last = watched_begin(m.w, &op);
	}
	m.calls.collectives = op_is_common(kind);
	return m;
}

static void end(const struct member *m, ncclResult_t result)
{
	if (!m->w)
		return;
	if (group.depth && (result == ncclSuccess || result == ncclInProgress))
		join_group(m);
	else
		settle(m, result);
}

/* Remove from the open group the calls to a communicator that the program
 * destroys or aborts inside the group. */
static void forget(struct watched *w)
{
	int i, n = 0;

	for (i = 0; i < group.n; i++) {
		if (group.members[i].w != w)
			group.members[n++] = group.members[i];
		else
			watched_put(w);
	}
	group.n = n;
}

/* Call @function, which is NCCL's own, and return its result, or
 * ncclInvalidUsage if it is NULL because this NCCL does not have it. */
#define PASS_TO(function, arguments)                                           \
	({                                                                     \
		ncclResult_t passed_ = ncclInvalidUsage;                       \
                                                                               \
		group.inside++;                                                \
		if (function)                                                  \
			passed_ = function arguments;                          \
		group.inside--;                                                \
		passed_;                                                       \
	})

#define PASS(name, arguments) PASS_TO(real.name, arguments)

/* ---- communicators ------------------------------------------------------- */

/* Destroy or abort @comm with @function.  If the shim has aborted @comm, do not
 * call NCCL. */
static ncclResult_t close_comm(ncclComm_t comm,
                               ncclResult_t (*function)(ncclComm_t comm))
{
	struct watched *w = find(comm);
	ncclResult_t result = ncclSuccess;

	if (w) {
		forget(w);
		atomic_store(&w->shared->closing_ns, clock_now());
		w = watched_take(comm);
	}
	if (!is_aborted(w))
		result = PASS_TO(function, (comm));
	if (w)
		watched_put(w);
	return result;
}

static const char *name_in(const ncclConfig_t *config)
{
	return config && config->magic == NCCL_CONFIG_MAGIC &&
	                       config->size > offsetof(ncclConfig_t, commName)
	               ? config->commName
	               : NULL;
}

static struct member begin_init(ncclComm_t *comm, int ranks,
                                const ncclUniqueId *id, int rank,
                                const ncclConfig_t *config)
{
	struct member m = { .comm = comm };

	if (group.inside || !comm || !id || ranks < 1 || rank < 0 ||
	    rank >= ranks)
		return m;
	watched_start_aborter();
	m.w = watched_open(hash_bytes(1, id, sizeof(*id)) | 1, 0, rank, ranks,
	                   name_in(config));
	return m;
}

/* Announce the rank of a communicator that is split or shrunk from @w.  All
 * ranks compute the same identity from the call's @number and color. */
static struct member begin_child(struct watched *w, uint64_t number, int color,
                                 ncclComm_t *child, const ncclConfig_t *config)
{
	struct member m = { .comm = child, .parent = w };
	uint64_t parent;

	if (!w || !child)
		return m;
	parent = atomic_load(&w->shared->identity);
	m.w = watched_open(
		hash_step(hash_step(parent, number), (uint64_t)color) | 1,
		parent, -1, -1, name_in(config));
	if (m.w)
		atomic_store(&m.w->shared->root_rank,
		             atomic_load(&w->shared->root_rank));
	return m;
}

/* Announce the rank of a communicator that is shrunk from @comm.  Excluded
 * ranks do not make this call, so it counts neither as a split nor as a
 * collective of @comm.  The numbers of shrinks differ from those of splits. */
static struct member begin_shrink(ncclComm_t comm, ncclComm_t *child,
                                  const ncclConfig_t *config)
{
	struct watched *w = find(comm);

	if (is_aborted(w))
		return (struct member){ .is_refused = true };
	return begin_child(w, w ? ~w->shrinks++ : 0, 0, child, config);
}

/* Split @comm, and record the split also as a collective of @comm. */
static ncclResult_t split(ncclComm_t comm, int color, int key,
                          ncclComm_t *child, ncclConfig_t *config)
{
	struct watched *w = find(comm);
	const struct member call =
		begin(OP_SPLIT, 0, ncclInt8, 0, 0, comm, NULL);
	const uint64_t number = w ? w->splits++ : 0;
	const struct member made =
		begin_child(color == NCCL_SPLIT_NOCOLOR ? NULL : w, number,
	                    color, child, config);
	ncclResult_t result = ABORTED;

	if (!call.is_refused)
		result = PASS(ncclCommSplit, (comm, color, key, child, config));
	end(&call, result == ncclSuccess ? ncclInProgress : result);
	end(&made, result);
	return result;
}

/* Query the asynchronous error of a communicator.  If there is none, a
 * communicator that was being created is complete. */
static ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t *async)
{
	struct watched *w = async ? find(comm) : NULL;
	ncclResult_t result;

	if (is_aborted(w)) {
		*async = ABORTED;
		return ncclSuccess;
	}
	result = PASS(ncclCommGetAsyncError, (comm, async));
	if (!w || result != ncclSuccess || *async != ncclSuccess)
		return result;
	if (atomic_load(&w->shared->device) < 0)
		describe(w, comm);
	settle_child(w);
	return result;
}

static ncclResult_t finalize(ncclComm_t comm)
{
	struct watched *w = find(comm);
	ncclResult_t result;

	if (!w)
		return PASS(ncclCommFinalize, (comm));
	if (is_aborted(w))
		return ABORTED;
	watched_hold(w);
	atomic_store(&w->shared->closing_ns, clock_now());
	result = PASS(ncclCommFinalize, (comm));
	atomic_store(&w->shared->closing_ns, 0);
	watched_put(w);
	return result;
}

static ncclResult_t init_all(ncclComm_t *comms, int n, const int *devices)
{
	const uint64_t identity =
		hash_step((uint64_t)thread_id(), clock_now()) | 1;
	const ncclResult_t result = PASS(ncclCommInitAll, (comms, n, devices));
	int i;

	watched_start_aborter();

	for (i = 0; !group.inside && i < n && result == ncclSuccess; i++)
		opened(watched_open(identity, 0, i, n, NULL), comms[i]);
	return result;
}

/* ---- the functions ------------------------------------------------------- */

#define EXPORT(result, name, parameters)                                       \
	COHORT_API result name parameters;                                     \
	result name parameters

/* Define no wrapper: the program finds the function in NCCL. */
#define REAL_ONLY(name, parameters, arguments)

/* Define a wrapper that records a call.  @start records the start of the call
 * and returns a struct member. */
#define RECORDED(name, parameters, arguments, start)                           \
	EXPORT(ncclResult_t, name, parameters)                                 \
	{                                                                      \
		struct member member_ = start;                                 \
		ncclResult_t result_ = ABORTED;                                \
                                                                               \
		if (!member_.is_refused)                                       \
			result_ = PASS(name, arguments);                       \
		end(&member_, result_);                                        \
		return result_;                                                \
	}

#define CALL(name, parameters, arguments, kind, redop, root)                   \
	RECORDED(name, parameters, arguments,                                  \
	         begin(kind, count, type, redop, root, comm, stream))

#define START(name, parameters, arguments)                                     \
	EXPORT(ncclResult_t, name, parameters)                                 \
	{                                                                      \
		ncclResult_t result_ = PASS(name, arguments);                  \
                                                                               \
		group.depth += !group.inside && result_ == ncclSuccess;        \
		return result_;                                                \
	}

/* Define a wrapper that ends a group.  If @launches is false, NCCL discards the
 * group's calls. */
#define END(name, parameters, arguments, launches)                             \
	EXPORT(ncclResult_t, name, parameters)                                 \
	{                                                                      \
		ncclResult_t result_;                                          \
                                                                               \
		end_group();                                                   \
		result_ = PASS(name, arguments);                               \
		if (!group.inside && group.depth && !--group.depth)            \
			settle_group((launches) ? result_ : ncclInvalidUsage); \
		return result_;                                                \
	}

/* Define a wrapper that calls @function, which calls NCCL. */
#define REPLACED(name, parameters, arguments, function)                        \
	EXPORT(ncclResult_t, name, parameters)                                 \
	{                                                                      \
		return function arguments;                                     \
	}

#define CLOSE(name, parameters, arguments)                                     \
	REPLACED(name, parameters, (comm, real.name), close_comm)

/* clang-format off */
#define DO_ncclGetVersion REAL_ONLY
#define DO_ncclGetUniqueId REAL_ONLY
#define DO_ncclCommInitRank(...) \
	RECORDED(__VA_ARGS__, begin_init(comm, nranks, &id, rank, NULL))
#define DO_ncclCommInitAll(...) REPLACED(__VA_ARGS__, init_all)
#define DO_ncclCommFinalize(...) REPLACED(__VA_ARGS__, finalize)
#define DO_ncclCommDestroy CLOSE
#define DO_ncclCommAbort CLOSE
#define DO_ncclGetErrorString REAL_ONLY
#define DO_ncclGetLastError REAL_ONLY
#define DO_ncclCommGetAsyncError(...) REPLACED(__VA_ARGS__, get_async_error)
#define DO_ncclCommCount REAL_ONLY
#define DO_ncclCommCuDevice REAL_ONLY
#define DO_ncclCommUserRank REAL_ONLY
#define DO_ncclReduce(...) CALL(__VA_ARGS__, OP_REDUCE, (int)op, root)
#define DO_ncclBroadcast(...) CALL(__VA_ARGS__, OP_BROADCAST, 0, root)
#define DO_ncclAllReduce(...) CALL(__VA_ARGS__, OP_ALL_REDUCE, (int)op, 0)
#define DO_ncclReduceScatter(...) \
	CALL(__VA_ARGS__, OP_REDUCE_SCATTER, (int)op, 0)
#define DO_ncclAllGather(...) CALL(__VA_ARGS__, OP_ALL_GATHER, 0, 0)
#define DO_ncclCommInitRankConfig(...) \
	RECORDED(__VA_ARGS__, begin_init(comm, nranks, &id, rank, config))
#define DO_ncclCommInitRankScalable(...) \
	RECORDED(__VA_ARGS__, begin_init(comm, nranks, ids, rank, config))
#define DO_ncclCommSplit(...) REPLACED(__VA_ARGS__, split)
#define DO_ncclCommShrink(...) \
	RECORDED(__VA_ARGS__, begin_shrink(comm, child, config))
#define DO_ncclCommRevoke REAL_ONLY
#define DO_ncclMemAlloc REAL_ONLY
#define DO_ncclMemFree REAL_ONLY
#define DO_ncclCommRegister REAL_ONLY
#define DO_ncclCommDeregister REAL_ONLY
#define DO_ncclCommWindowRegister REAL_ONLY
#define DO_ncclCommWindowDeregister REAL_ONLY
#define DO_ncclRedOpCreatePreMulSum REAL_ONLY
#define DO_ncclRedOpDestroy REAL_ONLY
#define DO_ncclBcast(...) CALL(__VA_ARGS__, OP_BROADCAST, 0, root)
#define DO_ncclAlltoAll(...) CALL(__VA_ARGS__, OP_ALL_TO_ALL, 0, 0)
#define DO_ncclGather(...) CALL(__VA_ARGS__, OP_GATHER, 0, root)
#define DO_ncclScatter(...) CALL(__VA_ARGS__, OP_SCATTER, 0, root)
#define DO_ncclSend(...) CALL(__VA_ARGS__, OP_SEND, 0, peer)
#define DO_ncclRecv(...) CALL(__VA_ARGS__, OP_RECV, 0, peer)
#define DO_ncclGroupSimulateEnd(...) END(__VA_ARGS__, false)
#define DO_ncclGroupStart START
#define DO_ncclGroupEnd(...) END(__VA_ARGS__, true)
/* clang-format on */

#define DEFINE(since, result, name, parameters, arguments)                     \
	DO_##name(name, parameters, arguments)

NCCL_FUNCTIONS(DEFINE)
