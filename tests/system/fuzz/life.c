/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Steps that create communicators and end them
 */

#include <sched.h>

#include "system/fuzz/program.h"

/* ---- inits ------------------------------------------------------------ */

void publish(struct family *f, struct program *p, int ranks)
{
	atomic_fetch_add(&f->ready, ranks);
	pthread_mutex_lock(&p->lock);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/*
 * Run an init step: one thread creates all ranks, and the others wait for it.
 */
void run_init_all(struct runner *r, struct step *s)
{
	struct program *p = r->program;
	struct family *f = s->family;

	wait_begin(p, s->may_hang);
	if (r->index == f->owner[0]) {
		expect(true, host_ncclCommInitAll(f->comm, f->n, f->device),
		       "ncclCommInitAll");
		publish(f, p, f->n);
	}
	pthread_mutex_lock(&p->lock);
	while (atomic_load(&f->ready) != f->n)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	wait_end(p, s->may_hang);
}

int own_ranks(const struct runner *r, const struct family *f)
{
	int rank, n = 0;

	for (rank = 0; rank < f->n; rank++)
		n += f->owner[rank] == r->index;
	return n;
}

void check_comm(const struct family *f, int rank)
{
	ncclComm_t comm = f->comm[rank];
	int count = -1, number = -1, device = -1;

	expect(true, host_ncclCommCount(comm, &count), "ncclCommCount");
	expect(true, host_ncclCommUserRank(comm, &number), "ncclCommUserRank");
	expect(true, host_ncclCommCuDevice(comm, &device), "ncclCommCuDevice");
	if (count != f->n || number != rank || device != f->device[rank])
		fuzz_fail("rank %d of %d on %d says %d of %d on %d", rank, f->n,
		          f->device[rank], number, count, device);
}

/* Wait for the joins of a family (the ranks of one communicator) that no other
 * thread can use yet. */
static ncclResult_t await_joins(struct runner *r, struct family *f)
{
	ncclResult_t state = ncclSuccess;
	int rank;

	wait_begin(r->program, false);
	for (rank = 0; rank < f->n && state == ncclSuccess; rank++) {
		if (f->owner[rank] != r->index)
			continue;
		do {
			sched_yield();
			expect(true,
			       host_ncclCommGetAsyncError(f->comm[rank],
			                                  &state),
			       "ncclCommGetAsyncError");
		} while (state == ncclInProgress);
	}
	wait_end(r->program, false);
	return state;
}

void joins_end_group(struct runner *r, ncclResult_t result)
{
	struct family *f;
	int i, rank;

	for (i = 0; i < r->join_count; i++) {
		f = r->joins[i]->family;
		if (f->is_async && result == ncclInProgress)
			result = await_joins(r, f);
		if (result != ncclSuccess)
			fuzz_fail("ranks could not join: status %d: %s",
			          (int)result, host_ncclGetLastError(NULL));
		for (rank = 0; rank < f->n; rank++)
			if (f->owner[rank] == r->index)
				check_comm(f, rank);
		publish(f, r->program, own_ranks(r, f));
	}
	r->join_count = 0;
}

/* Make joins that are refused. The id must remain usable. */
static void join_wrong(struct step *s)
{
	ncclComm_t comm;

	if (s->grouped || s->raw[7] % 4)
		return;
	if (host_ncclCommInitRank(&comm, s->family->n, s->family->id,
	                          s->family->n) != ncclInvalidArgument)
		fuzz_fail("a rank beyond the last one can join");
}

static ncclResult_t join(struct family *f, int rank, bool scalable)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = !f->is_async;
	config.splitShare = f->shares[0];
	config.shrinkShare = f->shares[1];
	if (scalable)
		return host_ncclCommInitRankScalable(
			&f->comm[rank], f->n, rank, 1, &f->id,
			f->has_config ? &config : NULL);
	if (f->has_config)
		return host_ncclCommInitRankConfig(&f->comm[rank], f->n, f->id,
		                                   rank, &config);
	return host_ncclCommInitRank(&f->comm[rank], f->n, f->id, rank);
}

void run_init_ranks(struct runner *r, struct step *s)
{
	struct family *f = s->family;
	int i, rank, before;

	if (!own_ranks(r, f))
		return;
	join_wrong(s);
	host_cudaGetDevice(&before);
	fuzz_group_start(r);
	r->joins[r->join_count++] = s;
	r->group_waits = true;
	r->group_is_loose |= f->is_async;
	for (i = 0; i < f->n; i++) {
		rank = (i + s->raw[6]) % f->n;
		if (f->owner[rank] != r->index)
			continue;
		expect_cuda(host_cudaSetDevice(f->device[rank]),
		            "cudaSetDevice");
		expect(true, join(f, rank, s->raw[7] % 2), "joining");
	}
	fuzz_group_end(r, s->may_hang);
	expect_cuda(host_cudaSetDevice(before), "cudaSetDevice");
}

