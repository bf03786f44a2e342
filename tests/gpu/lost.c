/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests a lost device
 *
 * A kernel of NCCL gets an invalid address. After that, every CUDA call fails
 * with the same error. The library must report the error, name the rank, and
 * end the group. With the drop-in libraries, the address would crash the
 * program, so a wrapper table simulates the loss.
 *
 * If there are several devices, one of them is lost, and the other ranks try to
 * continue without it. CUDA does not guarantee that they can.
 */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/must.h"
#include "support/ranks.h"

/* Time in seconds after which the program ends, even if it hangs */
#define MOST_SECONDS 120

#define NOWHERE ((void *)0x10000)

/* ---- the simulated loss ----------------------------------------------- */

static const struct platform *whole;

/* Set by the simulated loss, and read by the library's threads */
static atomic_bool is_lost;

static bool is_lost_here(void)
{
	int device = -1;

	return is_lost && whole->cudaGetDevice(&device) == cudaSuccess &&
	       device == 0;
}

/* clang-format off */
#define IS_TEXT(result) _Generic((result)0, const char *: true, default: false)
#define LOST(code, result, name, parameters, arguments)                        \
	static result lost_##name parameters                                   \
	{                                                                      \
		if (!IS_TEXT(result) && is_lost_here())                             \
			return (result)(intptr_t)(code);                       \
		return whole->name arguments;                                  \
	}
#define LOST_NCCL(since, result, name, parameters, arguments)                  \
	LOST(ncclUnhandledCudaError, result, name, parameters, arguments)
#define LOST_CUDA(since, result, name, parameters, arguments)                  \
	LOST(cudaErrorIllegalAddress, result, name, parameters, arguments)
NCCL_FUNCTIONS(LOST_NCCL)
CUDA_FUNCTIONS(LOST_CUDA)
/* clang-format on */

static cudaError_t lost_mark(cudaStream_t stream, uint32_t *word,
                             uint32_t value)
{
	return is_lost_here() ? cudaErrorIllegalAddress
	                      : whole->mark(stream, word, value);
}

static ncclResult_t lose_by_address(const void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
	if (send != NOWHERE)
		return lost_ncclAllReduce(send, recv, count, type, op, comm,
		                          stream);
	is_lost = true;
	return ncclSuccess;
}

static void install_simulated_loss(void)
{
	static struct platform table;

	whole = place_table();
	table = *whole;
#define ENTRY(since, result, name, parameters, arguments)                      \
	table.name = lost_##name;
	NCCL_FUNCTIONS(ENTRY)
	CUDA_FUNCTIONS(ENTRY)
#undef ENTRY
	table.ncclAllReduce = lose_by_address;
	/* Let these three functions work, so that the simulated loss leaks only
	 * memory. */
	table.ncclGroupStart = whole->ncclGroupStart;
	table.ncclGroupEnd = whole->ncclGroupEnd;
	table.cudaSetDevice = whole->cudaSetDevice;
	table.mark = lost_mark;
	platform_override(&table);
}

/* ---- the library's reports -------------------------------------------- */

/*
 * Run an all-reduce with a scaled sum at an invalid address, which makes CUDA
 * lose the device. On one rank, any other collective is a copy, and CUDA would
 * check its address first.
 */
static void lose_device(const struct platform *p, struct cohort_comm *comm)
{
	void *native;
	float two = 2;
	ncclRedOp_t op;

	must(cohort_comm_native_enter(comm, &native), "enter");
	must((int)p->cudaSetDevice(0), "cudaSetDevice");
	must((int)p->ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32,
	                                      ncclScalarHostImmediate, native),
	     "ncclRedOpCreatePreMulSum");
	must((int)p->ncclAllReduce(NOWHERE, NOWHERE, 1000, ncclFloat32, op,
	                           native, cohort_comm_stream(comm)),
	     "ncclAllReduce");
	must(cohort_comm_native_leave(comm), "leave");
}

/* Call a collective after the device is lost. The call must fail. */
static int call_after(const struct platform *p, struct cohort_comm *comm)
{
	lose_device(p, comm);
	must(p->cudaStreamSynchronize(cohort_comm_stream(comm)) == cudaSuccess,
	     "the device is not lost");
	return cohort_barrier(comm, cohort_comm_stream(comm), NULL);
}

/* Enqueue a collective after the kernel that loses the device. The collective
 * must not complete. */
