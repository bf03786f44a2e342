/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scenes of teardown: aborts in every state, finalizes and destroys in every
 * order, child communicators, and nonblocking communicators
 */

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "differ.h"

/* ---- aborts ----------------------------------------------------------- */

static void abort_idle(struct stage *g)
{
	connect_all(g);
	abort_all(g);
}

static void *wait_for_stream(void *user)
{
	struct actor *a = user;

	CALL(a, ncclAllReduce(a->send, a->recv, FLOATS, ncclFloat, ncclSum,
	                      a->comm, a->stream));
	CALL(a, cudaStreamSynchronize(a->stream));
	return NULL;
}

/* Abort all ranks while rank 0 waits for rank 1, which never calls. */
static void abort_waiting(struct stage *g)
{
	pthread_t thread;

	connect_all(g);
	pthread_create(&thread, NULL, wait_for_stream, &g->actors[0]);
	await_blocked(&g->actors[0]);
	abort_all(g);
	pthread_join(thread, NULL);
}

/* Abort one rank alone. */
static void abort_one(struct stage *g)
{
	pthread_t thread;

	connect_all(g);
	pthread_create(&thread, NULL, wait_for_stream, &g->actors[0]);
	await_blocked(&g->actors[0]);
	CALL(&g->main, ncclCommAbort(g->actors[1].comm));
	pthread_join(thread, NULL);
}

static void *join(void *user)
{
	struct actor *a = user;

	cudaSetDevice(a->rank);
	CALL(a, ncclCommInitRank(&a->comm, 2, a->stage->id, a->rank));
	return NULL;
}

/* Abort a rank that waits for another rank in its init. */
static void cut_init(struct stage *g)
{
	struct actor *a = &g->actors[0];
	pthread_t thread;

	CALL(&g->main, ncclGetUniqueId(&g->id));
	pthread_create(&thread, NULL, join, a);
	await_blocked(a);
	CALL(&g->main,
	     ncclCommAbort(__atomic_load_n(&a->comm, __ATOMIC_ACQUIRE)));
	pthread_join(thread, NULL);
}

static void join_part(struct actor *a)
{
	join(a);
}

/* Reuse the id of an aborted init. */
static void cut_init_again(struct stage *g)
{
	cut_init(g);
	each(g, join_part);
}

static void abort_by_thread_part(struct actor *a)
{
	CALL(a, ncclCommAbort(a->comm));
}

static void abort_by_threads(struct stage *g)
{
	connect_all(g);
	each(g, abort_by_thread_part);
}

/* Make calls on a communicator that was aborted but not freed, because another
 * rank still exists. */
static void call_after_abort(struct stage *g)
{
	struct actor *m = &g->main, *a = &g->actors[0];
	ncclResult_t state = ncclInProgress;

	connect_all(g);
	CALL(m, ncclCommAbort(a->comm));
	CALL(m, ncclCommGetAsyncError(a->comm, &state));
	note(m, " state=%d", (int)state);
	CALL(m, ncclCommCount(a->comm, (int[1]){ 0 }));
	CALL(m, ncclAllReduce(a->send, a->recv, 4, ncclFloat, ncclSum, a->comm,
	                      a->stream));
	CALL(m, cudaStreamSynchronize(a->stream));
	CALL(m, ncclCommAbort(g->actors[1].comm));
}

/* Abort in a group whose calls have failed, which drops the abort. */
static void abort_in_bad_group(struct stage *g)
{
	struct actor *m = &g->main;

	connect_all(g);
	CALL(m, ncclGroupStart());
	CALL(m, ncclCommAbort(g->actors[0].comm));
	CALL(m, ncclAllReduce(NULL, NULL, 4, ncclFloat, ncclSum, NULL, NULL));
	CALL(m, ncclGroupEnd());
}

/* ---- orders of teardown ----------------------------------------------- */

static void finalize_part(struct actor *a)
{
	ncclResult_t state = ncclInProgress;

	CALL(a, ncclCommFinalize(a->comm));
	CALL(a, ncclCommGetAsyncError(a->comm, &state));
	note(a, " state=%d", (int)state);
	CALL(a, ncclCommFinalize(a->comm));
	CALL(a, ncclCommCount(a->comm, (int[1]){ 0 }));
}

static void finalize_twice(struct stage *g)
{
	connect_all(g);
	each(g, finalize_part);
	destroy_all(g);
}

/* Finalize and destroy one rank after another, on one thread. */
static void finalize_in_turn(struct stage *g)
{
	int i;

	connect_all(g);
	for (i = 0; i < g->n; i++) {
		CALL(&g->main, ncclCommFinalize(g->actors[i].comm));
		CALL(&g->main, ncclCommDestroy(g->actors[i].comm));
	}
}

