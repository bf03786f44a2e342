/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_CALL_H
#define CLI_BENCH_CALL_H

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

#include "platform/platform.h"

/* What a rank's calls need.  Only its own thread uses it. */
struct caller {
	struct cohort_comm *comm;
	const struct platform *platform;
	ncclComm_t native; /* between native_enter() and native_leave() */
	cudaStream_t stream;
	int rank;
	int ranks;
};

struct call {
	const void *send;
	void *recv;
	size_t count;
	int type;
	int op;
	int root;
	uint64_t ticket; /* of the newest operation */
};

/* Where a block of the result comes from. */
enum bench_source {
	SOURCE_FOLD,     /* the reduction of all ranks' blocks */
	SOURCE_ROOT,     /* the root's block */
	SOURCE_EACH,     /* block r is rank r's */
	SOURCE_PREVIOUS, /* the previous rank's block */
};

struct collective {
	const char *name;
	int (*by_api)(struct caller *caller, struct call *call);
	ncclResult_t (*by_table)(struct caller *caller, struct call *call);
	int (*by_host)(struct caller *caller, struct call *call); /* or NULL */
	enum bench_source source;
	bool has_op;
	bool has_root;
	bool has_in_place;
	bool host_in_place;   /* host memory must be in place */
	bool sends_blocks;    /* one block for each rank; else one block */
	bool receives_blocks; /* one block for each rank; else one block */
	bool only_root;       /* only the root receives */
	double (*factor)(
		int ranks); /* bus bandwidth divided by algorithm bandwidth */
};

extern const struct collective collectives[];
extern const size_t collective_count;

/* Find a collective by its name, or NULL. */
const struct collective *collective_find(const char *name);

/* In place: where a rank sends from and receives to, as offsets in bytes in its
 * buffer of blocks of @block bytes. */
size_t collective_send_offset(const struct collective *c, int rank,
                              size_t block);
size_t collective_recv_offset(const struct collective *c, int rank,
                              size_t block);

/* How many blocks a rank sends and receives. */
size_t collective_send_blocks(const struct collective *c, int ranks);
size_t collective_recv_blocks(const struct collective *c, int ranks);

#endif
