/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BARE_CLIQUE_H
#define BARE_CLIQUE_H

/*
 * A minimal clique, created without opening a group
 */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/clique.h"

/* Create a clique without a watchdog, with one zeroed communicator whose clique
 * pointer is NULL. */
static inline struct clique *make_clique(void)
{
	const size_t bytes = sizeof(struct clique) + sizeof(struct cohort_comm);
	struct clique *q = aligned_alloc(_Alignof(struct clique), bytes);

	assert(q);
	memset(q, 0, bytes);
	q->end = cause_create();
	assert(q->end);
	return q;
}

static inline void free_clique(struct clique *q)
{
	cause_put(q->end);
	free(q);
}

#endif
