/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_PIECE_H
#define SIM_EXEC_PIECE_H

/*
 * The pieces that collectives are done in
 *
 * The blocks of all calls of a round, each rounded up to whole cache lines, are
 * one range of bytes: call after call, block after block, the elements in
 * order.  Each rank has an equal share of the range, cut into pieces.  A piece
 * reads its elements from every rank that has them and writes them to every
 * rank that gets them, so no two pieces touch the same memory, and the result
 * does not depend on which thread did which piece.
 */

#include "sim/exec/world.h"

/* The most that is done without looking at the abort flag and the clock. */
#define PIECE_BYTES ((size_t)64 * 1024)

/* What a call that queues work may spend on doing it. */
#define ENQUEUE_BYTES ((size_t)8 * 1024)

/* How often a waiting driver looks before it takes pieces from all other
 * shares; and where ranks wait for cores, from those of ranks on other
 * cores. */
#define PATIENCE 64
#define PATIENCE_CROWDED 16

/* From whose shares a driver takes pieces. */
enum reach {
	REACH_OWN,
	REACH_NEAR, /* and the shares of ranks that arrived on the same core */
	REACH_ALL,
};

/*
 * round_cut   - cut a round whose span, is_single and places are set, and if it
 *               has several calls those of a rank: the result is the same on
 *               all ranks
 * round_lay   - the rest of that: as round_cut(), for a round of one call that
 * is set
 * round_keeps - true if a round that was cut would be cut alike with its
 *               present places, which say the same call
 * round_share - store where the share of @rank begins and ends; returns how
 *               many pieces of @piece bytes that is
 * round_do    - do a part of it; false if a rank was aborted before all was
 *               done
 */
void round_cut(struct round *round);
void round_lay(struct round *round);
bool round_keeps(const struct round *round);
size_t round_share(const struct round *round, int rank, size_t piece,
                   size_t *begin_out, size_t *end_out);
bool round_do(const struct round *round, size_t begin, size_t end);

/* Cut the next round of a world, its next span calls.  Called by the driver of
 * @rank, which opens the round. */
void pieces_cut(struct world *world, int rank);

/* A round of at most so many bytes is done by the thread that has cut it; do
 * all of it.  False if a rank was aborted before all was done. */
size_t pieces_at_once(const struct world *world);
bool pieces_do_all(const struct world *world, int rank);

/* True if pieces in @reach for @rank are not claimed.  Any thread. */
bool pieces_are_left(const struct world *world, int rank, enum reach reach);

/* As the driver of @rank, claim and do pieces in @reach, its own share first,
 * until there are none, a rank was aborted, or the driver's time is over.
 * Returns how many were done.  For a thread that is inside. */
size_t pieces_do(struct world *world, int rank, enum reach reach,
                 const struct drive *drive);

#endif
