/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of memory operations and launches: which memory the library keeps until
 * the close, in which order groups on the same devices launch, and what a
 * program may do between cohort_quiet_begin() and cohort_quiet_end()
 */

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/growth.h"
#include "support/native.h"
#include "support/observe.h"
#include "support/ranks.h"
#include "support/spread.h"

#define RANKS 2

/* Time after which a launch no longer waits for another group's launch */
#define TURN UINT64_C(1000000000)

/* ---- a table that counts calls ---------------------------------------- */

/* Number of calls of each kind of native function */
static atomic_ulong mallocs, frees, pins, unpins, all_reduces;

/* makes the next ncclAllReduce() block */
static atomic_bool holds;
static sem_t is_held, go_on;

static void count(const char *name)
{
	static const struct {
		const char *name;
		atomic_ulong *calls;
	} counted[] = {
		{ "cudaMalloc", &mallocs },        { "cudaFree", &frees },
		{ "cudaHostAlloc", &pins },        { "cudaFreeHost", &unpins },
		{ "ncclAllReduce", &all_reduces },
	};
	size_t i;

	for (i = 0; i < sizeof(counted) / sizeof(*counted); i++)
		if (strcmp(name, counted[i].name) == 0)
			(*counted[i].calls)++;
	if (strcmp(name, "ncclAllReduce") != 0 ||
	    !atomic_exchange(&holds, false))
		return;
	sem_post(&is_held);
	while (sem_wait(&go_on))
		continue;
}

static void install(void)
{
	sem_init(&is_held, 0, 0);
	sem_init(&go_on, 0, 0);
	observe_install(place_open(RANKS), count);
}

TestSuite(window, .init = install, .timeout = 120);

/* ---- memory of the library -------------------------------------------- */

static struct cohort_group *open_packing(void)
{
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.many = COHORT_MANY_FLAT;
	return ranks_open(RANKS, &o);
}

static void *buffers[RANKS];

static int begin_growing(struct cohort_comm *comm, void *unused)
{
	(void)unused;
	return cohort_alloc(comm, GROWTH_BYTES,
	                    &buffers[cohort_comm_rank(comm)]);
}

static int go_on_growing(struct cohort_comm *comm, void *unused)
{
	(void)unused;
	return growth_call(comm, buffers[cohort_comm_rank(comm)]);
}

static int end_growing(struct cohort_comm *comm, void *unused)
{
	(void)unused;
	return cohort_free(comm, buffers[cohort_comm_rank(comm)]);
}

Test(window, outgrown_library_memory_is_freed_only_at_group_close)
{
	struct cohort_group *group = open_packing();
	unsigned long made, pinned, freed, unpinned;

	expect_run_in(group, begin_growing, NULL);
	made = mallocs;
	pinned = pins;
	freed = frees;
	unpinned = unpins;
	expect_run_in(group, go_on_growing, NULL);
	/* The library has enlarged its memory more than once, but freed
	 * none. */
	cr_assert_geq(mallocs + pins, made + pinned + 2 * RANKS);
	cr_assert_eq(frees, freed);
	cr_assert_eq(unpins, unpinned);
	expect_run_in(group, end_growing, NULL);
	expect_close(group);
	cr_assert_eq(mallocs, frees);
	cr_assert_eq(pins, unpins);
}

/* ---- groups that share devices ------------------------------------------ */

/* A group whose ranks call together, and the thread ids of the ranks, or 0
 * until their threads run */
struct meeting {
	struct cohort_group *group;
	atomic_int tids[RANKS];
};

static int meet(struct cohort_comm *comm, void *user)
{
	struct meeting *m = user;
	uint64_t ticket;
	int rc;

	m->tids[cohort_comm_rank(comm)] = gettid();
	rc = cohort_barrier(comm, NULL, &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, RANKS_SOON) : rc;
}

static void *meet_all(void *arg)
{
	struct meeting *m = arg;

	expect_run_in(m->group, meet, m);
	return NULL;
}

Test(window, groups_on_the_same_devices_launch_one_after_the_other)
{
	struct cohort_group_options o;
	struct meeting meetings[2] = { 0 };
	pthread_t threads[2];
	unsigned long launched;
	uint64_t began;
	int i;

	spread_not("groups of several processes take no turns");
	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	for (i = 0; i < 2; i++)
		meetings[i].group = ranks_open(RANKS, &o);
	all_reduces = 0;
	holds = true;
	pthread_create(&threads[0], NULL, meet_all, &meetings[0]);
	cr_assert(test_await(&is_held, RANKS_SOON));
	began = test_now();
	pthread_create(&threads[1], NULL, meet_all, &meetings[1]);
	for (i = 0; i < RANKS; i++)
		native_await_wait(&meetings[1].tids[i]);
	/* The second group's ranks must not have launched. On a very busy
	 * machine, which takes more than a second, they may have. */
	launched = all_reduces;
	if (test_now() < began + TURN)
		cr_assert_leq(launched, RANKS);
	sem_post(&go_on);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 2; i++)
		expect_close(meetings[i].group);
}

