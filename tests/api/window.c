/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory operations and the launch window: what the library does inside a
 * section, what it keeps until the close, and what programs may do between
 * cohort_quiet_begin() and _end()
 *
 * Functions in front of the platform's own check whether a section lasts.
 */

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/clique.h"
#include "core/launch_lock.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"

#define RANKS 2

/* An open that takes longer is given up. */
#define LATE UINT64_C(400000000)

/* ---- a table that checks ---------------------------------------------- */

/* Functions that always belong in a section. */
static const char *const guarded[] = {
	"cudaMalloc",        "cudaFree",
	"cudaHostAlloc",     "cudaMallocHost",
	"cudaFreeHost",      "cudaStreamCreateWithPriority",
	"cudaStreamDestroy", "cudaEventCreateWithFlags",
	"cudaEventDestroy",  "ncclCommInitAll",
	"ncclCommSplit",     "ncclCommDestroy",
	"ncclCommRegister",  "ncclCommDeregister",
	"ncclMemAlloc",      "ncclMemFree",
};

#define GUARDED (sizeof(guarded) / sizeof(*guarded))

static const struct platform *real;
static struct platform table;
static atomic_ulong calls[GUARDED];
static atomic_int all_reduces;
/* the name of one that was called outside */
static _Atomic(const char *) unguarded;

/* Flags are raised outside a section; the group end that follows frees. */
static _Thread_local bool frees;

/* The function whose next call is held after its check; NULL: none. */
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
	if (strcmp(name, "ncclAllReduce") == 0)
		atomic_fetch_add(&all_reduces, 1);
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

