/* SPDX-License-Identifier: Apache-2.0 */

#include "core/cause.h"

#include <stdlib.h>

#include "base/clock.h"

struct cohort_abort *cause_create(void)
{
	struct cohort_abort *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	atomic_store_explicit(&a->references, 1, memory_order_relaxed);
	sem_init(&a->caused, 0, 0);
	return a;
}

void cause_get(struct cohort_abort *a)
{
	/* Relaxed: the caller has a reference that keeps it alive. */
	atomic_fetch_add_explicit(&a->references, 1, memory_order_relaxed);
}

void cause_put(struct cohort_abort *a)
{
	/* Acquire and release: the last one sees what the others did. */
	if (atomic_fetch_sub_explicit(&a->references, 1, memory_order_acq_rel) >
	    1)
		return;
	sem_destroy(&a->caused);
	free(a);
}

const struct cause *cause_any(const struct cohort_abort *a)
{
	return atomic_load(&a->cause); /* seq_cst, see cause.h */
}

const struct cohort_cause *cause_look(const struct cohort_abort *a)
{
	const struct cause *cause = cause_any(a);

	return cause && cause != &a->closing ? &cause->what : NULL;
}

/* Make @cause the cause, if there is none. */
static int swap(struct cohort_abort *a, struct cause *cause)
{
	struct cause *none = NULL;

	cause->time_ns = clock_now();
	if (!atomic_compare_exchange_strong(&a->cause, &none, cause))
		return COHORT_ALREADY;
	sem_post(&a->caused);
	return COHORT_OK;
}

int cause_set(struct cohort_abort *a, const struct cohort_cause *what)
{
	unsigned i;

	if (cause_any(a))
		return COHORT_ALREADY;
	/* Out of slots: that many others are about to set theirs. */
	i = atomic_fetch_add_explicit(&a->used, 1, memory_order_relaxed);
	if (i >= CAUSE_SLOTS)
		return COHORT_ALREADY;
	a->slots[i].what = *what;
	return swap(a, &a->slots[i]);
}

int cause_set_closing(struct cohort_abort *a)
{
	return swap(a, &a->closing);
}
