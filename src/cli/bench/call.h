/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_CALL_H
#define CLI_BENCH_CALL_H

/*
 * The collectives that can be measured: how each is called, by cohort_*() or through
 * the platform's table, what it moves, and what must come out
 *
 * Bytes and bandwidths are nccl-tests'.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "platform/platform.h"

/* What a rank calls with.  Of its own thread only. */
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
	uint64_t ticket;  /* of the newest */
	uint64_t timeout; /* of one with host memory */
};

/* What a block of the result is made of. */
enum bench_source {
	SOURCE_FOLD,     /* the reduction of all ranks' */
	SOURCE_ROOT,     /* rank root's */
	SOURCE_EACH,     /* block r: rank r's */
	SOURCE_PREVIOUS, /* that of the rank before this one */
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
	bool host_in_place;          /* with host memory only so */
	bool sends_blocks;           /* one for each rank; else one */
	bool receives_blocks;        /* likewise */
	bool only_root;              /* receives anything */
	double (*factor)(int ranks); /* bus bandwidth by algorithm bandwidth */
};

extern const struct collective collectives[];
extern const size_t collective_count;

/* NULL if there is none of that name. */
const struct collective *collective_find(const char *name);

/* Where a rank sends from and receives to, in bytes from its buffer of @block bytes
 * each, in place. */
size_t collective_send_offset(const struct collective *c, int rank,
                              size_t block);
size_t collective_recv_offset(const struct collective *c, int rank,
                              size_t block);

/* How many blocks a rank sends and receives. */
size_t collective_send_blocks(const struct collective *c, int ranks);
size_t collective_recv_blocks(const struct collective *c, int ranks);

#endif