static void destroy_in_turn(struct stage *g)
{
	int i;

	connect_all(g);
	for (i = 0; i < g->n; i++)
		CALL(&g->main, ncclCommDestroy(g->actors[i].comm));
}

static void finalize_then_abort(struct stage *g)
{
	int i;

	connect_all(g);
	for (i = 0; i < g->n; i++)
		CALL(&g->main, ncclCommFinalize(g->actors[i].comm));
	abort_all(g);
}

/* Make calls on a destroyed communicator. It still exists, because other ranks
 * have not ended. */
static void call_after_destroy(struct stage *g)
{
	struct actor *m = &g->main, *a = &g->actors[0];

	connect_all(g);
	CALL(m, ncclCommDestroy(a->comm));
	CALL(m, ncclCommCount(a->comm, (int[1]){ 0 }));
	CALL(m, ncclCommFinalize(a->comm));
	CALL(m, ncclCommDestroy(g->actors[1].comm));
}

static void revoke_part(struct actor *a)
{
	CALL(a, ncclCommRevoke(a->comm, 0));
	CALL(a, ncclCommRevoke(a->comm, 0));
	CALL(a, ncclAllReduce(a->send, a->recv, 4, ncclFloat, ncclSum, a->comm,
	                      a->stream));
	CALL(a, ncclCommFinalize(a->comm));
	CALL(a, ncclCommCount(a->comm, (int[1]){ 0 }));
}

static void revoke(struct stage *g)
{
	connect_all(g);
	each(g, revoke_part);
	destroy_all(g);
}

/* ---- children --------------------------------------------------------- */

static void use_child(struct actor *a, ncclComm_t child)
{
	int number = -1;

	if (!child)
		return;
	CALL(a, ncclCommUserRank(child, &number));
	note(a, " %d", number);
	CALL(a, ncclCommCount(child, &number));
	note(a, " %d", number);
	CALL(a, ncclAllReduce(a->send, a->recv, FLOATS, ncclFloat, ncclSum,
	                      child, a->stream));
	digest(a);
	CALL(a, ncclCommDestroy(child));
}

/* Split with the ranks ordered by key, and one rank without a color. */
static void split_part(struct actor *a)
{
	ncclComm_t child = a->comm;
	int color = a->rank == 2 ? NCCL_SPLIT_NOCOLOR : 7;

	CALL(a, ncclCommSplit(a->comm, color, -a->rank, &child, NULL));
	note(a, " child=%d", child != NULL);
	use_child(a, child);
}

static void split(struct stage *g)
{
	connect_all(g);
	each(g, split_part);
	destroy_all(g);
}

static void split_color_part(struct actor *a)
{
	ncclComm_t child = NULL;

	CALL(a, ncclCommSplit(a->comm, -2 - a->rank, 0, &child, NULL));
	note(a, " child=%d", child != NULL);
	use_child(a, child);
}

static void split_negative(struct stage *g)
{
	connect_all(g);
	each(g, split_color_part);
	destroy_all(g);
}

static void shrink_part(struct actor *a)
{
	ncclComm_t child = NULL;
	int list[] = { 1 };

	if (a->rank == 1)
		return;
	CALL(a, ncclCommShrink(a->comm, list, 1, &child, NULL, 0));
	use_child(a, child);
}

static void shrink(struct stage *g)
{
	connect_all(g);
	each(g, shrink_part);
	destroy_all(g);
}

/* Shrink, with an abort of a call that rank 1 never made. */
static void shrink_abort_part(struct actor *a)
{
	ncclComm_t child = NULL;
	int list[] = { 1 };

	if (a->rank == 1)
		return;
	CALL(a, ncclAllReduce(a->send, a->recv, FLOATS, ncclFloat, ncclSum,
	                      a->comm, a->stream));
	CALL(a,
	     ncclCommShrink(a->comm, list, 1, &child, NULL, NCCL_SHRINK_ABORT));
	CALL(a, cudaStreamSynchronize(a->stream));
	use_child(a, child);
}

static void shrink_abort(struct stage *g)
{
	connect_all(g);
	each(g, shrink_abort_part);
	abort_all(g);
}

/* Split on all ranks except one. */
static void lonely_split_part(struct actor *a)
{
	ncclComm_t child = NULL;

	if (a->rank)
		CALL(a, ncclCommSplit(a->comm, 0, 0, &child, NULL));
}

static void lonely_split(struct stage *g)
{
	connect_all(g);
	each(g, lonely_split_part);
}

/* Use a child after its parent was destroyed. */
static void orphan_part(struct actor *a)
{
	ncclComm_t child = NULL;

	CALL(a, ncclCommSplit(a->comm, 0, a->rank, &child, NULL));
	CALL(a, ncclCommDestroy(a->comm));
	use_child(a, child);
}

