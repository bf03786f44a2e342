/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures the walk, which is the part of cohort_all_reduce() that is Cohort's
 * own: the time of the call minus the time of a bare call (the function in the
 * platform's table and one mark), in total and for each part
 *
 * Each rank is a thread, on its own core if there are enough.  In every round
 * of a run all ways to call take turns, so that differences are meaningful on a
 * noisy machine.  Prints the median, 5th and 95th percentile of the differences
 * within a round.  The time of a round is the time of its slowest rank.
 *
 * On the host platform a call also waits for its peers and computes, so the
 * walk is a small part of a call.  On the empty platform (empty.h) a call
 * consists only of the walk.  Ranks run freely, or in step: they wait for each
 * other before each call, so that all call at the same time.  That wait is part
 * of every way, so it cancels in the differences.
 *
 * --gpu measures the gpu platform, on which the platform's own calls take
 * microseconds.
 *
 *  build/release/bench/walk [--rounds N] [--gpu] [--json]
 */

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "empty.h"
#include "walk_report.h"
#include "ways.h"

#define BATCH 16 /* calls between two waits */
#define MAX_ROUNDS 10000
#define CACHE_LINE 64

/* Number of polls for another rank before the thread yields. */
#define MEET_SPINS 100000

_Static_assert(CALLS % BATCH == 0, "nothing is left in flight");

static const struct scene on_host[] = {
	{ "host", 1, false, 0, false },    { "host", 2, false, 0, false },
	{ "host", 2, true, 0, false },     { "empty", 1, false, 150, false },
	{ "empty", 2, false, 250, false }, { "empty", 2, true, 250, false },
};

/* Scenes on a GPU.  The budget is for the work of a single rank. */
static const struct scene on_gpu[] = {
	{ "gpu", 1, false, 2000, false },
	{ "gpu", 1, false, 400, true },
	{ "gpu", 2, false, 0, false },
};

/* Constant after main() has read the options. */
static int platform = COHORT_PLATFORM_HOST;
static const struct scene *scenes = on_host;
static int scene_count = sizeof(on_host) / sizeof(on_host[0]);

/* A cache line that only one rank writes. */
struct place {
	/* Atomic; counts the arrivals of the rank. */
	_Alignas(CACHE_LINE) atomic_ulong met;
};

struct bench {
	const struct scene *scene;
	int rounds;
	struct place places[MAX_RANKS];
	/* ns per call; each rank writes its own. */
	double times[MAX_RANKS][MAX_WAYS][MAX_ROUNDS];
};

/* ---- measuring -------------------------------------------------------- */

/* Pin thread @nth of @ranks to core @nth, if there are enough cores. */
static void pin(int nth, int ranks)
{
	cpu_set_t allowed, one;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 ||
	    CPU_COUNT(&allowed) < ranks)
		return;
	for (;; cpu++)
		if (CPU_ISSET(cpu, &allowed) && nth-- == 0)
			break;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void await_place(struct place *place, unsigned long turn)
{
	int spins = 0;

	/* Acquire: pairs with the release in meet(). */
	while (atomic_load_explicit(&place->met, memory_order_acquire) < turn)
		if (++spins > MEET_SPINS)
			sched_yield();
}

/* Spin until all ranks have arrived, so that all continue at the same time. */
static void meet(struct bench *b, int rank)
{
	struct place *own = &b->places[rank];
	unsigned long turn =
		atomic_load_explicit(&own->met, memory_order_relaxed) + 1;
	int r;

	atomic_store_explicit(&own->met, turn, memory_order_release);
	for (r = 0; r < b->scene->ranks; r++)
		if (r != rank)
			await_place(&b->places[r], turn);
}

/* Return the time of one call of @way. */
static double take_turn(struct bench *b, struct runner *r,
                        const struct way *way)
{
	uint64_t from;
	int i;

	meet(b, r->comm->rank);
	from = clock_now();
	for (i = 1; i <= CALLS; i++) {
		if (b->scene->in_step)
			meet(b, r->comm->rank);
		way->call(r);
		if (way->wait && i % BATCH == 0)
			way->wait(r);
	}
	return (double)(clock_now() - from) / CALLS;
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct bench *b = user;
	struct runner r;
	void *data;
	int round, way;

	pin(comm->rank, b->scene->ranks);
	must(cohort_alloc(comm, CACHE_LINE, &data), "alloc");
	runner_init(&r, comm, data);
	for (round = 0; round < b->rounds; round++)
		for (way = 0; way < way_count; way++)
			if (scene_times(b->scene, way))
				b->times[comm->rank][way][round] =
					take_turn(b, &r, &ways[way]);
	runner_fini(&r);
	must(cohort_free(comm, data), "free");
	return 0;
}

/* Set the platform of groups to that of a scene. */
static void set_table(const struct scene *scene)
{
	const struct platform *p;

	platform_override(NULL);
	must(platform_open(platform, &p), "platform_open");
	if (strcmp(scene->table, "empty") == 0)
		platform_override(empty_wrap(p));
}

static void run(struct bench *b)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	set_table(b->scene);
	cohort_group_options_init(&o);
	o.platform = platform;
	/* No deadlines: parts of calls would look like hangs. */
	o.deadlines.join_ns = COHORT_FOREVER;
	o.deadlines.exec_ns = COHORT_FOREVER;
	o.no_start_marks = b->scene->no_start_marks;
	must(cohort_group_open(NULL, b->scene->ranks, &o, &group), "open");
	must(cohort_group_run(group, worker, b, NULL), "run");
	must(cohort_group_close(group), "close");
}

