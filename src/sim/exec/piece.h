/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_PIECE_H
#define SIM_EXEC_PIECE_H

/*
 * Pieces: the units of work that a collective is divided into
 *
 * The blocks of all calls of a round, each rounded up to whole cache lines,
 * form one range of bytes: call after call, block after block, with the
 * elements in order.  Each rank has an equal share of the range, which is cut
 * into pieces.  To process a piece, a thread reads the piece's elements from
 * every rank that sends them and writes the results to every rank that receives
 * them.  So no two pieces access the same memory, and the result does not
 * depend on which thread processes which piece.
 */

#include "sim/exec/world.h"

/* Number of bytes after which a thread checks the abort flag and the clock.
 * Split rounds use a multiple of it (split_round.c). */
#define PIECE_BYTES ((size_t)64 * 1024)

/* Largest number of bytes that may be processed within the call that enqueues
 * the work. */
#define ENQUEUE_BYTES ((size_t)8 * 1024)

/* The buffers of one rank in a round. */
struct rank_buffers {
	const void *send;
	void *recv;
	const struct call *calls; /* the rank's calls, with their buffers */
	/* hash of the positions at which runs start (struct call) */
	uint64_t runs;
};

/* One or more calls that all ranks make and carry out together. */
struct round {
	const struct world *world;
	size_t span; /* number of calls */
	/* True if there are several calls, and they form the same runs (struct
	 * call) on all ranks. */
	bool is_joined;
	struct call only;         /* the call, if there is only one */
	const struct call *calls; /* the calls of one rank, if several */
	/* The buffers of rank 0, and the distance in bytes to the buffers of
	 * the next rank. */
	const struct rank_buffers *ranks;
	size_t stride;

	/* Set by round_cut(): the size of the range, the number of cache lines
	 * in each share, and the number of shares that have an additional
	 * line. */
	size_t bytes, each, more;
};

/* Lay out a round: compute its size, its shares, and whether it omits the
 * root's block.  All other members must be set.  All ranks compute the same
 * result. */
void round_cut(struct round *round);

/* Store where the share of @rank begins and ends, as offsets in the round. */
void round_share(const struct round *round, int rank, size_t *begin_out,
                 size_t *end_out);

/* Process bytes @begin to @end of a round.  Returns false if a rank was aborted
 * before the end. */
bool round_do(const struct round *round, size_t begin, size_t end);

#endif
