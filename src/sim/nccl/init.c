/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creates unique ids, and implements the calls with which ranks join a
 * communicator
 *
 * If processes share memory, ranks join through the root, a thread of the
 * process that created the id (root.h).  Otherwise, the ranks are threads of
 * one process, and join in a meeting (meeting.h).
 *
 * As in NCCL, the handle is stored during the call, before the other ranks have
 * joined, so that another thread can abort an init that waits forever.  If the
 * init fails later, the handle stays valid, and the program must abort the
 * communicator, once.
 */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "sim/cuda/cuda_device.h"
#include "sim/host.h"
#include "sim/nccl/meeting.h"
#include "sim/nccl/nccl_group.h"
#include "sim/nccl/root.h"
#include "sim/strict/fault.h"

/* ---- ids -------------------------------------------------------------- */

/* The contents of a unique id. */
struct content {
	uint64_t magic;
	uint64_t process; /* random number of the process that created the id */
	/* pid of the process that created the id, to detect a forked child */
	uint64_t pid;
	uint64_t number;
};

#define ID_MAGIC UINT64_C(0x636f686f72746964)

/* Start the root of a new id.  Return the id's number, or 0 on failure. */
static uint64_t open_root(void)
{
	const uint64_t number = meeting_number();

	return root_open(number) ? number : 0;
}

ncclResult_t host_ncclGetUniqueId(ncclUniqueId *id)
{
	struct content c = { ID_MAGIC, process_number(), (uint64_t)getpid(),
		             0 };

	if (!id)
		return comm_error(ncclInvalidArgument,
		                  "ncclGetUniqueId: id is NULL");
	if (c.process && arena_is_shared())
		c.number = open_root();
	else if (c.process)
		c.number = meeting_open();
	if (!c.number)
		return comm_error(ncclSystemError,
		                  "ncclGetUniqueId: out of memory, or no "
		                  "random numbers available");
	memset(id, 0, sizeof(*id));
	memcpy(id, &c, sizeof(c));
	return ncclSuccess;
}

static bool is_own(const struct content *c)
{
	return c->process == process_number() && c->pid == (uint64_t)getpid();
}

/* Return the number in @id, or 0 if this process cannot use the id.  Store the
 * number of the process that created the id in @process_out. */
static uint64_t id_number(const ncclUniqueId *id, uint64_t *process_out)
{
	struct content c;

	memcpy(&c, id, sizeof(c));
	*process_out = c.process;
	return c.magic == ID_MAGIC && c.process &&
	                       (arena_is_shared() || is_own(&c))
	               ? c.number
	               : 0;
}

/* ---- one rank --------------------------------------------------------- */

struct request {
	ncclComm_t *comm;
	int n;
	int rank;
	int device;
	const ncclConfig_t *config; /* NULL for the default configuration */
	enum join_kind kind;
	size_t id_count;
	const char *function;
};

static bool copy_numbers(struct join *j, const uint64_t *numbers, size_t n)
{
	j->number = numbers[0];
	j->list_count = n - 1;
	if (!j->list_count)
		return true;
	j->list = malloc(j->list_count * sizeof(*j->list));
	if (j->list)
		memcpy(j->list, numbers + 1, j->list_count * sizeof(*j->list));
	return j->list;
}

static struct join *join_create(const struct request *r,
                                const uint64_t *numbers, size_t n,
                                uint64_t process, const ncclConfig_t *config)
{
	struct join *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->kind = r->kind;
	j->process = process;
	j->n = r->n;
	j->rank = r->rank;
	j->comm = comm_create(r->device, config);
	if (!j->comm || !copy_numbers(j, numbers, n)) {
		join_free(j);
		return NULL;
	}
	j->comm->member.rank = r->rank;
	j->comm->n = r->n;
	j->comm->join = j;
	return j;
}

static ncclResult_t parse(const struct request *r, ncclConfig_t *out)
{
	const ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
	const char *error = config_parse(r->config ? r->config : &usual, out);

	return error ? group_fail(ncclInvalidArgument, error) : ncclSuccess;
}

/* Add the join of one rank to the open group.  The @n numbers identify the
 * rank's unique ids, and @process created the first of these ids. */
