/* SPDX-License-Identifier: Apache-2.0 */

#include "core/cause.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"

/* Maximum number of ranges of ranks in a text.  A program can get the whole set
 * from the cause. */
#define MAX_SPANS 16

void rank_set_format(struct text *t, const uint64_t *set)
{
	const char *gap = "";
	int first, last, spans = 0, more = 0;

	for (first = 0; first < COHORT_MAX_RANKS; first = last + 1) {
		last = first;
		if (!rank_set_has(set, first))
			continue;
		while (rank_set_has(set, last + 1))
			last++;
		if (++spans > MAX_SPANS) {
			more += last - first + 1;
			continue;
		}
		text_add(t, last > first ? "%s%d-%d" : "%s%d", gap, first,
		         last);
		gap = ", ";
	}
	if (more)
		text_add(t, " and %d more", more);
	if (!*gap)
		text_add(t, "none");
}

void rank_set_name(struct text *t, const uint64_t *set, const uint64_t *world,
                   const char *group)
{
	const bool is_known = !rank_set_is_empty(world);

	text_add(t, rank_set_count(set) == 1 ? "rank " : "ranks ");
	if (is_known)
		rank_set_format(t, world);
	if (memcmp(world, set, COHORT_RANK_WORDS * sizeof(*set)) == 0)
		return;
	text_add(t, is_known ? " (" : "");
	rank_set_format(t, set);
	text_add(t, " in \"%s\"%s", group, is_known ? ")" : "");
}

/* Semaphore that wakes the watchdog.  It is never destroyed, because a signal
 * handler may post it at any time. */
static sem_t woken;

static void init_woken(void)
{
	sem_init(&woken, 0, 0);
}

void cause_wake(void)
{
	sem_post(&woken);
}

void cause_sleep(uint64_t deadline_ns)
{
	clock_await(&woken, deadline_ns);
	while (!sem_trywait(&woken))
		continue;
}

struct cohort_abort *cause_create(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct cohort_abort *a = calloc(1, sizeof(*a));

	pthread_once(&once, init_woken);
	if (!a)
		return NULL;
	atomic_store_explicit(&a->references, 1, memory_order_relaxed);
	return a;
}

void cause_get(struct cohort_abort *a)
{
	/* Relaxed, because the caller's own reference keeps the block alive. */
	atomic_fetch_add_explicit(&a->references, 1, memory_order_relaxed);
}

void cause_put(struct cohort_abort *a)
{
	/* The release and acquire make every other thread's accesses to the
	 * block come before the free. */
	if (atomic_fetch_sub_explicit(&a->references, 1, memory_order_acq_rel) >
	    1)
		return;
	if (atomic_load(&a->target))
		cause_put(atomic_load(&a->target));
	free(a);
}

const struct cohort_cause *cause_peek(const struct cohort_abort *a)
{
	const struct cohort_cause *cause = cause_or_closing(a), *reported;

	if (!cause || cause == &a->closing)
		return NULL;
	/* The acquire makes the contents of the longer text visible. */
	reported = atomic_load_explicit(&a->reported, memory_order_acquire);
	return reported ? reported : cause;
}

int cause_error(const struct cohort_cause *cause)
{
	return cause ? error_set(cause->status, "%s", cause->text) : COHORT_OK;
}

/* If there is no cause, make @cause the cause, and wake the watchdog. */
static int swap(struct cohort_abort *a, struct cohort_cause *cause)
{
	struct cohort_cause *none = NULL;

	cause->time_ns = clock_now();
	if (!atomic_compare_exchange_strong(&a->cause, &none, cause))
		return COHORT_ALREADY;
	cause_wake();
	return COHORT_OK;
}

/* Reserve a slot for a cause.  Return NULL if there is a cause, or if other
 * threads have reserved all slots. */
static struct cohort_cause *take_slot(struct cohort_abort *a)
{
	unsigned i;

	if (cause_or_closing(a))
		return NULL;
	i = atomic_fetch_add_explicit(&a->used, 1, memory_order_relaxed);
	return i < CAUSE_SLOTS ? &a->slots[i] : NULL;
}

int cause_set(struct cohort_abort *a, const struct cohort_cause *what)
{
	struct cohort_cause *slot = take_slot(a);

	if (!slot)
		return COHORT_ALREADY;
	*slot = *what;
	return swap(a, slot);
}

/* Copy up to @room bytes of @from, and a terminating zero.  Return the end of
 * the text. */
static char *append(char *to, const char *from, size_t room)
{
	while (*from && room--)
		*to++ = *from++;
	*to = '\0';
	return *from ? text_cut(to) : to;
}

int cause_set_aborted(struct cohort_abort *a, const char *reason)
{
	/* Build the cause in its slot, because a signal handler may have a
	 * small stack. */
	struct cohort_cause *slot = take_slot(a);
	char *end;

	if (!slot)
		return COHORT_ALREADY;
	slot->status = COHORT_ABORTED;
	slot->kind = COHORT_VERDICT_ABORTED;
	slot->rank = slot->world_rank = -1;
	end = append(slot->text, "aborted", CAUSE_MAX_REASON);
	if (reason)
		append(append(end, ": ", CAUSE_MAX_REASON), reason,
		       CAUSE_MAX_REASON);
	return swap(a, slot);
}

int cause_fire(struct cohort_abort *a, const char *reason)
{
	struct cohort_abort *target = atomic_load(&a->target);
	int rc = cause_set_aborted(target ? target : a, reason);

	if (target)
		return rc;
	/* Load the target again, now that the cause is set: see cause.h. */
	target = atomic_load(&a->target);
	if (target && rc == COHORT_OK)
		cause_set(target, cause_or_closing(a));
	return rc;
}

int cause_forward(struct cohort_abort *a, struct cohort_abort *end)
{
	struct cohort_abort *target = NULL;
	const struct cohort_cause *cause;

	cause_get(end);
	if (!atomic_compare_exchange_strong(&a->target, &target, end))
		cause_put(end);
	if (target && target != end)
		return error_set(
			COHORT_STATE,
			"options->abort is already the abort handle of "
			"another group: create one for each group");
	cause = cause_or_closing(a);
	if (cause)
		cause_set(end, cause);
	return cause_error(cause_peek(a));
}

int patience_error(const struct patience *p)
{
	return cause_error(cause_peek(p->abort));
}

void cause_set_explained(struct cohort_abort *a)
{
	atomic_store_explicit(&a->reported, &a->explained,
	                      memory_order_release);
}

int cause_set_closing(struct cohort_abort *a)
{
	/* Closing a parent also closes its split cliques, some of which may
	 * have ended already. */
	if (cause_or_closing(a))
		return COHORT_ALREADY;
	return swap(a, &a->closing);
}
