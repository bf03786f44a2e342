/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that every native call that allocates or frees memory is made in a
 * memory section of the library
 */

#include <criterion/criterion.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "core/launch_lock.h"
#include "support/clock.h"
#include "support/expect.h"
#include "support/growth.h"
#include "support/observe.h"
#include "support/ranks.h"

#define RANKS 2

/* Time after which an open gives up, in ns */
#define LATE UINT64_C(400000000)

/* Functions that must only be called in a memory section */
static const char *const guarded[] = {
	"cudaMalloc",        "cudaFree",
	"cudaHostAlloc",     "cudaMallocHost",
	"cudaFreeHost",      "cudaStreamCreateWithFlags",
	"cudaStreamDestroy", "cudaEventCreateWithFlags",
	"cudaEventDestroy",  "ncclCommInitAll",
	"ncclCommSplit",     "ncclCommDestroy",
	"ncclCommRegister",  "ncclCommDeregister",
	"ncclMemAlloc",      "ncclMemFree",
};

#define GUARDED (sizeof(guarded) / sizeof(*guarded))

static atomic_ulong calls[GUARDED];

/* Name of a function that was called outside a memory section, or NULL */
static _Atomic(const char *) unguarded;

/* True if this thread's next ncclGroupEnd() frees communicators, for which it
 * needs a memory section. If it only raises abort flags, it needs none. */
static _Thread_local bool frees;

/* Function whose next call blocks after the check for a memory section, or
 * NULL */
static const char *_Atomic held;
static sem_t is_held, go_on;

static void hold(const char *name)
{
	const char *which = atomic_load(&held);

	if (!which || strcmp(name, which) != 0 ||
	    !atomic_compare_exchange_strong(&held, &which, NULL))
		return;
	sem_post(&is_held);
	while (sem_wait(&go_on))
		continue;
}

static void check_section(const char *name)
{
	size_t i;

	if (strcmp(name, "ncclCommAbort") == 0)
		frees = true;
	if (strcmp(name, "ncclGroupEnd") == 0 && frees) {
		frees = false;
		if (!launch_lock_sections())
			atomic_store(&unguarded, "ncclGroupEnd");
	}
	for (i = 0; i < GUARDED; i++) {
		if (strcmp(name, guarded[i]) != 0)
			continue;
		if (!launch_lock_sections())
			atomic_store(&unguarded, guarded[i]);
		atomic_fetch_add(&calls[i], 1);
	}
	hold(name);
}

static unsigned long called(const char *name)
{
	size_t i = 0;

	while (strcmp(name, guarded[i]) != 0)
		cr_assert_lt(++i, GUARDED);
	return atomic_load(&calls[i]);
}

static void check_guarded(void)
{
	const char *name = atomic_load(&unguarded);

	cr_assert_null(name, "%s was called outside of a memory section", name);
}

static void install(void)
{
	observe_install(place_open(RANKS), check_section);
}

TestSuite(memory_section, .init = install, .timeout = 120);

static int grow(struct cohort_comm *comm)
{
	void *device = NULL;
	int rc = cohort_alloc(comm, GROWTH_BYTES, &device);

	if (rc == COHORT_OK)
		rc = growth_call(comm, device);
	return rc == COHORT_OK ? cohort_free(comm, device) : rc;
}

static int live(struct cohort_comm *comm, void *unused)
{
	struct cohort_comm *child = NULL;
	void *memory = NULL;
	int rc = grow(comm);

	(void)unused;
	if (rc == COHORT_OK)
		rc = cohort_comm_split(comm, 0, 0, &child);
	if (rc == COHORT_OK)
		rc = grow(child);
	if (rc == COHORT_OK)
		rc = cohort_comm_close(child);
	if (rc == COHORT_OK)
		rc = cohort_alloc_registered(comm, 4096, &memory);
	if (rc == COHORT_OK)
		rc = cohort_free(comm, memory);
	return rc;
}

static struct cohort_group *open_packing(void)
{
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.many = COHORT_MANY_FLAT;
	return ranks_open(RANKS, &o);
}

Test(memory_section, library_allocates_and_frees_in_memory_sections)
{
	struct cohort_group *group = open_packing();

	expect_run_in(group, live, NULL);
	expect_close(group);
	cr_assert_gt(called("cudaMalloc"), 0);
	cr_assert_gt(called("ncclCommSplit"), 0);
	cr_assert_gt(called("ncclCommDestroy"), 0);
	check_guarded();
	cr_assert_eq(launch_lock_sections(), 0);
}

Test(memory_section, aborted_group_is_freed_in_a_memory_section)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group = ranks_split(RANKS, NULL, comms);

	ranks_must(cohort_group_abort(group, "enough"), "abort");
	cohort_group_close(group);
	cr_assert_gt(called("cudaFree"), 0);
	check_guarded();
	cr_assert_eq(launch_lock_sections(), 0);
}

/*
 * Open a group whose call of @function starts before the init timeout but
 * continues only after cohort_group_open() has returned.
 */
static void open_late(const char *function)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	sem_init(&is_held, 0, 0);
	sem_init(&go_on, 0, 0);
	atomic_store(&held, function);
	cohort_group_options_init(&o);
	o.platform = place_platform();
	o.deadlines.init_ns = LATE;
	cr_assert_eq(cohort_group_open(NULL, RANKS, &o, &group),
	             COHORT_INIT_TIMEOUT);
	cr_assert(test_await(&is_held, RANKS_SOON));
	sem_post(&go_on);
	/* The cleanup of each rank ends with cudaFreeHost(). */
	while (called("cudaFreeHost") < RANKS)
		sched_yield();
	check_guarded();
	while (launch_lock_sections())
		sched_yield();
}

Test(memory_section, init_that_timed_out_continues_in_a_memory_section)
{
	open_late("ncclCommInitAll");
}

Test(memory_section, late_init_frees_its_ranks_in_a_memory_section)
{
	open_late("cudaHostAlloc");
}
