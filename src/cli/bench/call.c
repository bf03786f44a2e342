/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/bench/call.h"

#include <string.h>

/* ---- by cohort_*() ---------------------------------------------------- */

static int all_reduce(struct caller *w, struct call *c)
{
	return cohort_all_reduce(w->comm, c->send, c->recv, c->count, c->type,
	                         c->op, w->stream, &c->ticket);
}

static int broadcast(struct caller *w, struct call *c)
{
	return cohort_broadcast(w->comm, c->send, c->recv, c->count, c->type,
	                        c->root, w->stream, &c->ticket);
}

static int reduce(struct caller *w, struct call *c)
{
	return cohort_reduce(w->comm, c->send, c->recv, c->count, c->type,
	                     c->op, c->root, w->stream, &c->ticket);
}

static int all_gather(struct caller *w, struct call *c)
{
	return cohort_all_gather(w->comm, c->send, c->recv, c->count, c->type,
	                         w->stream, &c->ticket);
}

static int reduce_scatter(struct caller *w, struct call *c)
{
	return cohort_reduce_scatter(w->comm, c->send, c->recv, c->count,
	                             c->type, c->op, w->stream, &c->ticket);
}

static int all_to_all(struct caller *w, struct call *c)
{
	return cohort_all_to_all(w->comm, c->send, c->recv, c->count, c->type,
	                         w->stream, &c->ticket);
}

static int gather(struct caller *w, struct call *c)
{
	return cohort_gather(w->comm, c->send, c->recv, c->count, c->type,
	                     c->root, w->stream, &c->ticket);
}

static int scatter(struct caller *w, struct call *c)
{
	return cohort_scatter(w->comm, c->send, c->recv, c->count, c->type,
	                      c->root, w->stream, &c->ticket);
}

static int next_of(const struct caller *w)
{
	return (w->rank + 1) % w->ranks;
}

static int previous_of(const struct caller *w)
{
	return (w->rank + w->ranks - 1) % w->ranks;
}

