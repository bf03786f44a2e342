/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYS_H
#define WAYS_H

/*
 * What is timed: ways to make one call on a rank, and the parts of Cohort's walk,
 * each by the functions that the walk calls
 */

#include "core/clique.h"

/* A rank that is timed; used by its own thread alone. */
struct runner {
	struct cohort_comm *comm;
	struct cohort_tensor tensor;
	struct op op;    /* for that tensor, as cohort_all_reduce() makes it */
	uint32_t *words; /* pinned: the two words that bare calls mark */
	uint32_t value;  /* of the newest mark of a bare call */
	uint64_t ticket; /* the newest ticket of cohort_all_reduce() */
	uint64_t own_ticket; /* the ticket number that the parts use */
};

/* The ways with names; the parts follow. */
enum {
	WAY_NOTHING, /* only the call of a way */
	WAY_BARE,
	WAY_MARKED_TWICE,
	WAY_COHORT,
	FIRST_PART,
};

struct way {
	const char *name;
	void (*call)(struct runner *r);
	void (*wait)(
		struct runner *r); /* waits until all calls are done; or NULL */
	bool several;              /* the ranks meet in it */
};

extern const struct way ways[];
extern const int way_count;

/* If @failed is not 0, end the program with an error text. */
void must(int failed, const char *what);

/* The calls reduce @data, one float. */
void runner_init(struct runner *r, struct cohort_comm *comm, float *data);
void runner_fini(struct runner *r);

#endif
