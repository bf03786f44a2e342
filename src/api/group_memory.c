/* SPDX-License-Identifier: Apache-2.0 */

/* Device memory of all ranks of a group, and their streams */

#include <stdlib.h>

#include "api/group.h"
#include "base/status.h"
#include "base/text.h"

static int memory_check(const struct cohort_group *group, void *const memory[])
{
	int rc = group_check(group);

	if (rc == COHORT_OK && !memory)
		return error_set(COHORT_INVALID, "memory is NULL");
	return rc;
}

static int free_each(struct clique *q, int n, void *memory[])
{
	int i, rc = COHORT_OK;

	for (i = 0; i < n && rc == COHORT_OK; i++) {
		rc = cohort_free(&q->comms[i], memory[i]);
		if (rc == COHORT_OK)
			memory[i] = NULL;
	}
	return rc;
}

/* Free the memory of the first @n ranks, because allocating the next rank's
 * memory has failed.  Keep the error of that failure. */
static int undo(struct clique *q, int n, void *made[], int status)
{
	char error[512];
	struct text t = { error, sizeof(error) };

	text_add(&t, "%s", cohort_last_error());
	free_each(q, n, made);
	return error_set(status, "%s", error);
}

int cohort_group_alloc(struct cohort_group *group, size_t bytes, void *memory[])
{
	struct clique *q;
	void **made;
	int i, n = 0, rc = memory_check(group, memory);

	if (rc != COHORT_OK)
		return rc;
	q = group_clique(group);
	made = calloc((size_t)q->size, sizeof(*made));
	if (!made)
		return error_set(COHORT_NO_MEMORY, "no memory for %d ranks",
		                 q->size);
	while (rc == COHORT_OK && n < q->size) {
		rc = cohort_alloc(&q->comms[n], bytes, &made[n]);
		n += rc == COHORT_OK;
	}
	if (rc != COHORT_OK)
		rc = undo(q, n, made, rc);
	for (i = 0; rc == COHORT_OK && i < n; i++)
		memory[i] = made[i];
	free(made);
	return rc;
}

int cohort_group_free(struct cohort_group *group, void *memory[])
{
	struct clique *q;
	int rc = memory_check(group, memory);

	if (rc != COHORT_OK)
		return rc;
	q = group_clique(group);
	return free_each(q, q->size, memory);
}

void *cohort_group_stream(const struct cohort_group *group, int rank)
{
	const struct cohort_comm *c =
		group ? clique_rank(group_clique(group), rank) : NULL;

	return c ? c->stream : NULL;
}
