/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIT_PEER_CLIQUE_H
#define UNIT_PEER_CLIQUE_H

/*
 * Minimal cliques without a platform, for tests of processes that watch each
 * other
 */

#include <stdlib.h>

#include "core/clique.h"
#include "processes/peer_page.h"
#include "processes/remote_agreement.h"
#include "support/bare_clique.h"

static inline struct clique *make_peer_clique(uint64_t identity)
{
	struct clique *c = make_clique();

	c->world_size = 5;
	c->identity = identity;
	return c;
}

#define SLOTS 8 /* one cache line of words */

/* Add to a clique a rank that has made no call. */
static inline void give_rank(struct clique *of, int rank)
{
	static const struct platform platform;
	struct cohort_comm *c = &of->comms[0];

	of->platform = &platform;
	of->slots = SLOTS;
	c->clique = of;
	c->rank = rank;
	c->tickets.done = calloc(SLOTS, sizeof(*c->tickets.done));
	c->tickets.started = calloc(SLOTS, sizeof(*c->tickets.started));
	c->agreement.slots = calloc(SLOTS, sizeof(*c->agreement.slots));
	recorder_init(&c->recorder, SLOTS);
	of->size = 1;
}

static inline void free_peer_clique(struct clique *c)
{
	free(c->comms[0].tickets.done);
	free(c->comms[0].tickets.started);
	free(c->comms[0].agreement.slots);
	recorder_fini(&c->comms[0].recorder);
	if (c->remote)
		c->remote->release(c);
	free(c->agreed);
	free_clique(c);
}

/* Return whether @process has contributed data to exchange @number, counted
 * from 1. */
static inline bool has_contributed(const struct peers *p, int process,
                                   uint64_t number)
{
	return atomic_load(&p->peers[process].page->exchange) >= number;
}

#endif
