/* SPDX-License-Identifier: Apache-2.0 */

/* Connecting: makes the NCCL calls that create communicators, all at once, by
 * an ID, or by a split */

#include "base/status.h"
#include "core/connection.h"
#include "core/native.h"

/* Create the communicator of the rank at index @i.  Pass the config to NCCL if
 * it sets an option. */
static int init_rank(struct connection *c, int i)
{
	const struct platform *p = c->platform;
	struct comm_config config = config_native(&c->config, c->name);
	int size = c->size ? c->size : c->n;
	int rank = c->first + i;

	if (config_is_default(&c->config))
		return NATIVE_NCCL(p, NULL, ncclCommInitRank,
		                   (&c->native[i], size, c->id, rank));
	return NATIVE_NCCL(p, NULL, ncclCommInitRankConfig,
	                   (&c->native[i], size, c->id, rank, &config.native));
}

void connection_add_ranks(struct text *t, const struct connection *c)
{
	int i;

	if (c->n > 1)
		text_add(t, "ranks %d-%d", c->first, c->first + c->n - 1);
	else
		text_add(t, "rank %d", c->first);
	if (c->size)
		text_add(t, " of %d", c->size);
	text_add(t, c->n > 1 ? ", on devices" : ", on device");
	for (i = 0; i < c->n; i++)
		text_add(t, " %d", c->devices[i]);
}

int connection_error_at(const struct connection *c, int i, int status)
{
	return error_set(status, "rank %d, device %d: %s", c->first + i,
	                 c->devices[i], cohort_last_error());
}

/* Add the ranks to the text of an error that does not say which rank has
 * failed; return @status. */
static int add_ranks_to_error(const struct connection *c, int status)
{
	char list[512];
	struct text t = { list, sizeof(list) };

	if (c->n == 1)
		return connection_error_at(c, 0, status);
	connection_add_ranks(&t, c);
	return error_set(
		status,
		"%s; the call of one of %s failed (NCCL does not say which)",
		cohort_last_error(), list);
}

/* Make the open group fail by a call for a rank that cannot exist.
 * ncclGroupEnd() then drops the other calls instead of waiting for missing
 * ranks. */
static void spoil_group(struct connection *c)
{
	ncclComm_t none = NULL; /* NCCL reads this even if the call fails */

	c->platform->ncclCommInitRankConfig(&none, c->n, c->id, -1, NULL);
}

/* Do what ncclCommInitAll() does, but with a config or with ranks of other
 * processes, which ncclCommInitAll() does not support. */
static int init_group(struct connection *c)
{
	const struct platform *p = c->platform;
	ncclResult_t ended;
	int i, rc = COHORT_OK;

	if (!c->size)
		rc = NATIVE_NCCL(p, NULL, ncclGetUniqueId, (&c->id));
	if (rc == COHORT_OK)
		rc = NATIVE_NCCL(p, NULL, ncclGroupStart, ());
	if (rc != COHORT_OK)
		return rc;
	for (i = 0; i < c->n && rc == COHORT_OK; i++) {
		rc = NATIVE_CUDA(p, cudaSetDevice, (c->devices[i]));
		if (rc == COHORT_OK)
			rc = init_rank(c, i);
		if (rc != COHORT_OK)
			rc = connection_error_at(c, i, rc);
	}
	if (rc != COHORT_OK)
		spoil_group(c);
	ended = p->ncclGroupEnd();
	if (rc != COHORT_OK || ended == ncclSuccess)
		return rc;
	return add_ranks_to_error(c, native_set_nccl_error(p, "ncclGroupEnd",
	                                                   NULL, ended));
}

static int find_place(struct connection *c, int i)
{
	const struct platform *p = c->platform;
	struct split_rank *r = &c->split[i];
	ncclComm_t native = c->native[i];
	int rc;

	if (!native)
		return COHORT_OK;
	rc = NATIVE_NCCL(p, native, ncclCommUserRank, (native, &r->rank));
	if (rc != COHORT_OK)
		return rc;
	return NATIVE_NCCL(p, native, ncclCommCount, (native, &r->size));
}

static int split_rank(struct connection *c, int i)
{
	const struct platform *p = c->platform;
	const struct split_rank *r = &c->split[i];
	struct comm_config config = config_native(&c->config, c->name);
	int rc = NATIVE_CUDA(p, cudaSetDevice, (r->device));

	if (rc != COHORT_OK)
		return rc;
	return NATIVE_NCCL(p, r->parent, ncclCommSplit,
	                   (r->parent, r->color, r->key, &c->native[i],
	                    &config.native));
}

/* Split all ranks of this process in one group, because a single call would
 * wait for the other ranks. */
static int init_split(struct connection *c)
{
	const struct platform *p = c->platform;
	ncclResult_t ended;
	int i, rc;

	rc = NATIVE_NCCL(p, NULL, ncclGroupStart, ());
	if (rc != COHORT_OK)
		return rc;
	for (i = 0; i < c->n && rc == COHORT_OK; i++) {
		rc = split_rank(c, i);
		c->split[i].has_failed = rc != COHORT_OK;
	}
	if (rc != COHORT_OK)
		spoil_group(c);
	ended = p->ncclGroupEnd();
	if (rc == COHORT_OK)
		rc = native_set_nccl_error(p, "ncclGroupEnd", NULL, ended);
	for (i = 0; i < c->n && rc == COHORT_OK; i++)
		rc = find_place(c, i);
	return rc;
}

/* Check that each listed device can be made current.  If one cannot,
 * ncclCommInitAll() would also fail, and would leave its native group open. */
static int visit_devices(struct connection *c)
{
	const struct platform *p = c->platform;
	int i, rc = COHORT_OK;

	for (i = 0; i < c->n && rc == COHORT_OK; i++)
		rc = NATIVE_CUDA(p, cudaSetDevice, (c->devices[i]));
	return rc == COHORT_OK ? rc : connection_error_at(c, i - 1, rc);
}

/* End a native group that a failed call may have left open.  If none is open,
 * the calls below only fail. */
static void end_group_left_open(struct connection *c)
{
	spoil_group(c);
	c->platform->ncclGroupEnd();
}

/* Call ncclCommInitAll().  An error does not say which rank has failed. */
static int all_at_once(struct connection *c)
{
	const struct platform *p = c->platform;
	int rc = visit_devices(c);

	if (rc != COHORT_OK)
		return rc;
	rc = NATIVE_NCCL(p, NULL, ncclCommInitAll,
	                 (c->native, c->n, c->devices));
	if (rc == COHORT_OK)
		return rc;
	rc = add_ranks_to_error(c, rc);
	end_group_left_open(c);
	return rc;
}

static int init(struct connection *c)
{
	int rc;

	if (c->split)
		return init_split(c);
	if (c->size && c->n == 1) {
		rc = init_rank(c, 0);
		return rc == COHORT_OK ? rc : connection_error_at(c, 0, rc);
	}
	if (c->size || !config_is_default(&c->config))
		return init_group(c);
	return all_at_once(c);
}

int connection_init(struct connection *c)
{
	const int rc = init(c);

	/* Store this here and not in the caller, which first waits for the
	 * launch lock. */
	atomic_store(&c->is_native, rc == COHORT_OK);
	return rc;
}
