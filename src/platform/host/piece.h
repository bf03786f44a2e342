/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_PIECE_H
#define HOST_PIECE_H

/*
 * The pieces that collectives are done in
 *
 * A piece is one range of elements: it reads that range from every rank that has
 * it and writes it to every rank that gets it, so no two pieces touch the same
 * memory, and the result does not depend on who did what.
 */

#include "platform/host/comm.h"

/* The most that is done without looking at the abort flag and the clock. */
#define PIECE_BYTES ((size_t)64 * 1024)

/* What a call that queues work may spend on doing it. */
#define ENQUEUE_BYTES ((size_t)8 * 1024)

/* Cut the round of a world, its next span calls.  With its lock held. */
void pieces_cut_locked(struct world *world);

/* Claim pieces until there are none, a rank was aborted, or the driver's time is
 * over.  Returns how many were done.  For a thread that is inside. */
size_t pieces_do(struct world *world, const struct drive *drive);

#endif
