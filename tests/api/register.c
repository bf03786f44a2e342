/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of registered memory: which registrations NCCL receives, and when
 *
 * Functions in front of NCCL's functions record the calls.
 */

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/ranks.h"

#define RANKS 2

static const struct platform *real;
static struct platform table;

/* Current number of registrations in NCCL, and of NCCL's allocations */
static atomic_int registered, allocated;
static atomic_int removed; /* number of calls of ncclCommDeregister() */
static int fail;           /* the next registration fails if this is not 0 */

static ncclResult_t reg(const ncclComm_t comm, void *memory, size_t bytes,
                        void **handle)
{
	(void)comm;
	cr_assert_gt(bytes, 0);
	if (fail) {
		fail = 0;
		return ncclInvalidUsage;
	}
	*handle = memory;
	registered++;
	return ncclSuccess;
}

static ncclResult_t dereg(const ncclComm_t comm, void *handle)
{
	(void)comm;
	(void)handle;
	removed++;
	registered--;
	return ncclSuccess;
}

static ncclResult_t mem_alloc(void **memory, size_t bytes)
{
	*memory = malloc(bytes);
	allocated++;
	return ncclSuccess;
}

static ncclResult_t mem_free(void *memory)
{
	free(memory);
	allocated--;
	return ncclSuccess;
}

static struct cohort_group *group;
static struct cohort_comm *c[RANKS];

static void open_all(void)
{
	real = place_table();
	table = *real;
	table.ncclCommRegister = reg;
	table.ncclCommDeregister = dereg;
	table.ncclMemAlloc = mem_alloc;
	table.ncclMemFree = mem_free;
	platform_override(&table);
	group = ranks_split(RANKS, NULL, c);
}

static void close_all(void)
{
	expect_close(group);
	cr_assert_eq(allocated, 0);
	cr_assert_eq(registered, 0);
}

TestSuite(registered, .init = open_all, .fini = close_all, .timeout = 60);

/* Open the group so that one thread can make the calls of each rank in turn. */
static void in_turn(void)
{
	close_all();
	group = ranks_ahead(RANKS, NULL, c);
}

Test(registered, memory_is_deregistered_before_it_is_freed)
{
	void *memory = NULL;

	ranks_must(cohort_alloc_registered(c[0], 100, &memory), "alloc");
	memset(memory, 1, 100);
	cr_assert_eq(registered, 1);
	cr_assert_eq(allocated, 1);
	ranks_must(cohort_free(c[0], memory), "free");
	cr_assert_eq(registered, 0);
	cr_assert_eq(removed, 1);
	cr_assert_eq(allocated, 0);
}

Test(registered, memory_of_the_caller_is_deregistered_only_once)
{
	void *memory, *registration = NULL;

	ranks_must(cohort_alloc(c[0], 100, &memory), "alloc");
	ranks_must(cohort_register(c[0], memory, 100, &registration),
	           "register");
	expect(cohort_free(c[0], memory), COHORT_STATE, "deregister it first");
	expect(cohort_deregister(c[1], registration), COHORT_INVALID,
	       "not a registration of rank 1");
	ranks_must(cohort_deregister(c[0], registration), "deregister");
	expect(cohort_deregister(c[0], registration), COHORT_INVALID,
	       "not a registration of rank 0");
	ranks_must(cohort_free(c[0], memory), "free");
	cr_assert_eq(registered, 0);
	cr_assert_eq(removed, 1);
}

Test(registered, alloc_registered_frees_memory_that_nccl_cannot_register,
     .init = in_turn)
{
	void *memory = NULL, *registration = NULL;
	char own[10];

	fail = 1;
	expect(cohort_register(c[0], own, sizeof(own), &registration),
	       COHORT_NCCL, "ncclCommRegister");
	cr_assert_null(registration);
	fail = 1;
	expect(cohort_alloc_registered(c[0], 10, &memory), COHORT_NCCL,
	       "ncclCommRegister");
	cr_assert_null(memory);
	cr_assert_eq(allocated, 0);
	ranks_must(cohort_barrier(c[0], NULL, NULL), "barrier");
	ranks_must(cohort_barrier(c[1], NULL, NULL), "barrier");
}

Test(registered, registration_names_the_invalid_argument_and_its_value)
{
	void *out = NULL;
	char own[10];

	expect(cohort_register(NULL, own, 10, &out), COHORT_INVALID, "comm");
	expect(cohort_register(c[0], NULL, 10, &out), COHORT_INVALID,
	       "memory is NULL");
	expect(cohort_register(c[0], own, 0, &out), COHORT_INVALID,
	       "bytes is 0");
	expect(cohort_register(c[0], own, 10, NULL), COHORT_INVALID,
	       "registration is NULL");
	expect(cohort_register(c[0], own, SIZE_MAX, &out), COHORT_INVALID,
	       "bytes is 18446744073709551615");
	expect(cohort_alloc_registered(c[0], 0, &out), COHORT_INVALID,
	       "bytes is 0");
	expect(cohort_alloc_registered(c[0], 1, NULL), COHORT_INVALID,
	       "memory is NULL");
	expect(cohort_deregister(c[0], NULL), COHORT_INVALID,
	       "registration is");
	cr_assert_null(out);
}