static void orphan(struct stage *g)
{
	connect_all(g);
	each(g, orphan_part);
}

/* ---- nonblocking communicators ---------------------------------------- */

static void await(struct actor *a)
{
	ncclResult_t state, result;

	do {
		result = ncclCommGetAsyncError(a->comm, &state);
		sched_yield();
	} while (result == ncclSuccess && state == ncclInProgress);
	note(a, " %d:%d", (int)result, (int)state);
}

static void start_unblocked(struct actor *a)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = 0;
	CALL(a, ncclCommInitRankConfig(&a->comm, a->stage->n, a->stage->id,
	                               a->rank, &config));
}

static void unblocked_part(struct actor *a)
{
	start_unblocked(a);
	await(a);
	CALL(a, ncclAllReduce(a->send, a->recv, FLOATS, ncclFloat, ncclSum,
	                      a->comm, a->stream));
	await(a);
	digest(a);
	CALL(a, ncclCommFinalize(a->comm));
	await(a);
	CALL(a, ncclCommDestroy(a->comm));
}

static void unblocked(struct stage *g)
{
	CALL(&g->main, ncclGetUniqueId(&g->id));
	each(g, unblocked_part);
}

/* Make a call while the init is in progress, then abort the init. */
static void unblocked_too_early(struct stage *g)
{
	struct actor *a = &g->actors[0];

	CALL(&g->main, ncclGetUniqueId(&g->id));
	start_unblocked(a);
	CALL(a, ncclCommCount(a->comm, (int[1]){ 0 }));
	CALL(a, ncclAllReduce(a->send, a->recv, 4, ncclFloat, ncclSum, a->comm,
	                      a->stream));
	CALL(a, ncclCommFinalize(a->comm));
	CALL(a, ncclCommAbort(a->comm));
}

/* Check that an asynchronous error persists. */
static void unblocked_error_part(struct actor *a)
{
	start_unblocked(a);
	await(a);
	CALL(a, ncclAllReduce(a->send, a->recv, 4, (ncclDataType_t)12, ncclSum,
	                      a->comm, a->stream));
	await(a);
	CALL(a, ncclCommCount(a->comm, (int[1]){ 0 }));
	CALL(a, ncclAllReduce(a->send, a->recv, 4, ncclFloat, ncclSum, a->comm,
	                      a->stream));
	CALL(a, ncclCommAbort(a->comm));
}

static void unblocked_error(struct stage *g)
{
	CALL(&g->main, ncclGetUniqueId(&g->id));
	each(g, unblocked_error_part);
}

/* Make calls on a blocking and a nonblocking communicator in one group. */
static void mixed_group(struct stage *g)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct actor *m = &g->main;

	config.blocking = 0;
	CALL(m, ncclGetUniqueId(&g->id));
	CALL(m, ncclGroupStart());
	CALL(m, ncclCommInitRank(&g->actors[0].comm, 2, g->id, 0));
	CALL(m,
	     ncclCommInitRankConfig(&g->actors[1].comm, 2, g->id, 1, &config));
	CALL(m, ncclGroupEnd());
}

const struct scene end_scenes[] = {
	{ "abort_idle", 2, SECONDS, abort_idle },
	{ "abort_waiting", 2, SECONDS, abort_waiting },
	{ "abort_one", 2, HANGS, abort_one },
	{ "cut_init", 2, SECONDS, cut_init },
	{ "cut_init_again", 2, HANGS, cut_init_again },
	{ "abort_by_threads", 2, SECONDS, abort_by_threads },
	{ "call_after_abort", 2, HANGS, call_after_abort },
	{ "abort_in_bad_group", 2, HANGS, abort_in_bad_group },
	{ "finalize_twice", 2, SECONDS, finalize_twice },
	{ "finalize_in_turn", 3, SECONDS, finalize_in_turn },
	{ "destroy_in_turn", 3, SECONDS, destroy_in_turn },
	{ "finalize_then_abort", 2, SECONDS, finalize_then_abort },
	{ "call_after_destroy", 2, HANGS, call_after_destroy },
	{ "revoke", 2, HANGS, revoke },
	{ "split", 4, SECONDS, split },
	{ "split_negative", 2, HANGS, split_negative },
	{ "shrink", 3, SECONDS, shrink },
	{ "shrink_abort", 3, HANGS, shrink_abort },
	{ "lonely_split", 2, HANGS, lonely_split },
	{ "orphan", 2, SECONDS, orphan },
	{ "unblocked", 2, SECONDS, unblocked },
	{ "unblocked_too_early", 2, HANGS, unblocked_too_early },
	{ "unblocked_error", 2, HANGS, unblocked_error },
	{ "mixed_group", 2, HANGS, mixed_group },
	{ .name = NULL },
};
