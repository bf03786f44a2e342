/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/stops.h"

#include <string.h>

/* Make room by merging the two oldest stops.  The merged stop ends when the
 * second did, and is as long as both together. */
static void merge_oldest(struct stops *s)
{
	struct stop *a = &s->kept[0], *b = &s->kept[1];

	b->from_ns -= a->to_ns - a->from_ns;
	memmove(a, b, (size_t)--s->n * sizeof(*a));
}

uint64_t stops_active_ns(const struct activity *before,
                         const struct activity *now, int cores)
{
	uint64_t ran = (now->cpu_ns - before->cpu_ns) / (uint64_t)cores;
	uint64_t delayed = now->delayed_ns - before->delayed_ns;

	return ran > delayed ? ran : delayed;
}

bool stops_record(struct stops *s, uint64_t from_ns, uint64_t asked_ns,
                  uint64_t now_ns, uint64_t gross_ns)
{
	if (now_ns <= asked_ns || now_ns - asked_ns <= gross_ns) {
		if (asked_ns > from_ns)
			s->in_a_row = 0;
		return false;
	}
	if (s->in_a_row == STOPS_IN_A_ROW)
		return false;
	s->in_a_row++;
	if (s->n == STOPS_KEPT)
		merge_oldest(s);
	s->kept[s->n++] = (struct stop){ from_ns, now_ns };
	return true;
}

uint64_t stops_shift(const struct stops *s, uint64_t since_ns)
{
	const struct stop *x, *end = s->kept + s->n;

	/* The stops are in order.  If one stop moves the clock's start, the new
	 * start is not later than the end of that stop, and so not later than
	 * the start of the next stop. */
	for (x = s->kept; x < end; x++)
		if (since_ns < x->from_ns)
			since_ns += x->to_ns - x->from_ns;
		else if (since_ns < x->to_ns)
			since_ns = x->to_ns;
	return since_ns;
}