/* ---- medians ---------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Return the time of the slowest rank. */
static double time_of(const struct bench *b, int way, int round)
{
	double slowest = 0;
	int r;

	for (r = 0; r < b->scene->ranks; r++)
		if (b->times[r][way][round] > slowest)
			slowest = b->times[r][way][round];
	return slowest;
}

/*
 * Return the spread of the differences between two ways, or of the times of one
 * way if @than is -1.
 */
static struct spread spread_of(const struct bench *b, int way, int than)
{
	static double d[MAX_ROUNDS];
	size_t n = (size_t)b->rounds, i;

	for (i = 0; i < n; i++) {
		d[i] = time_of(b, way, (int)i);
		if (than >= 0)
			d[i] -= time_of(b, than, (int)i);
	}
	qsort(d, n, sizeof(d[0]), compare);
	return (struct spread){ d[n / 20], d[n / 2], d[n - 1 - n / 20] };
}

static struct result evaluate(const struct bench *b)
{
	struct result result = {
		.bare = spread_of(b, WAY_BARE, -1),
		.cohort = spread_of(b, WAY_COHORT, -1),
		.walk = spread_of(b, WAY_COHORT, WAY_BARE),
		.mark = spread_of(b, WAY_MARKED_TWICE, WAY_BARE),
	};
	int way;

	for (way = FIRST_PART; way < way_count; way++) {
		if (!scene_times(b->scene, way))
			continue;
		result.parts[way] = spread_of(b, way, WAY_NOTHING);
		result.sum += result.parts[way].median;
	}
	return result;
}

static struct result measure(const struct scene *scene, int rounds)
{
	static struct bench b;

	b.scene = scene;
	b.rounds = rounds;
	memset(b.places, 0, sizeof(b.places));
	run(&b);
	return evaluate(&b);
}

/* ---- main ------------------------------------------------------------- */

/* Return the number of rounds, or 0 if @text is not a valid one. */
static int read_rounds(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	return !*end && n >= 1 && n <= MAX_ROUNDS ? (int)n : 0;
}

/* Measure on the gpu platform, with as many ranks as it has devices. */
static void choose_gpu(void)
{
	const struct platform *p;
	int devices = 0;

	platform = COHORT_PLATFORM_GPU;
	must(platform_open(platform, &p), "platform_open");
	must((int)p->cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
	scenes = on_gpu;
	scene_count = devices > 1 ? 3 : 2;
}

static int usage(void)
{
	fprintf(stderr, "usage: walk [--rounds 1..%d] [--gpu] [--json]\n",
	        MAX_ROUNDS);
	return 2;
}

int main(int argc, char **argv)
{
	static struct result results[MAX_SCENES];
	bool as_json = false;
	int rounds = 201, i;

	for (i = 1; i < argc && rounds; i++) {
		if (strcmp(argv[i], "--json") == 0)
			as_json = true;
		else if (strcmp(argv[i], "--gpu") == 0)
			choose_gpu();
		else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
			rounds = read_rounds(argv[++i]);
		else
			rounds = 0;
	}
	if (!rounds)
		return usage();
	if (!as_json)
		walk_print_head(rounds);
	for (i = 0; i < scene_count; i++) {
		results[i] = measure(&scenes[i], rounds);
		if (!as_json)
			walk_print_scene(&scenes[i], &results[i]);
	}
	if (as_json)
		walk_json(scenes, results, scene_count, rounds);
	else if (platform == COHORT_PLATFORM_HOST)
		walk_print_parts(scenes, results, scene_count);
	return 0;
}
