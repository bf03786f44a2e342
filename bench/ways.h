/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WAYS_H
#define WAYS_H

/*
 * The ways that are measured: ways to make one call on a rank, and the parts of
 * Cohort's walk (walk.c)
 */

#include "core/clique.h"

/* A rank that is measured; used only by its own thread. */
struct runner {
	struct cohort_comm *comm;
	struct cohort_tensor tensor;
	struct op op;    /* the operation, as cohort_all_reduce() makes it */
	uint32_t *words; /* pinned memory; two words that bare calls mark */
	uint32_t value;  /* newest mark of a bare call */
	uint64_t ticket; /* newest ticket of cohort_all_reduce() */
	uint64_t own_ticket; /* ticket number that the parts use */
};

/* The ways with names; the numbers after them are parts. */
enum {
	WAY_NOTHING, /* the overhead of calling a way */
	WAY_BARE,
	WAY_MARKED_TWICE,
	WAY_COHORT,
	FIRST_PART,
};

struct way {
	const char *name;
	void (*call)(struct runner *r);
	void (*wait)(struct runner *r); /* wait until calls are done; or NULL */
	bool several;                   /* whether ranks wait for each other */
};

extern const struct way ways[];
extern const int way_count;

/* Exit with an error text if @failed is not 0. */
void must(int failed, const char *what);

/* Prepare a rank; its calls reduce @data, one float. */
void runner_init(struct runner *r, struct cohort_comm *comm, float *data);
void runner_fini(struct runner *r);

#endif