static ncclResult_t add(const struct request *r, const uint64_t *numbers,
                        size_t n, uint64_t process, const ncclConfig_t *config)
{
	ncclResult_t result;
	struct ncclComm *comm;
	struct join *j = join_create(r, numbers, n, process, config);

	if (!j)
		return group_fail(ncclSystemError, "out of memory");
	result = group_record_error(join_apply_fault(j, r->rank, FAULT_INIT));
	if (result != ncclSuccess) {
		join_free(j);
		return result;
	}
	comm = j->comm;
	result = group_join(j);
	if (result != ncclSuccess)
		return result;
	if (strict_is_on())
		lifetime_enter(comm, r->function);
	comm_get(comm);
	/* The release pairs with the acquire of a thread that aborts the
	 * init. */
	__atomic_store_n(r->comm, comm, __ATOMIC_RELEASE);
	return ncclSuccess;
}

/* Check the arguments in NCCL's order.  Then check for values that only the
 * simulator refuses. */
static ncclResult_t check(const struct request *r, ncclConfig_t *config_out)
{
	ncclResult_t result;

	if (!r->comm)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommInitRank: comm is NULL");
	/* Atomic, because other threads might already be polling this handle
	 * for the new communicator.  Relaxed, because NULL publishes no
	 * data. */
	__atomic_store_n(r->comm, NULL, __ATOMIC_RELAXED);
	if (r->rank < 0 || r->rank >= r->n)
		return group_fail(
			ncclInvalidArgument,
			"ncclCommInitRank: rank is not 0 to nranks - 1");
	result = parse(r, config_out);
	if (result != ncclSuccess)
		return result;
	if (r->n > device_count())
		return group_fail(ncclInvalidUsage,
		                  "ncclCommInitRank: nranks is more than the "
		                  "number of devices");
	return ncclSuccess;
}

static ncclResult_t check_and_add(const struct request *r,
                                  const ncclUniqueId *ids)
{
	uint64_t numbers[2 * HOST_MAX_RANKS], process = 0, of;
	ncclConfig_t config;
	ncclResult_t result = check(r, &config);
	size_t i, n = 0;

	for (i = 0; result == ncclSuccess && i < r->id_count; i++) {
		numbers[n] = id_number(&ids[i], &of);
		if (!i)
			process = of;
		if (!numbers[n])
			return group_fail(
				ncclInvalidUsage,
				"ncclCommInitRank: the id was created by "
				"another process, but the host platform joins "
				"ranks of several processes only if "
				"COHORT_HOST_SHARED=1");
		n++;
		if (i && arena_is_shared())
			numbers[n++] = of;
	}
	return result == ncclSuccess ? add(r, numbers, n, process, &config)
	                             : result;
}

static ncclResult_t join_rank(const struct request *r, const ncclUniqueId *ids)
{
	struct ncclComm *comm;
	ncclResult_t result;

	group_start();
	result = check_and_add(r, ids);
	if (result != ncclSuccess) {
		group_end();
		return result;
	}
	/* Hold a reference, because another thread might abort the
	 * communicator. */
	comm = *r->comm;
	comm_get(comm);
	result = comm_answer(comm, group_end());
	comm_put(comm);
	return result;
}

/* Join, and wait for the other ranks.  As in NCCL, a call outside a group waits
 * even for a nonblocking communicator.  Inside a group, the join runs at the
 * end of the group. */
static ncclResult_t join_and_wait(const struct request *r,
                                  const ncclUniqueId *id)
{
	const bool inside = group_is_open();
	ncclResult_t result;

	group_start();
	result = check_and_add(r, id);
	if (!inside)
		group_block();
	return group_end_call(result);
}

ncclResult_t host_ncclCommInitRank(ncclComm_t *comm, int nranks,
                                   ncclUniqueId id, int rank)
{
	const struct request r = {
		.comm = comm,
		.n = nranks,
		.rank = rank,
		.device = device_current(),
		.id_count = 1,
		.function = "ncclCommInitRank",
	};

	/* As in NCCL, this error does not fail an open group. */
	if (nranks < 1)
		return comm_error(ncclInvalidArgument,
		                  "ncclCommInitRank: nranks is less than 1");
	return join_and_wait(&r, &id);
}

