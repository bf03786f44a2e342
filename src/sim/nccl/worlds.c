/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nccl/worlds.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "sim/nccl/buffers.h"

/* By color, then by key, then as they were. */
static int compare(const void *a, const void *b)
{
	const struct join *x = *(struct join *const *)a;
	const struct join *y = *(struct join *const *)b;

	if (x->color != y->color)
		return x->color < y->color ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : 1;
}

/* Sort the ranks that will be in a communicator, those of one communicator next
 * to each other.  Returns how many there are. */
static int sort(struct join **places, int ranks)
{
	int i, n = 0;

	for (i = 0; i < ranks; i++)
		if (places[i] && places[i]->comm)
			places[n++] = places[i];
	qsort(places, (size_t)n, sizeof(struct join *), compare);
	return n;
}

/* Index just past the ranks that share a communicator with rank @first. */
static int run_end(struct join *const *sorted, int first, int n)
{
	int i = first;

	while (i < n && sorted[i]->color == sorted[first]->color)
		i++;
	return i;
}

void worlds_take_place(struct ncclComm *comm, struct world *w, int rank)
{
	w->members[rank] = &comm->member;
	w->check_arrival = buffers_check_arrival;
	/* A rank that joins by an id has both already, and any thread may ask
	 * for them. */
	if (comm->n != w->n || comm->member.rank != rank) {
		comm->member.rank = rank;
		comm->n = w->n;
	}
	comm->member.number = w->number;
	comm->member.world = w;
}

/* Put the ranks in place or, if @keep is false, free the worlds.  Until then
 * only the first rank of each communicator points to its world. */
static void settle(struct join *const *sorted, int n, bool keep)
{
	int i, k, end;
	struct world *w;

	for (i = 0; i < n; i = end) {
		end = run_end(sorted, i, n);
		w = sorted[i]->comm->member.world;
		for (k = i; keep && k < end; k++)
			worlds_take_place(sorted[k]->comm, w, k - i);
		if (!keep && w) {
			sorted[i]->comm->member.world = NULL;
			world_free(w);
		}
	}
}

ncclResult_t worlds_make(struct join **places, int ranks)
{
	int i, end, n = sort(places, ranks);

	for (i = 0; i < n; i = end) {
		end = run_end(places, i, n);
		places[i]->comm->member.world =
			world_create(end - i, end - i, cpu_count(), NULL);
		if (!places[i]->comm->member.world)
			break;
	}
	settle(places, n, i == n);
	return i == n ? ncclSuccess
	              : comm_error(ncclSystemError, "out of memory");
}
