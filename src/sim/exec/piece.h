/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_PIECE_H
#define SIM_EXEC_PIECE_H

/*
 * The pieces that collectives are done in
 *
 * The blocks of all calls of a round, each rounded up to whole cache lines, are
 * one range of bytes: of every call, the elements in order, block after block.
 * Each rank has an equal share of it, cut into pieces.  A piece reads its elements
 * from every rank that has them and writes them to every rank that gets them, so
 * no two pieces touch the same memory, and the result does not depend on who did
 * what.
 */

#include "sim/exec/world.h"

/* The most that is done without looking at the abort flag and the clock. */
#define PIECE_BYTES ((size_t)64 * 1024)

/* What a call that queues work may spend on doing it. */
#define ENQUEUE_BYTES ((size_t)8 * 1024)

/* Looks of who waits before it takes from others' shares; and where ranks wait for
 * cores, from those of ranks on other ones. */
#define PATIENCE 64
#define PATIENCE_CROWDED 16

/* From whose shares somebody takes. */
enum reach {
	REACH_OWN,
	REACH_NEAR, /* and those of ranks that were on the same core as they arrived */
	REACH_ALL,
};

/*
 * round_cut   - cut a round, of which span and is_single are set, and places, or of
 *               several calls those of a rank: all ranks get the same
 * round_keeps - true if one that was cut is cut the same with the places it has now,
 *               which say the same
 * round_share - where the share of @rank begins and ends; returns how many pieces of
 *               @piece bytes that is
 * round_do    - do a part of it; false if a rank was aborted before all was done
 */
void round_cut(struct round *round);
bool round_keeps(const struct round *round);
size_t round_share(const struct round *round, int rank, size_t piece,
                   size_t *begin_out, size_t *end_out);
bool round_do(const struct round *round, size_t begin, size_t end);

/* Cut the next round of a world, its next span calls, as the driver of @rank, who
 * opens it. */
void pieces_cut(struct world *world, int rank);

/* Rounds of so many bytes who has cut them does alone; false if a rank was aborted
 * before all was done. */
size_t pieces_at_once(const struct world *world);
bool pieces_do_all(const struct world *world, int rank);

/* True if nobody has claimed some pieces that are in @reach for @rank.  Any thread. */
bool pieces_are_left(const struct world *world, int rank, enum reach reach);

/* As the driver of @rank, claim pieces in @reach, its own first, until there are none,
 * a rank was aborted, or the driver's time is over.  Returns how many were done.  For a
 * thread that is inside. */
size_t pieces_do(struct world *world, int rank, enum reach reach,
                 const struct drive *drive);

#endif