/* ---- teardown --------------------------------------------------------- */

typedef ncclResult_t (*end_fn)(ncclComm_t comm);

/*
 * Call @end for each of the thread's ranks, in one group or one by one.
 */
static void end_ranks(struct runner *r, struct step *s, end_fn end,
                      bool releases, const char *call)
{
	struct family *f = s->family;
	bool group = s->raw[3] % 2;
	ncclResult_t result;
	int rank;

	if (group)
		fuzz_group_start(r);
	r->group_is_loose |= group && f->is_async;
	r->group_waits = r->group_waits || r->depth;
	for (rank = 0; rank < f->n; rank++) {
		if (f->owner[rank] != r->index || !go_inside(r, f, rank))
			continue;
		if (releases && atomic_exchange(&f->is_released[rank], true))
			continue;
		wait_begin(r->program, s->may_hang);
		result = end(f->comm[rank]);
		expect(!f->is_async || releases, result, call);
		wait_end(r->program, s->may_hang);
		settle(r);
	}
	if (group)
		fuzz_group_end(r, s->may_hang);
	for (rank = 0; f->is_async && !releases && rank < f->n; rank++)
		if (f->owner[rank] == r->index)
			expect(true, await_state(r, f, rank), "a state");
}

void run_finalize(struct runner *r, struct step *s)
{
	if (own_ranks(r, s->family))
		end_ranks(r, s, host_ncclCommFinalize, false,
		          "ncclCommFinalize");
}

/*
 * End a family (the ranks of one communicator) whose creation failed. No other
 * thread has ever used it.
 */
static void end_broken(struct runner *r, struct family *f)
{
	int rank;

	for (rank = 0; rank < f->n; rank++)
		if (f->owner[rank] == r->index &&
		    !atomic_exchange(&f->is_released[rank], true))
			expect(true, host_ncclCommAbort(f->comm[rank]),
			       "ncclCommAbort");
}

/*
 * Finish the operations in flight before a destroy. Other families that are
 * aborted together with this one may have ranks that this one does not have.
 */
static void finish_together(struct runner *r, struct step *s)
{
	ranks_drain(r, s->family, false);
	wait_for_owners(r->program, s);
}

void run_destroy(struct runner *r, struct step *s)
{
	if (!own_ranks(r, s->family))
		return;
	if (!is_alone(r->program, s->family))
		finish_together(r, s);
	if (atomic_load(&s->family->is_broken))
		end_broken(r, s->family);
	else if (settle_ending(s->family, ENDING_DESTROY))
		end_ranks(r, s, host_ncclCommDestroy, true, "ncclCommDestroy");
}

void run_own_abort(struct runner *r, struct step *s)
{
	if (!own_ranks(r, s->family))
		return;
	if (s->grouped)
		wait_cut(r->program);
	else
		cut_together(r, s);
	if (atomic_load(&s->family->is_broken))
		end_broken(r, s->family);
	else if (settle_ending(s->family, ENDING_ABORT))
		end_ranks(r, s, host_ncclCommAbort, true, "ncclCommAbort");
}

void run_abort(struct runner *r, struct step *s)
{
	reap_want(r->program, s->family);
}

/* ---- faults ----------------------------------------------------------- */

int fault_kind(const struct step *s)
{
	static const int kinds[] = {
		COHORT_FAULT_NEVER,    COHORT_FAULT_DELAY, COHORT_FAULT_ERROR,
		COHORT_FAULT_STUCK,    COHORT_FAULT_ASYNC, COHORT_FAULT_MEMORY,
		COHORT_FAULT_ARGUMENT, COHORT_FAULT_HUNG,  COHORT_FAULT_INIT,
	};

	return kinds[s->raw[2] % (sizeof(kinds) / sizeof(kinds[0]))];
}

void run_fault(struct runner *r, struct step *s)
{
	struct cohort_fault f = {
		.rank = s->raw[3] % (MOST_RANKS + 1) - 1,
		.operation = s->raw[4] % 16,
		.kind = fault_kind(s),
		.value = s->raw[5],
	};

	(void)r;
	if (f.kind == COHORT_FAULT_ERROR || f.kind == COHORT_FAULT_ASYNC)
		f.value = 1 + f.value % ncclRemoteError;
	if (f.kind == COHORT_FAULT_INIT)
		f.operation = 0;
	cohort_sim_fault_add(&f);
}