/* clang-format off */
#define LOOKING(since, result, name, parameters, arguments)                    \
	static result look_##name parameters                                   \
	{                                                                      \
		check_section(#name);                                          \
		return real->name arguments;                                   \
	}
NCCL_FUNCTIONS(LOOKING)
CUDA_FUNCTIONS(LOOKING)

static void install(void)
{
	real = place_open(RANKS);
	table = *real;
#define LOOK(since, result, name, parameters, arguments)                       \
	table.name = look_##name;
	NCCL_FUNCTIONS(LOOK)
	CUDA_FUNCTIONS(LOOK)
#undef LOOK
	platform_override(&table);
}
/* clang-format on */

static void check_guarded(void)
{
	const char *name = atomic_load(&unguarded);

	cr_assert_null(name, "%s was called outside of a memory section", name);
}

TestSuite(window, .init = install, .timeout = 120);

/* ---- what the library does -------------------------------------------- */

#define TENSORS 3
#define MOST ((size_t)1 << 20)

/* A list of small tensors, packed, of @count elements in all. */
static int call_list(struct cohort_comm *comm, float *memory, size_t count)
{
	struct cohort_tensor tensors[TENSORS];
	uint64_t ticket;
	int i, rc;

	for (i = 0; i < TENSORS; i++) {
		tensors[i] = (struct cohort_tensor){ .count = count / TENSORS,
			                             .type = COHORT_F32 };
		tensors[i].send = tensors[i].recv =
			memory + (size_t)i * (count / TENSORS);
	}
	rc = cohort_all_reduce_many(comm, tensors, TENSORS, COHORT_SUM,
	                            cohort_comm_stream(comm), &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, RANKS_SOON) : rc;
}

/* Calls with host memory and lists, both growing, on memory of the device. */
static int grow_with(struct cohort_comm *comm, void *device)
{
	float *host = calloc(MOST, sizeof(*host));
	size_t count;
	int rc = COHORT_OK;

	for (count = 1000; count < MOST && rc == COHORT_OK; count *= 6) {
		rc = cohort_all_reduce_host(comm, host, count, COHORT_F32,
		                            COHORT_SUM, RANKS_SOON);
		if (rc == COHORT_OK)
			rc = call_list(comm, device, count);
	}
	free(host);
	return rc;
}

static int grow(struct cohort_comm *comm)
{
	void *device = NULL;
	int rc = cohort_alloc(comm, MOST * sizeof(float), &device);

	if (rc == COHORT_OK)
		rc = grow_with(comm, device);
	return rc == COHORT_OK ? cohort_free(comm, device) : rc;
}

static struct cohort_group *open_packing(void)
{
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.many = COHORT_MANY_FLAT;
	return ranks_open(RANKS, &o);
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

static void run(struct cohort_group *group, cohort_worker_fn worker, void *user)
{
	struct cohort_cause cause;

	cr_assert_eq(cohort_group_run(group, worker, user, &cause), COHORT_OK,
	             "%s", cause.text);
}

static void close_group(struct cohort_group *group)
{
	cr_assert_eq(cohort_group_close(group), COHORT_OK, "%s",
	             cohort_last_error());
}

Test(window, the_library_makes_its_memory_operations_in_sections)
{
	struct cohort_group *group = open_packing();

	spread_not("a split waits for other processes outside of sections");
	run(group, live, NULL);
	close_group(group);
	cr_assert_gt(called("cudaMalloc"), 0);
	cr_assert_gt(called("ncclCommSplit"), 0);
	cr_assert_gt(called("ncclCommDestroy"), 0);
	check_guarded();
	cr_assert_eq(launch_lock_sections(), 0);
}

Test(window, an_aborted_group_is_freed_in_a_section)
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
 * An open that reaches @function in time, and goes on only after its caller has
 * left.
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
	cr_assert(clock_await(&is_held, clock_deadline(RANKS_SOON)));
	sem_post(&go_on);
	/* The last thing that it takes back for each rank. */
	while (called("cudaFreeHost") < RANKS)
		sched_yield();
	check_guarded();
	while (launch_lock_sections())
		sched_yield();
}

Test(window, an_init_that_was_given_up_goes_on_in_a_section)
{
	open_late("ncclCommInitAll");
}

Test(window, a_rank_whose_init_was_given_up_is_made_and_taken_back_in_a_section)
{
	open_late("cudaHostAlloc");
}

/* One buffer for each rank. */
static void *buffers[RANKS];

static int begin_growing(struct cohort_comm *comm, void *unused)
{
	(void)unused;
	return cohort_alloc(comm, MOST * sizeof(float),
	                    &buffers[cohort_comm_rank(comm)]);
}

static int go_on_growing(struct cohort_comm *comm, void *unused)
{
	(void)unused;
	return grow_with(comm, buffers[cohort_comm_rank(comm)]);
}

static int end_growing(struct cohort_comm *comm, void *unused)
{
	(void)unused;
	return cohort_free(comm, buffers[cohort_comm_rank(comm)]);
}

Test(window, memory_that_grows_is_kept_until_the_close)
{
	struct cohort_group *group = open_packing();
	unsigned long made, pinned, freed, unpinned;

	run(group, begin_growing, NULL);
	made = called("cudaMalloc");
	pinned = called("cudaHostAlloc");
	freed = called("cudaFree");
	unpinned = called("cudaFreeHost");
	run(group, go_on_growing, NULL);
	/* The memory has grown more than once. */
	cr_assert_geq(called("cudaMalloc") + called("cudaHostAlloc"),
	              made + pinned + 2 * RANKS);
	cr_assert_eq(called("cudaFree"), freed);
	cr_assert_eq(called("cudaFreeHost"), unpinned);
	run(group, end_growing, NULL);
	close_group(group);
	cr_assert_eq(called("cudaMalloc"), called("cudaFree"));
	cr_assert_eq(called("cudaHostAlloc"), called("cudaFreeHost"));
}

/* ---- groups that share devices ------------------------------------------ */

static int meet(struct cohort_comm *comm, void *unused)
{
	uint64_t ticket;
	int rc = cohort_barrier(comm, NULL, &ticket);

	(void)unused;
	return rc == COHORT_OK ? cohort_wait(comm, ticket, RANKS_SOON) : rc;
}

static void *meet_all(void *group)
{
	run(group, meet, NULL);
	return NULL;
}

Test(window, groups_that_share_devices_launch_one_after_the_other)
{
	struct cohort_group_options o;
	struct cohort_group *groups[2];
	pthread_t threads[2];
	int i;

	spread_not("groups of several processes take no turns");
	sem_init(&is_held, 0, 0);
	sem_init(&go_on, 0, 0);
	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	for (i = 0; i < 2; i++)
		groups[i] = ranks_open(RANKS, &o);
	launch_lock_set_limit(1000 * LAUNCH_LOCK_LIMIT_NS);
	atomic_store(&all_reduces, 0);
	atomic_store(&held, "ncclAllReduce");
	pthread_create(&threads[0], NULL, meet_all, groups[0]);
	cr_assert(clock_await(&is_held, clock_deadline(RANKS_SOON)));
	pthread_create(&threads[1], NULL, meet_all, groups[1]);
	while (!launch_lock_waiting())
		sched_yield();
	/* The second group's ranks have launched nothing. */
	cr_assert_leq(atomic_load(&all_reduces), RANKS);
	sem_post(&go_on);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 2; i++)
		close_group(groups[i]);
}