/* ---- quiet sections of the program -------------------------------------- */

Test(window, quiet_sections_nest_and_end_on_their_thread)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	spread_not("a group of one rank");
	cohort_group_options_init(&o);
	o.platform = place_platform();
	expect(cohort_quiet_end(), COHORT_STATE, "cohort_quiet_begin()");
	ranks_must(cohort_quiet_begin(), "begin");
	ranks_must(cohort_quiet_begin(), "begin");
	ranks_must(cohort_quiet_end(), "end");
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_STATE,
	       "cohort_quiet_begin()");
	ranks_must(cohort_quiet_end(), "end");
	expect_close(ranks_open(1, &o));
	expect(cohort_quiet_end(), COHORT_STATE, "cohort_quiet_begin()");
}

static atomic_int quiet_tid; /* thread id, or 0 until the thread runs */
static atomic_bool is_quiet;

static void *be_quiet(void *unused)
{
	(void)unused;
	quiet_tid = gettid();
	ranks_must(cohort_quiet_begin(), "begin");
	is_quiet = true;
	ranks_must(cohort_quiet_end(), "end");
	return NULL;
}

static void *sum_once(void *comm)
{
	int32_t value = 1;

	ranks_sum_wait(comm, &value);
	return NULL;
}

Test(window, quiet_section_waits_for_a_launch_until_it_is_aborted)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group_options o;
	struct cohort_group *group;
	pthread_t threads[RANKS], quiet;
	int i;

	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	group = ranks_split(RANKS, &o, comms);
	holds = true;
	for (i = 0; i < RANKS; i++)
		pthread_create(&threads[i], NULL, sum_once, comms[i]);
	cr_assert(test_await(&is_held, RANKS_SOON));
	pthread_create(&quiet, NULL, be_quiet, NULL);
	native_await_wait(&quiet_tid);
	cr_assert_not(is_quiet);
	ranks_must(cohort_group_abort(group, "it never launches"), "abort");
	pthread_join(quiet, NULL);
	sem_post(&go_on);
	for (i = 0; i < RANKS; i++)
		pthread_join(threads[i], NULL);
	cohort_group_close(group);
}

Test(window, quiet_section_refuses_calls_that_would_wait_for_its_end)
{
	static const char text[] = "between cohort_quiet_begin() and ";
	struct cohort_unique_id id;
	struct cohort_comm *comms[RANKS], *child = NULL;
	struct cohort_group *group = ranks_split(RANKS, NULL, comms), *other;
	int32_t value = 1;
	uint64_t ticket;
	const int lost = 1;
	void *memory;

	ranks_must(cohort_unique_id(COHORT_PLATFORM_AUTO, &id), "unique_id");
	ranks_must(cohort_alloc(comms[0], sizeof(value), &memory), "alloc");
	ranks_must(cohort_quiet_begin(), "begin");
	expect(cohort_all_reduce(comms[0], memory, memory, 1, COHORT_I32,
	                         COHORT_SUM, NULL, &ticket),
	       COHORT_STATE, text);
	expect(cohort_all_reduce(comms[0], memory, memory, 1, COHORT_I32,
	                         COHORT_SUM, NULL, &ticket),
	       COHORT_STATE, "all_reduce must not be called between ");
	expect(cohort_barrier(comms[0], NULL, NULL), COHORT_STATE, text);
	expect(cohort_all_reduce_host(comms[0], &value, 1, COHORT_I32,
	                              COHORT_SUM, COHORT_FOREVER),
	       COHORT_STATE, text);
	expect(cohort_comm_split(comms[0], 0, 0, &child), COHORT_STATE, text);
	expect(cohort_comm_close(comms[0]), COHORT_STATE, text);
	expect(cohort_comm_join(&id, 1, 0, 0, NULL, &child), COHORT_STATE,
	       text);
	expect(cohort_group_run(group, end_growing, NULL, NULL), COHORT_STATE,
	       text);
	expect(cohort_group_respawn(group, &lost, 1), COHORT_STATE, text);
	expect(cohort_group_open(NULL, 1, NULL, &other), COHORT_STATE, text);
	expect(cohort_group_close(group), COHORT_STATE, text);
	/* These calls do not wait, so they are allowed. */
	ranks_must(cohort_copy(comms[0], memory, &value, sizeof(value), NULL),
	           "copy");
	ranks_must(cohort_synchronize(comms[0], COHORT_FOREVER), "synchronize");
	ranks_must(cohort_free(comms[0], memory), "free");
	ranks_must(cohort_quiet_end(), "end");
	/* The refused calls had no effect. */
	expect_close(group);
}

static int try_in_child(int (*fn)(void))
{
	int status = 0;
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (!child)
		_exit(fn() == COHORT_FORKED ? 7 : 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(window, quiet_section_does_not_continue_after_a_fork)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group = ranks_split(RANKS, NULL, comms);

	cr_assert_eq(try_in_child(cohort_quiet_begin), 7);
	cr_assert_eq(try_in_child(cohort_quiet_end), 7);
	expect_close(group);
}