Test(registered, registered_memory_can_be_freed_after_an_abort_of_the_group,
     .init = in_turn)
{
	void *memory, *registration, *none = NULL;
	int32_t x = 1;
	char own[10];

	ranks_must(cohort_alloc_registered(c[0], 100, &memory), "alloc");
	ranks_must(cohort_register(c[1], own, sizeof(own), &registration),
	           "register");
	ranks_sum(c[0], &x);
	cohort_group_abort(group, "enough");
	ranks_must(cohort_free(c[0], memory), "free");
	ranks_must(cohort_deregister(c[1], registration), "deregister");
	cr_assert_eq(removed, 2);
	cr_assert_eq(allocated, 0);
	expect(cohort_register(c[1], own, sizeof(own), &none), COHORT_ABORTED,
	       "enough");
	expect(cohort_alloc_registered(c[1], 1, &none), COHORT_ABORTED,
	       "enough");
	cr_assert_null(none);
}

Test(registered, close_deregisters_memory_that_is_still_registered)
{
	static char own[10];
	void *registration;

	ranks_must(cohort_register(c[1], own, sizeof(own), &registration),
	           "register");
}

TestSuite(registered_really, .timeout = 60);

/* Make a sum in registered memory, without the functions that record calls. */
static int sum_registered(struct cohort_comm *comm, void *user)
{
	int32_t one = 1, sum = 0;
	void *memory, *stream = cohort_comm_stream(comm);

	(void)user;
	ranks_must(cohort_alloc_registered(comm, sizeof(one), &memory),
	           "alloc");
	ranks_must(cohort_copy(comm, memory, &one, sizeof(one), stream),
	           "copy");
	ranks_must(cohort_all_reduce(comm, memory, memory, 1, COHORT_I32,
	                             COHORT_SUM, stream, NULL),
	           "sum");
	ranks_must(cohort_copy(comm, &sum, memory, sizeof(sum), stream),
	           "copy");
	ranks_must(cohort_synchronize(comm, RANKS_SOON), "synchronize");
	cr_assert_eq(sum, RANKS);
	return cohort_free(comm, memory);
}

Test(registered_really, registered_memory_can_be_reduced_and_freed)
{
	struct cohort_group *g = ranks_open(RANKS, NULL);

	expect_run_in(g, sum_registered, NULL);
	expect_close(g);
}

Test(registered_really, registered_memory_can_be_freed_after_an_abort)
{
	struct cohort_comm *comm[RANKS];
	struct cohort_group *g = ranks_split(RANKS, NULL, comm);
	void *memory;

	ranks_must(cohort_alloc_registered(comm[0], 100, &memory), "alloc");
	cohort_group_abort(g, "enough");
	cr_assert_eq(cohort_free(comm[0], memory), COHORT_OK, "%s",
	             cohort_last_error());
	expect_close(g);
}

/* ---- registrations that a collective has used ---------------------------- */

#define COUNT 65536 /* enough for NCCL to use the registration */

static void *registration; /* registration of rank 0 */

static int gather_registered(struct cohort_comm *comm, void *unused)
{
	const size_t bytes = COUNT * sizeof(float);
	const int rank = cohort_comm_rank(comm);
	void *send, *recv;

	(void)unused;
	c[rank] = comm;
	ranks_must(cohort_alloc_registered(comm, bytes, &send), "alloc");
	ranks_must(cohort_alloc_registered(comm, RANKS * bytes, &recv),
	           "alloc");
	if (rank == 0)
		ranks_must(cohort_register(comm, send, bytes, &registration),
		           "register");
	ranks_must(cohort_all_gather(comm, send, recv, COUNT, COHORT_F32,
	                             cohort_comm_stream(comm), NULL),
	           "all_gather");
	return cohort_synchronize(comm, RANKS_SOON);
}

/*
 * Gather into registered memory, and do not deregister it. NCCL crashes if a
 * registration exists when its communicator ends, which strict mode detects.
 */
static struct cohort_group *use_registered(void)
{
	struct cohort_group_options o;
	struct cohort_group *g;

	cohort_group_options_init(&o);
	/* Launch together, because NCCL allocates memory in the first call. */
	o.launch = COHORT_LAUNCH_TOGETHER;
	g = ranks_open(RANKS, &o);
	ranks_must(cohort_group_run(g, gather_registered, NULL, NULL), "run");
	return g;
}

Test(registered_used, close_deregisters_memory_that_a_collective_used,
     .timeout = 60)
{
	expect_close(use_registered());
}

Test(registered_used, abort_deregisters_memory_that_a_collective_used,
     .timeout = 60)
{
	struct cohort_group *g = use_registered();

	cohort_group_abort(g, "enough");
	ranks_must(cohort_deregister(c[0], registration), "deregister");
	expect_close(g);
}
