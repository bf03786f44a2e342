/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYS_H
#define WAYS_H

/*
 * What is timed: ways to make one call on a rank, and the parts of Cohort's walk
 * one by one, by the very functions that the walk calls
 */

#include "core/clique.h"

/* One rank while it is timed, of its own thread only. */
struct runner {
	struct cohort_comm *comm;
	struct cohort_tensor tensor;
	struct op op;    /* of that tensor, as cohort_all_reduce() makes it */
	uint32_t *words; /* pinned: the two that bare calls mark */
	uint32_t value;  /* of the newest such mark */
	uint64_t ticket; /* the newest of cohort_all_reduce() */
	uint64_t own_ticket; /* counted by the parts */
};

/* By these names; the parts follow. */
enum {
	WAY_NOTHING, /* only what it takes to call a way */
	WAY_BARE,
	WAY_MARKED_TWICE,
	WAY_COHORT,
	FIRST_PART,
};

struct way {
	const char *name;
	void (*call)(struct runner *r);
	void (*wait)(struct runner *r); /* until all calls are done, or NULL */
	bool several;                   /* a meeting of the ranks itself */
};

extern const struct way ways[];
extern const int way_count;

/* End the program with a text if @failed. */
void must(int failed, const char *what);

/* The calls are of @data, one float. */
void runner_init(struct runner *r, struct cohort_comm *comm, float *data);
void runner_fini(struct runner *r);

#endif
