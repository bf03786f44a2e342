/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/bench/lane.h"

#include <stdlib.h>
#include <string.h>

/* Fills the room for results before these are checked. */
#define POISON 0xa5

#define fail(lane, ...) meeting_fail(&(lane)->bench->meeting, __VA_ARGS__)

bool lane_meet(struct lane *lane)
{
	return meeting_meet(&lane->bench->meeting, &lane->met,
	                    lane->caller.comm);
}

/* ---- operations -------------------------------------------------------- */

bool lane_enter(struct lane *lane, enum bench_path path)
{
	void *native;

	lane->path = path;
	if (path != PATH_RAW)
		return true;
	if (cohort_comm_native_enter(lane->caller.comm, &native) != COHORT_OK)
		return fail(lane, "rank %d: %s", lane->caller.rank,
		            cohort_last_error());
	lane->caller.native = native;
	return true;
}

void lane_leave(struct lane *lane)
{
	if (lane->path == PATH_RAW)
		cohort_comm_native_leave(lane->caller.comm);
}

/* True if both results are 0; else false, after a complaint. */
bool lane_explain(struct lane *lane, int submitted, int finished)
{
	const struct platform *p = lane->caller.platform;
	const char *why;

	if (!submitted && !finished)
		return true;
	if (lane->path != PATH_RAW)
		why = cohort_last_error();
	else if (submitted)
		why = p->ncclGetErrorString((ncclResult_t)submitted);
	else
		why = p->cudaGetErrorString((cudaError_t)finished);
	return fail(lane, "rank %d, %s: %s", lane->caller.rank,
	            lane->collective->name, why);
}

/* ---- buffers ---------------------------------------------------------- */

/* Where the host writes or reads what belongs at @at. */
static char *host_side(struct lane *lane, char *at)
{
	return lane->staging && !lane->is_plain ? lane->staging : at;
}

/* The case's buffer @i. */
static char *memory(const struct lane *lane, int i)
{
	return lane->staging && lane->is_plain ? lane->plain[i]
	                                       : lane->buffer[i];
}

static bool transfer(struct lane *lane, void *to, const void *from,
                     size_t bytes)
{
	const struct platform *p = lane->caller.platform;
	cudaError_t err;

	if (!lane->staging || lane->is_plain)
		return true;
	err = p->cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
	if (err == cudaSuccess)
		err = p->cudaDeviceSynchronize();
	return err == cudaSuccess ||
	       fail(lane, "rank %d, copy: %s", lane->caller.rank,
	            p->cudaGetErrorString(err));
}

bool lane_rewrite(struct lane *lane)
{
	size_t blocks =
		collective_send_blocks(lane->collective, lane->caller.ranks);
	char *at = host_side(lane, lane->send);

	pattern_put(&lane->pattern, at, blocks * lane->call.count);
	return transfer(lane, lane->send, at, blocks * lane->block);
}

bool lane_wipe(struct lane *lane, int byte)
{
	const struct collective *c = lane->collective;
	size_t ranks = (size_t)lane->caller.ranks;
	size_t bytes = lane->block *
	               (c->sends_blocks || c->receives_blocks ? ranks : 1);

	for (int i = 0; i < 2; i++) {
		char *at = host_side(lane, memory(lane, i));

		if (!memory(lane, i))
			continue;
		memset(at, byte, bytes);
		if (!transfer(lane, memory(lane, i), at, bytes))
			return false;
	}
	return true;
}

void lane_aim(struct lane *lane, const struct bench_case *c)
{
	const struct caller *w = &lane->caller;
	size_t block = c->count * cohort_type_size(c->type);
	char *base, *recv;

	lane->is_plain = c->mode.path == PATH_HOST;
	base = recv = memory(lane, 0);
	lane->send = memory(lane, 1);
	if (c->mode.in_place) {
		lane->send = base + collective_send_offset(c->collective,
		                                           w->rank, block);
		recv += collective_recv_offset(c->collective, w->rank, block);
	}
	lane->collective = c->collective;
	lane->block = block;
	lane->call = (struct call){
		.send = lane->send,
		.recv = recv,
		.count = c->count,
		.type = c->type,
		.op = c->op < 0 ? COHORT_SUM : c->op,
		.root = lane->bench->plan->options->root,
	};
	pattern_of_rank(&lane->pattern, c->type, c->op, w->rank, w->ranks);
}

/* ---- checking --------------------------------------------------------- */

