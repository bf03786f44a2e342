/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs a program: its threads, the reaper and the cleanup
 *
 * The threads and the reaper are created once for all programs.
 */

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/strict/census.h"
#include "support/crew.h"
#include "system/fuzz/program.h"

void fuzz_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("fuzz: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

/* ---- required results ------------------------------------------------- */

void expect(bool is_sure, ncclResult_t result, const char *call)
{
	if (is_sure && result != ncclSuccess)
		fuzz_fail("%s: %d: %s", call, (int)result,
		          host_ncclGetLastError(NULL));
	if ((int)result < 0 || result > ncclInProgress)
		fuzz_fail("%s: %d is no result", call, (int)result);
}

void expect_cuda(cudaError_t error, const char *call)
{
	if (error != cudaSuccess)
		fuzz_fail("%s: %d: %s", call, (int)error,
		          host_cudaGetErrorString(error));
}

/* ---- waiting ---------------------------------------------------------- */

/*
 * Units of the counters that are packed into program->waits: threads that run,
 * threads that wait, threads that wait for something that may never happen, and
 * ranks that make all threads wait
 */
#define RUNNING UINT64_C(1)
#define WAITING (UINT64_C(1) << 16)
#define HANGING (UINT64_C(1) << 32)
#define CUT (UINT64_C(1) << 48)

/* Return whether all threads wait, and one of them perhaps forever. */
static bool is_stuck_by(uint64_t waits)
{
	uint64_t running = waits % WAITING;

	return running && waits % HANGING / WAITING == running &&
	       waits / HANGING;
}

bool is_stuck(const struct program *p)
{
	return is_stuck_by(
		atomic_load_explicit(&p->waits, memory_order_relaxed));
}

static void wake_reaper(struct program *p)
{
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/*
 * Add to program->waits. This must not order the threads, or a sanitizer would
 * miss their races, so use a relaxed access and no lock. If all threads wait
 * now, wake the reaper.
 */
static void waits_add(struct program *p, uint64_t n)
{
	uint64_t before =
		atomic_fetch_add_explicit(&p->waits, n, memory_order_relaxed);

	if (is_stuck_by(before + n))
		wake_reaper(p);
}

void wait_begin(struct program *p, bool may_hang)
{
	waits_add(p, WAITING + (may_hang ? HANGING : 0));
}

void wait_end(struct program *p, bool may_hang)
{
	waits_add(p, -(WAITING + (may_hang ? HANGING : 0)));
}

void wait_cut(struct program *p)
{
	waits_add(p, CUT);
}

/* ---- gates ------------------------------------------------------------ */

bool is_alive(const struct family *f)
{
	return !atomic_load(&f->is_dead);
}

static void leave(struct runner *r, struct family *f, int rank)
{
	struct program *p = r->program;

	/*
	 * seq_cst, so that either this thread sees that the family is dead and
	 * wakes the reaper, or the reaper sees that the gate is empty.
	 */
	atomic_store(&f->inside[rank], false);
	if (is_alive(f))
		return;
	wake_reaper(p);
}

static bool is_held(const struct runner *r, const struct family *f, int rank)
{
	int i;

	for (i = 0; i < r->held_count; i++)
		if (r->held[i].family == f && r->held[i].rank == rank)
			return true;
	return false;
}

bool go_inside(struct runner *r, struct family *f, int rank)
{
	if (atomic_load(&f->is_broken))
		return false;
	if (is_held(r, f, rank))
		return is_alive(f);
	atomic_store(&f->inside[rank], true);
	if (!is_alive(f) || atomic_load(&f->is_released[rank])) {
		leave(r, f, rank);
		return false;
	}
	r->held[r->held_count].family = f;
	r->held[r->held_count++].rank = rank;
	return true;
}

void settle(struct runner *r)
{
	int i;

	if (r->depth || r->stays_inside)
		return;
	for (i = 0; i < r->held_count; i++)
		leave(r, r->held[i].family, r->held[i].rank);
	r->held_count = 0;
}

/*
 * Wait until a family's abort is over. Until then, the family's streams are in
 * use, and this thread must not be inside a call on it.
 */
static void await_abort(const struct runner *r, const struct family *f)
{
	while (!r->held_count && !is_alive(f) && !atomic_load(&f->is_aborted))
		sched_yield();
}

ncclResult_t await_state(struct runner *r, struct family *f, int rank)
{
	ncclResult_t state = ncclSuccess;

	wait_begin(r->program, false);
	do {
		sched_yield();
		state = ncclSuccess;
		if (!go_inside(r, f, rank)) {
			await_abort(r, f);
			break;
		}
		expect(true, host_ncclCommGetAsyncError(f->comm[rank], &state),
		       "ncclCommGetAsyncError");
		settle(r);
	} while (state == ncclInProgress);
	wait_end(r->program, false);
	return state;
}

/* ---- groups ----------------------------------------------------------- */

ncclResult_t fuzz_group_start(struct runner *r)
{
	ncclResult_t result = host_ncclGroupStart();

	expect(true, result, "ncclGroupStart");
	r->depth++;
	return result;
}

/*
 * Check the result of a group's end. An inner end succeeds, and the outermost
 * end returns the error of the last call that failed.
 */
static void check_group_end(const struct runner *r, ncclResult_t result)
{
	if (r->depth || r->group_is_loose) {
		expect(r->depth, result, "ncclGroupEnd");
		return;
	}
	if ((int)result != r->group_error)
		fuzz_fail("ncclGroupEnd: %d, not %d: %s", (int)result,
		          r->group_error, host_ncclGetLastError(NULL));
}

static ncclResult_t simulate(void)
{
	ncclSimInfo_t info = {
		.size = sizeof(info),
		.magic = NCCL_SIM_INFO_MAGIC,
		.version = NCCL_CONFIG_VERSION,
		.estimatedTime = NCCL_UNDEF_FLOAT,
	};

	return host_ncclGroupSimulateEnd(&info);
}

ncclResult_t fuzz_group_end(struct runner *r, bool may_hang)
{
	bool waits = r->depth == 1 && (r->group_waits || may_hang);
	ncclResult_t result;

	if (waits)
		wait_begin(r->program, may_hang);
	result = r->simulates ? simulate() : host_ncclGroupEnd();
	if (waits)
		wait_end(r->program, may_hang);
	r->depth--;
	check_group_end(r, result);
	if (r->depth)
		return result;
	joins_end_group(r, result);
	/* Calls of a simulated group are not queued. */
	parts_end_group(r, r->simulates ? ncclInternalError : result);
	r->group_error = 0;
	r->group_is_loose = r->group_waits = false;
	settle(r);
	return result;
}

void run_group_begin(struct runner *r, struct step *s)
{
	(void)s;
	fuzz_group_start(r);
	r->group_is_loose |= r->program->is_wild;
}

void run_group_end(struct runner *r, struct step *s)
{
	r->simulates = s->is_simulated;
	fuzz_group_end(r, s->may_hang);
	r->simulates = false;
}

/* ---- steps of several threads ----------------------------------------- */

static int owner_count(const struct family *f)
{
	unsigned mask = 0;
	int r;

	for (r = 0; r < f->n; r++)
		mask |= 1u << f->owner[r];
	return __builtin_popcount(mask);
}

void wait_for_owners(struct program *p, struct step *s)
{
	const int n = owner_count(s->family);

	wait_begin(p, false);
	pthread_mutex_lock(&p->lock);
	if (++s->arrived == n)
		pthread_cond_broadcast(&p->changed);
	while (s->arrived < n)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	wait_end(p, false);
}

bool is_intact(struct program *p, const struct family *f)
{
	int i;

	for (i = 0; i < p->family_count; i++)
		if (p->families[i].root == f->root &&
		    atomic_load(&p->families[i].ending) == ENDING_ABORT)
			return false;
	return true;
}

bool is_alone(struct program *p, const struct family *f)
{
	int i;

	for (i = 0; i < p->family_count; i++)
		if (&p->families[i] != f && p->families[i].root == f->root)
			return false;
	return true;
}

/* ---- threads ---------------------------------------------------------- */

static void (*const runs[])(struct runner *r, struct step *s) = {
#define STEP_RUN(name, weight) [STEP_##name] = run_##name,
	STEP_LIST(STEP_RUN)
#undef STEP_RUN
};

/*
 * Return whether a thread runs a step. Every thread runs every step, except
 * that a step of one thread is run only by that thread.
 */
static bool is_for(const struct runner *r, const struct step *s)
{
	switch (s->kind) {
	case STEP_init_all:
	case STEP_init_ranks:
	case STEP_collective:
	case STEP_captured:
	case STEP_group_begin:
	case STEP_group_end:
	case STEP_finalize:
	case STEP_destroy:
	case STEP_own_abort:
	case STEP_handoff:
	case STEP_split:
	case STEP_shrink:
	case STEP_revoke:
	case STEP_window:
	case STEP_init_cut:
		return true;
	default:
		return s->who == r->index;
	}
}

static void check_thread(struct runner *r)
{
	ncclResult_t result = host_ncclGroupEnd();

	if (result != ncclInvalidUsage)
		fuzz_fail("a group is open at the end: %d", (int)result);
	if (r->held_count || r->depth || r->pending)
		fuzz_fail("the thread has not settled");
}

static void run_steps(struct runner *r)
{
	struct program *p = r->program;
	int i, before, after;

	for (i = 0; i < p->step_count; i++) {
		if (!is_for(r, &p->steps[i]))
			continue;
		host_cudaGetDevice(&before);
		runs[p->steps[i].kind](r, &p->steps[i]);
		settle(r);
		host_cudaGetDevice(&after);
		if (before != after)
			fuzz_fail("step %d: device %d, then %d", i, before,
			          after);
	}
}

static void thread_main(void *round, int i)
{
	struct program *p = round;
	struct runner *r = &p->runners[i];

	if (i >= p->threads)
		return;
	expect_cuda(host_cudaSetDevice(i), "cudaSetDevice");
	run_steps(r);
	streams_drain(r);
	check_thread(r);
	waits_add(p, -RUNNING);
}

/* ---- teardown --------------------------------------------------------- */

struct census {
	size_t memory, streams, events, worlds, meetings;
};

static struct census census(void)
{
	return (struct census){ memory_live(),
		                stream_live() - scene_own_streams(),
		                event_live(), world_live(), meeting_live() };
}

static void check_census(const struct census *before)
{
	struct census after = census();

	if (memcmp(before, &after, sizeof(after)) != 0)
		fuzz_fail("not given back: memory %zd, streams %zd, events "
		          "%zd, worlds %zd, meetings %zd",
		          after.memory - before->memory,
		          after.streams - before->streams,
		          after.events - before->events,
		          after.worlds - before->worlds,
		          after.meetings - before->meetings);
}

/* End all families that no step has ended, in one native group. */
static void end_families(struct program *p)
{
	struct family *f;
	int i, r, how;

	expect(true, host_ncclGroupStart(), "ncclGroupStart");
	for (i = 0; i < p->family_count; i++) {
		f = &p->families[i];
		how = p->ends_by_destroy && !f->is_doomed && !p->is_wild &&
		                      !f->is_broken && is_alive(f)
		              ? ENDING_DESTROY
		              : ENDING_ABORT;
		if (!is_ready(f) || !settle_ending(f, how))
			continue;
		for (r = 0; r < f->n; r++)
			if (!atomic_exchange(&f->is_released[r], true))
				expect(true,
				       how == ENDING_DESTROY
				               ? host_ncclCommDestroy(
							 f->comm[r])
				               : host_ncclCommAbort(f->comm[r]),
				       "the end of a communicator");
	}
	expect(true, host_ncclGroupEnd(), "ncclGroupEnd at the end");
	for (i = 0; i < p->family_count; i++)
		partial_end(&p->families[i]);
}

static void free_parts(struct program *p)
{
	int i;

	for (i = 0; i < p->threads; i++) {
		parts_free(&p->runners[i].parts, -1);
		parts_free(&p->runners[i].checked, -1);
	}
}

static struct crew threads, reaper;

static void start_crews(void)
{
	static bool started;

	if (started)
		return;
	started = true;
	crew_start(&threads, MOST_THREADS, thread_main);
	crew_start(&reaper, 1, reap);
}

static void begin(struct program *p)
{
	int i;

	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	for (i = 0; i < HOLDS; i++)
		sem_init(&p->held[i], 0, 0);
	for (i = 0; i < p->threads; i++) {
		p->runners[i].program = p;
		p->runners[i].index = i;
	}
	atomic_store(&p->waits, (uint64_t)p->threads * RUNNING);
}

static void run(struct program *p)
{
	begin(p);
	crew_begin(&reaper, p);
	crew_begin(&threads, p);
	crew_end(&threads);
	pthread_mutex_lock(&p->lock);
	p->is_over = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	crew_end(&reaper);
	end_families(p);
	free_parts(p);
	cuda_end(p);
	cohort_sim_faults_clear();
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
}

void fuzz_run(const uint8_t *data, size_t size)
{
	static struct program p;
	struct census before;

	start_crews();
	before = census();
	if (!plan(&p, data, size))
		return;
	plan_show(&p);
	run(&p);
	check_census(&before);
}