static int call_before(const struct platform *p, struct cohort_comm *comm)
{
	cudaStream_t stream = cohort_comm_stream(comm);
	void *memory;
	int rc;

	must(cohort_alloc(comm, sizeof(int32_t), &memory), "alloc");
	lose_device(p, comm);
	/* The device may be lost before this call. */
	rc = cohort_all_reduce(comm, memory, memory, 1, COHORT_I32, COHORT_SUM,
	                       stream, NULL);
	return rc ? rc : cohort_synchronize(comm, RANKS_SOON);
}

/* Open the platform. Return whether the loss is simulated. */
static bool prepare(const struct platform **p)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	alarm(MOST_SECONDS);
	must(cohort_platform_probe(place_platform(), &info), "probe");
	if (info.platform != COHORT_PLATFORM_GPU)
		place_skip("needs the gpu platform");
	if (info.is_drop_in)
		install_simulated_loss();
	must(platform_open(place_platform(), p), "platform_open");
	return info.is_drop_in;
}

static void lose(int (*call)(const struct platform *p,
                             struct cohort_comm *comm))
{
	const struct platform *p;
	const bool is_simulated = prepare(&p);
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_comm *comm;
	struct cohort_cause cause;
	int rc;

	if (is_simulated && call == call_before) {
		puts("[SKIP] call_before: a simulated loss comes at once");
		exit(0);
	}
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = RANKS_SOON / 10;
	group = ranks_split(1, &o, &comm);
	rc = call(p, comm);
	printf("call: %d: %s\n", rc, cohort_last_error());
	must(rc != COHORT_CUDA, "a call on a lost device");
	must(cohort_comm_cause(comm, &cause), "cause");
	printf("cause: %d, rank %d, nccl %d, cuda %d: %s\n", cause.status,
	       cause.rank, cause.nccl, cause.cuda, cause.text);
	must(cause.status >= 0 || cause.rank != 0, "the cause");
	must(!cause.cuda && !cause.nccl, "the native error");
	rc = cohort_group_close(group);
	printf("close: %d: %s\n", rc, rc ? cohort_last_error() : "");
	must(rc && !is_simulated, "close");
	exit(0);
}

/* ---- one of several devices -------------------------------------------- */

static int lose_first(struct cohort_comm *comm, void *p)
{
	struct cohort_comm *alone;
	int rc = cohort_comm_split(comm, cohort_comm_rank(comm), 0, &alone);

	if (rc == COHORT_OK && cohort_comm_rank(comm) == 0)
		lose_device(p, alone);
	if (rc == COHORT_OK)
		rc = cohort_barrier(comm, NULL, NULL);
	return rc ? rc : cohort_synchronize(comm, RANKS_SOON);
}

static int meet(struct cohort_comm *comm, void *unused)
{
	const int rc = cohort_barrier(comm, NULL, NULL);

	(void)unused;
	return rc ? rc : cohort_synchronize(comm, RANKS_SOON);
}

static void lose_one(int devices)
{
	const int lost = 0;
	const struct platform *p;
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;
	int rc;

	if (devices < 2) {
		puts("[SKIP] lose_one: there is one device");
		exit(0);
	}
	prepare(&p);
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = RANKS_SOON / 10;
	group = ranks_open(devices, &o);
	rc = cohort_group_run(group, lose_first, (void *)(uintptr_t)p, &cause);
	printf("one of %d: %d: cause %d, rank %d, nccl %d, cuda %d: %s\n",
	       devices, rc, cause.status, cause.rank, cause.nccl, cause.cuda,
	       cause.text);
	must(rc >= 0 || cause.rank != lost, "the cause");
	rc = cohort_group_respawn(group, &lost, 1);
	printf("respawn: %d: %s\n", rc, rc ? cohort_last_error() : "");
	if (rc == COHORT_OK) {
		rc = cohort_group_run(group, meet, NULL, &cause);
		printf("without it: %d: %s\n", rc, cause.text);
	}
	rc = cohort_group_close(group);
	printf("close: %d: %s\n", rc, rc ? cohort_last_error() : "");
	exit(0);
}

/* ---- a process for each loss -------------------------------------------- */

/* Run @call in a child process, because the loss affects the whole process.
 * Exit with the child's status unless it is 0. */
static void lose_in_child(int (*call)(const struct platform *p,
                                      struct cohort_comm *comm))
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		call ? lose(call) : lose_one(place_devices());
	must(child < 0 || waitpid(child, &status, 0) != child, "a process");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int main(void)
{
	lose_in_child(call_after);
	lose_in_child(call_before);
	lose_in_child(NULL);
	return 0;
}
