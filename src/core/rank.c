/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The ranks of a clique: finding one, and the deadlines of its calls
 */

#include "core/clique.h"

struct limits comm_limits(const struct cohort_comm *c, bool connects)
{
	const struct cohort_deadlines *d = &c->clique->deadlines;
	struct limits pushed = { 0, 0 }, l = { d->join_ns, d->exec_ns };

	if (c->pushed_count)
		pushed = c->pushed[c->pushed_count - 1];
	if (pushed.join_ns)
		l.join_ns = pushed.join_ns;
	if (pushed.exec_ns)
		l.exec_ns = pushed.exec_ns;
	if (connects && l.exec_ns < d->init_ns)
		l.exec_ns = d->init_ns;
	return l;
}

const struct cohort_comm *clique_rank(const struct clique *q, int rank)
{
	int i;

	/* A clique of all ranks has each in its own place. */
	if (rank >= 0 && rank < q->size && q->comms[rank].rank == rank)
		return &q->comms[rank];
	for (i = 0; i < q->size; i++)
		if (q->comms[i].rank == rank)
			return &q->comms[i];
	return NULL;
}