/* ---- programs' sections ----------------------------------------------- */

Test(window, a_quiet_section_ends_on_the_thread_that_began_it)
{
	expect(cohort_quiet_end(), COHORT_STATE, "cohort_quiet_begin()");
	ranks_must(cohort_quiet_begin(), "begin");
	ranks_must(cohort_quiet_begin(), "begin");
	ranks_must(cohort_quiet_end(), "end");
	cr_assert_eq(launch_lock_sections(), 1);
	ranks_must(cohort_quiet_end(), "end");
	cr_assert_eq(launch_lock_sections(), 0);
	expect(cohort_quiet_end(), COHORT_STATE, "cohort_quiet_begin()");
}

static void *be_quiet(void *done)
{
	ranks_must(cohort_quiet_begin(), "begin");
	atomic_store((atomic_bool *)done, true);
	ranks_must(cohort_quiet_end(), "end");
	return NULL;
}

Test(window, a_quiet_section_waits_for_a_launch_until_that_is_aborted)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group = ranks_split(RANKS, NULL, comms);
	atomic_bool done = false;
	pthread_t thread;

	/* This window stands for a launch of rank 1 that takes long. */
	cr_assert_eq(launch_lock_open(comms[0]->clique), COHORT_OK);
	pthread_create(&thread, NULL, be_quiet, &done);
	while (!launch_lock_waiting())
		sched_yield();
	cr_assert_not(atomic_load(&done));
	ranks_must(cohort_group_abort(group, "it never launches"), "abort");
	pthread_join(thread, NULL);
	cohort_group_close(group);
}

Test(window, calls_that_would_wait_for_a_quiet_section_are_refused_inside)
{
	static const char text[] = "called between cohort_quiet_begin() and";
	struct cohort_unique_id id;
	struct cohort_comm *comms[RANKS], *child = NULL;
	struct cohort_group *group = ranks_split(RANKS, NULL, comms), *other;
	int32_t value = 1;
	uint64_t ticket;
	const int lost = 1;
	void *memory;

	ranks_must(cohort_unique_id(&id), "unique_id");
	ranks_must(cohort_alloc(comms[0], sizeof(value), &memory), "alloc");
	ranks_must(cohort_quiet_begin(), "begin");
	expect(cohort_all_reduce(comms[0], memory, memory, 1, COHORT_I32,
	                         COHORT_SUM, NULL, &ticket),
	       COHORT_STATE, text);
	expect(cohort_all_reduce(comms[0], memory, memory, 1, COHORT_I32,
	                         COHORT_SUM, NULL, &ticket),
	       COHORT_STATE, "all_reduce: ");
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
	/* These calls would not wait. */
	ranks_must(cohort_copy(comms[0], memory, &value, sizeof(value), NULL),
	           "copy");
	ranks_must(cohort_synchronize(comms[0], COHORT_FOREVER), "synchronize");
	ranks_must(cohort_free(comms[0], memory), "free");
	ranks_must(cohort_quiet_end(), "end");
	/* The refused calls changed nothing. */
	close_group(group);
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

Test(window, a_quiet_section_does_not_continue_after_a_fork)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group = ranks_split(RANKS, NULL, comms);

	cr_assert_eq(try_in_child(cohort_quiet_begin), 7);
	cr_assert_eq(try_in_child(cohort_quiet_end), 7);
	close_group(group);
}