static int send_recv(struct caller *w, struct call *c)
{
	int rc = cohort_batch_begin(w->comm);

	if (rc == COHORT_OK)
		rc = cohort_send(w->comm, c->send, c->count, c->type,
		                 next_of(w), NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_recv(w->comm, c->recv, c->count, c->type,
		                 previous_of(w), NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_batch_end(w->comm, w->stream, &c->ticket);
	return rc;
}

/* ---- with host memory -------------------------------------------------- */

static int host_all_reduce(struct caller *w, struct call *c)
{
	return cohort_all_reduce_host(w->comm, c->recv, c->count, c->type,
	                              c->op, COHORT_FOREVER);
}

static int host_broadcast(struct caller *w, struct call *c)
{
	return cohort_broadcast_host(w->comm, c->recv, c->count, c->type,
	                             c->root, COHORT_FOREVER);
}

static int host_reduce(struct caller *w, struct call *c)
{
	return cohort_reduce_host(w->comm, c->recv, c->count, c->type, c->op,
	                          c->root, COHORT_FOREVER);
}

static int host_all_gather(struct caller *w, struct call *c)
{
	return cohort_all_gather_host(w->comm, c->send, c->recv, c->count,
	                              c->type, COHORT_FOREVER);
}

static int host_reduce_scatter(struct caller *w, struct call *c)
{
	return cohort_reduce_scatter_host(w->comm, c->send, c->recv, c->count,
	                                  c->type, c->op, COHORT_FOREVER);
}

static int host_all_to_all(struct caller *w, struct call *c)
{
	return cohort_all_to_all_host(w->comm, c->send, c->recv, c->count,
	                              c->type, COHORT_FOREVER);
}

static int host_gather(struct caller *w, struct call *c)
{
	return cohort_gather_host(w->comm, c->send, c->recv, c->count, c->type,
	                          c->root, COHORT_FOREVER);
}

static int host_scatter(struct caller *w, struct call *c)
{
	return cohort_scatter_host(w->comm, c->send, c->recv, c->count, c->type,
	                           c->root, COHORT_FOREVER);
}

/* ---- through the platform's table ------------------------------------- */

static ncclResult_t table_all_reduce(struct caller *w, struct call *c)
{
	return w->platform->ncclAllReduce(c->send, c->recv, c->count,
	                                  (ncclDataType_t)c->type,
	                                  (ncclRedOp_t)c->op, w->native,
	                                  w->stream);
}

static ncclResult_t table_broadcast(struct caller *w, struct call *c)
{
	return w->platform->ncclBroadcast(c->send, c->recv, c->count,
	                                  (ncclDataType_t)c->type, c->root,
	                                  w->native, w->stream);
}

static ncclResult_t table_reduce(struct caller *w, struct call *c)
{
	return w->platform->ncclReduce(c->send, c->recv, c->count,
	                               (ncclDataType_t)c->type,
	                               (ncclRedOp_t)c->op, c->root, w->native,
	                               w->stream);
}

static ncclResult_t table_all_gather(struct caller *w, struct call *c)
{
	return w->platform->ncclAllGather(c->send, c->recv, c->count,
	                                  (ncclDataType_t)c->type, w->native,
	                                  w->stream);
}

static ncclResult_t table_reduce_scatter(struct caller *w, struct call *c)
{
	return w->platform->ncclReduceScatter(c->send, c->recv, c->count,
	                                      (ncclDataType_t)c->type,
	                                      (ncclRedOp_t)c->op, w->native,
	                                      w->stream);
}

static ncclResult_t table_all_to_all(struct caller *w, struct call *c)
{
	return w->platform->ncclAlltoAll(c->send, c->recv, c->count,
	                                 (ncclDataType_t)c->type, w->native,
	                                 w->stream);
}

static ncclResult_t table_gather(struct caller *w, struct call *c)
{
	return w->platform->ncclGather(c->send, c->recv, c->count,
	                               (ncclDataType_t)c->type, c->root,
	                               w->native, w->stream);
}

static ncclResult_t table_scatter(struct caller *w, struct call *c)
{
	return w->platform->ncclScatter(c->send, c->recv, c->count,
	                                (ncclDataType_t)c->type, c->root,
	                                w->native, w->stream);
}

static ncclResult_t table_send_recv(struct caller *w, struct call *c)
{
	const struct platform *p = w->platform;
	ncclDataType_t type = (ncclDataType_t)c->type;
	ncclResult_t res = p->ncclGroupStart(), end;

	if (res != ncclSuccess)
		return res;
	res = p->ncclSend(c->send, c->count, type, next_of(w), w->native,
	                  w->stream);
	if (res == ncclSuccess)
		res = p->ncclRecv(c->recv, c->count, type, previous_of(w),
		                  w->native, w->stream);
	end = p->ncclGroupEnd();
	return res == ncclSuccess ? end : res;
}

/* ---- all of them ------------------------------------------------------ */

static double factor_one(int n)
{
	(void)n;
	return 1.0;
}

static double factor_others(int n)
{
	return (n - 1.0) / n;
}

static double factor_twice(int n)
{
	return 2.0 * (n - 1) / n;
}

const struct collective collectives[] = {
	{ .name = "all_reduce",
	  .by_api = all_reduce,
	  .by_table = table_all_reduce,
	  .by_host = host_all_reduce,
	  .host_in_place = true,
	  .source = SOURCE_FOLD,
	  .has_op = true,
	  .has_in_place = true,
	  .factor = factor_twice },
	{ .name = "broadcast",
	  .by_api = broadcast,
	  .by_table = table_broadcast,
	  .by_host = host_broadcast,
	  .host_in_place = true,
	  .source = SOURCE_ROOT,
	  .has_root = true,
	  .has_in_place = true,
	  .factor = factor_one },
	{ .name = "reduce",
	  .by_api = reduce,
	  .by_table = table_reduce,
	  .by_host = host_reduce,
	  .host_in_place = true,
	  .source = SOURCE_FOLD,
	  .has_op = true,
	  .has_root = true,
	  .has_in_place = true,
	  .only_root = true,
	  .factor = factor_one },
	{ .name = "all_gather",
	  .by_api = all_gather,
	  .by_table = table_all_gather,
	  .by_host = host_all_gather,
	  .source = SOURCE_EACH,
	  .has_in_place = true,
	  .receives_blocks = true,
	  .factor = factor_others },
	{ .name = "reduce_scatter",
	  .by_api = reduce_scatter,
	  .by_table = table_reduce_scatter,
	  .by_host = host_reduce_scatter,
	  .source = SOURCE_FOLD,
	  .has_op = true,
	  .has_in_place = true,
	  .sends_blocks = true,
	  .factor = factor_others },
	{ .name = "all_to_all",
	  .by_api = all_to_all,
	  .by_table = table_all_to_all,
	  .by_host = host_all_to_all,
	  .source = SOURCE_EACH,
	  .sends_blocks = true,
	  .receives_blocks = true,
	  .factor = factor_others },
	{ .name = "gather",
	  .by_api = gather,
	  .by_table = table_gather,
	  .by_host = host_gather,
	  .source = SOURCE_EACH,
	  .has_root = true,
	  .has_in_place = true,
	  .receives_blocks = true,
	  .only_root = true,
	  .factor = factor_others },
	{ .name = "scatter",
	  .by_api = scatter,
	  .by_table = table_scatter,
	  .by_host = host_scatter,
	  .source = SOURCE_ROOT,
	  .has_root = true,
	  .has_in_place = true,
	  .sends_blocks = true,
	  .factor = factor_others },
	{ .name = "send_recv",
	  .by_api = send_recv,
	  .by_table = table_send_recv,
	  .source = SOURCE_PREVIOUS,
	  .factor = factor_one },
};

const size_t collective_count = sizeof(collectives) / sizeof(collectives[0]);

const struct collective *collective_find(const char *name)
{
	for (size_t i = 0; i < collective_count; i++)
		if (!strcmp(name, collectives[i].name))
			return &collectives[i];
	return NULL;
}

size_t collective_send_offset(const struct collective *c, int rank,
                              size_t block)
{
	return c->receives_blocks && !c->sends_blocks ? (size_t)rank * block
	                                              : 0;
}

size_t collective_recv_offset(const struct collective *c, int rank,
                              size_t block)
{
	return c->sends_blocks && !c->receives_blocks ? (size_t)rank * block
	                                              : 0;
}

size_t collective_send_blocks(const struct collective *c, int ranks)
{
	return c->sends_blocks ? (size_t)ranks : 1;
}

size_t collective_recv_blocks(const struct collective *c, int ranks)
{
	return c->receives_blocks ? (size_t)ranks : 1;
}