/* Set the pattern expected in block @b of the result. */
static void expect(struct lane *lane, const struct bench_case *c, int b)
{
	int rank = lane->caller.rank, ranks = lane->caller.ranks, from = b;

	switch (c->collective->source) {
	case SOURCE_FOLD:
		pattern_of_fold(&lane->expected, c->type, c->op, ranks);
		return;
	case SOURCE_ROOT:
		from = lane->call.root;
		break;
	case SOURCE_EACH:
		break;
	case SOURCE_PREVIOUS:
		from = (rank + ranks - 1) % ranks;
		break;
	}
	pattern_of_rank(&lane->expected, c->type, c->op, from, ranks);
}

static bool count_wrong(struct lane *lane, struct bench_case *c)
{
	int rank = lane->caller.rank, ranks = lane->caller.ranks;
	int blocks = c->collective->receives_blocks ? ranks : 1;
	size_t first =
		c->collective->sends_blocks ? (size_t)rank * c->count : 0;
	char *at = host_side(lane, lane->call.recv);
	size_t wrong = 0;

	if (c->collective->only_root && rank != lane->call.root)
		return true;
	if (!transfer(lane, at, lane->call.recv, (size_t)blocks * lane->block))
		return false;
	for (int b = 0; b < blocks; b++) {
		expect(lane, c, b);
		wrong += pattern_wrong(&lane->expected,
		                       at + (size_t)b * lane->block, first,
		                       c->count);
	}
	/* Relaxed: read after the threads have ended. */
	atomic_fetch_add_explicit(&c->wrong, wrong, memory_order_relaxed);
	return true;
}

/* Fill the results' room with other values first, because old results could be
 * right. */
bool lane_check(struct lane *lane, struct bench_case *c)
{
	int submitted, finished;
	bool ok = lane_wipe(lane, POISON) && lane_rewrite(lane) &&
	          lane_meet(lane) && lane_enter(lane, c->mode.path);

	if (!ok)
		return false;
	submitted = lane_submit(lane);
	finished = submitted ? 0 : lane_finish(lane);
	lane_leave(lane);
	return lane_explain(lane, submitted, finished) && count_wrong(lane, c);
}

/* ---- begin and end ----------------------------------------------------- */

static bool allocate(struct lane *lane)
{
	struct bench *b = lane->bench;
	size_t bytes = b->plan->bytes;
	bool ok;

	for (int i = 0; i < (b->plan->needs_two ? 2 : 1); i++) {
		void *memory;

		if (cohort_alloc(lane->caller.comm, bytes, &memory) !=
		    COHORT_OK)
			return fail(lane, "rank %d, %zu bytes: %s",
			            lane->caller.rank, bytes,
			            cohort_last_error());
		lane->buffer[i] = memory;
	}
	if (b->platform->memory_is_host)
		return true;
	lane->staging = malloc(bytes);
	ok = lane->staging;
	for (int i = 0; i < 2 && b->plan->needs_plain; i++)
		if (lane->buffer[i])
			ok = (lane->plain[i] = malloc(bytes)) && ok;
	return ok || fail(lane, "out of memory: %zu bytes", bytes);
}

bool lane_open(struct lane *lane, struct cohort_comm *comm)
{
	struct bench *b = lane->bench;

	lane->caller = (struct caller){
		.comm = comm,
		.platform = b->platform,
		.stream = cohort_comm_stream(comm),
		.rank = cohort_comm_rank(comm),
		.ranks = b->ranks,
	};
	if (b->plan->options->pin)
		meeting_pin(lane->caller.rank, b->cores);
	return allocate(lane);
}

void lane_close(struct lane *lane)
{
	for (int i = 0; i < 2; i++)
		cohort_free(lane->caller.comm, lane->buffer[i]);
}

void lane_destroy(struct lane *lane)
{
	if (!lane)
		return;
	free(lane->staging);
	free(lane->plain[0]);
	free(lane->plain[1]);
	free(lane->begins);
	free(lane->ends);
	free(lane);
}

struct lane *lane_create(struct bench *b, size_t samples)
{
	struct lane *lane = aligned_alloc(64, (sizeof(*lane) + 63) / 64 * 64);

	if (!lane)
		return NULL;
	memset(lane, 0, sizeof(*lane));
	lane->bench = b;
	lane->begins = calloc(samples, sizeof(*lane->begins));
	lane->ends = calloc(samples, sizeof(*lane->ends));
	if (lane->begins && lane->ends)
		return lane;
	lane_destroy(lane);
	return NULL;
}
