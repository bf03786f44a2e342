/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_PERF_CALLS_H
#define CLI_BENCH_PERF_CALLS_H

/*
 * The collectives that can be measured: how each is called, by cohort_*() or by the
 * platform's table, which data it moves, and what its result must be
 *
 * Bytes and bandwidths are counted as nccl-tests counts them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "core/op.h"
#include "platform/platform.h"

/* How operations are made. */
enum bench_path {
	PATH_API,  /* cohort_*() */
	PATH_RAW,  /* NCCL's functions in the platform's table */
	PATH_HOST, /* cohort_*_host(), with plain memory */
	BENCH_PATHS,
};

/* A rank's call.  Only its own thread uses it. */
struct call {
	enum op_kind kind; /* of the collective */
	enum bench_path path;
	struct cohort_comm *comm;
	const struct platform *platform;
	ncclComm_t native; /* inside cohort_comm_native_enter(), for PATH_RAW */
	cudaStream_t stream;
	int rank;
	int ranks;
	const void *send;
	void *recv;
	size_t count;
	int type;
	int op;
	int root;
	uint64_t ticket; /* of the newest operation */
};

/* Make the call.  An enum cohort_status; by PATH_RAW an ncclResult_t. */
int call_submit(struct call *c);

/* Wait for the call; with host memory it has waited.  An enum cohort_status; by
 * PATH_RAW a cudaError_t. */
int call_finish(struct call *c);

/* Where a block of the result comes from. */
enum bench_source {
	SOURCE_FOLD,     /* the reduction of all ranks' blocks */
	SOURCE_ROOT,     /* the root's block */
	SOURCE_EACH,     /* block r is rank r's */
	SOURCE_PREVIOUS, /* the previous rank's block */
};

struct collective {
	const char *name;
	enum op_kind
		kind; /* OP_SEND: to the next rank, from the previous one */
	enum bench_source source;
};

/* True if the result may replace what is sent. */
static inline bool collective_has_in_place(const struct collective *c)
{
	return c->kind != OP_ALL_TO_ALL && c->kind != OP_SEND;
}

/* True if calls with host memory have a single buffer. */
static inline bool collective_is_single(const struct collective *c)
{
	return collective_has_in_place(c) && !op_has_blocks(c->kind);
}

/* Bus bandwidth divided by algorithm bandwidth. */
double collective_factor(const struct collective *c, int ranks);

extern const struct collective collectives[];
extern const size_t collective_count;

/* Find a collective by its name or by that of its program of nccl-tests, as
 * "all_reduce_perf" and "alltoall_perf"; NULL if there is none. */
const struct collective *collective_find(const char *name);

#endif