ncclResult_t host_ncclCommInitRankConfig(ncclComm_t *comm, int nranks,
                                         ncclUniqueId id, int rank,
                                         ncclConfig_t *config)
{
	const struct request r = {
		.comm = comm,
		.n = nranks,
		.rank = rank,
		.device = device_current(),
		.config = config,
		.id_count = 1,
		.function = "ncclCommInitRankConfig",
	};

	if (nranks < 1)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommInitRankConfig: nranks is less than "
		                  "1");
	return join_rank(&r, &id);
}

ncclResult_t host_ncclCommInitRankScalable(ncclComm_t *comm, int nranks,
                                           int rank, int id_count,
                                           ncclUniqueId *ids,
                                           ncclConfig_t *config)
{
	const struct request r = {
		.comm = comm,
		.n = nranks,
		.rank = rank,
		.device = device_current(),
		.config = config,
		.id_count = (size_t)id_count,
		.function = "ncclCommInitRankScalable",
	};

	if (id_count < 1 || id_count > nranks)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommInitRankScalable: the number of ids "
		                  "is not 1 to nranks");
	return join_rank(&r, ids);
}

/* ---- all ranks -------------------------------------------------------- */

/* Check the devices of ncclCommInitAll().  If there are more ranks than devices
 * and no list of devices, NCCL leaves the thread inside a group forever; here,
 * only the call fails. */
static ncclResult_t check_devices(int n, const int *devices)
{
	int i, k;

	for (i = 0; devices && i < n; i++) {
		if (devices[i] < 0 || devices[i] >= device_count())
			return comm_error(ncclInvalidArgument,
			                  "ncclCommInitAll: devlist has a "
			                  "number that is not a device");
		for (k = 0; k < i; k++)
			if (devices[k] == devices[i])
				return comm_error(ncclInvalidUsage,
				                  "ncclCommInitAll: devlist "
				                  "has a device twice");
	}
	if (!devices && n > device_count())
		return comm_error(ncclUnhandledCudaError,
		                  "ncclCommInitAll: ndev is more than the "
		                  "number of devices");
	return ncclSuccess;
}

/* Add the joins of all ranks.  @process is the process that created the id with
 * @number, or 0 if the ranks join without an id. */
static void add_all(ncclComm_t *comms, int n, const int *devices,
                    uint64_t number, uint64_t process)
{
	struct request r = {
		.n = n,
		.kind = process ? JOIN_BY_ID : JOIN_ALL,
		.id_count = 1,
		.function = "ncclCommInitAll",
	};
	ncclConfig_t config;

	/* Ignore the results, because the end of the group returns the last
	 * error. */
	for (; r.rank < n; r.rank++) {
		r.comm = &comms[r.rank];
		r.device = devices ? devices[r.rank] : r.rank;
		*r.comm = NULL;
		if (parse(&r, &config) == ncclSuccess)
			add(&r, &number, 1, process, &config);
	}
}

ncclResult_t host_ncclCommInitAll(ncclComm_t *comms, int ndev,
                                  const int *devlist)
{
	const bool shared = arena_is_shared();
	struct root_id id = { .process = shared ? process_number() : 0 };
	ncclResult_t result;

	if (!comms)
		return comm_error(ncclInvalidArgument,
		                  "ncclCommInitAll: comms is NULL");
	if (ndev < 0)
		return comm_error(ncclInvalidArgument,
		                  "ncclCommInitAll: ndev is negative");
	result = check_devices(ndev, devlist);
	if (result != ncclSuccess || !ndev)
		return result;
	id.number = shared ? open_root() : meeting_number();
	if (!id.number)
		return comm_error(ncclSystemError,
		                  "ncclCommInitAll: out of memory");
	group_start();
	add_all(comms, ndev, devlist, id.number, id.process);
	result = group_end();
	/* If no rank has connected to the root, the root would never end by
	 * itself. */
	if (result != ncclSuccess && result != ncclInProgress && shared)
		root_dismiss(&id);
	return result;
}
