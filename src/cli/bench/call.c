/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/bench/call.h"

#include <string.h>

#include "base/util.h"

/* ---- calls ------------------------------------------------------------ */

static int next_of(const struct call *c)
{
	return (c->rank + 1) % c->ranks;
}

static int previous_of(const struct call *c)
{
	return (c->rank + c->ranks - 1) % c->ranks;
}

static int exchange_by_api(struct call *c)
{
	int rc = cohort_batch_begin(c->comm);

	if (rc == COHORT_OK)
		rc = cohort_send(c->comm, c->send, c->count, c->type,
		                 next_of(c), NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_recv(c->comm, c->recv, c->count, c->type,
		                 previous_of(c), NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_batch_end(c->comm, c->stream, &c->ticket);
	return rc;
}

static int submit_by_api(struct call *c)
{
	switch (c->kind) {
	case CALL_ALL_REDUCE:
		return cohort_all_reduce(c->comm, c->send, c->recv, c->count,
		                         c->type, c->op, c->stream, &c->ticket);
	case CALL_BROADCAST:
		return cohort_broadcast(c->comm, c->send, c->recv, c->count,
		                        c->type, c->root, c->stream,
		                        &c->ticket);
	case CALL_REDUCE:
		return cohort_reduce(c->comm, c->send, c->recv, c->count,
		                     c->type, c->op, c->root, c->stream,
		                     &c->ticket);
	case CALL_ALL_GATHER:
		return cohort_all_gather(c->comm, c->send, c->recv, c->count,
		                         c->type, c->stream, &c->ticket);
	case CALL_REDUCE_SCATTER:
		return cohort_reduce_scatter(c->comm, c->send, c->recv,
		                             c->count, c->type, c->op,
		                             c->stream, &c->ticket);
	case CALL_ALL_TO_ALL:
		return cohort_all_to_all(c->comm, c->send, c->recv, c->count,
		                         c->type, c->stream, &c->ticket);
	case CALL_GATHER:
		return cohort_gather(c->comm, c->send, c->recv, c->count,
		                     c->type, c->root, c->stream, &c->ticket);
	case CALL_SCATTER:
		return cohort_scatter(c->comm, c->send, c->recv, c->count,
		                      c->type, c->root, c->stream, &c->ticket);
	case CALL_SEND_RECV:
		break;
	}
	return exchange_by_api(c);
}

static int submit_with_host_memory(struct call *c)
{
	switch (c->kind) {
	case CALL_ALL_REDUCE:
		return cohort_all_reduce_host(c->comm, c->recv, c->count,
		                              c->type, c->op, COHORT_FOREVER);
	case CALL_BROADCAST:
		return cohort_broadcast_host(c->comm, c->recv, c->count,
		                             c->type, c->root, COHORT_FOREVER);
	case CALL_REDUCE:
		return cohort_reduce_host(c->comm, c->recv, c->count, c->type,
		                          c->op, c->root, COHORT_FOREVER);
	case CALL_ALL_GATHER:
		return cohort_all_gather_host(c->comm, c->send, c->recv,
		                              c->count, c->type,
		                              COHORT_FOREVER);
	case CALL_REDUCE_SCATTER:
		return cohort_reduce_scatter_host(c->comm, c->send, c->recv,
		                                  c->count, c->type, c->op,
		                                  COHORT_FOREVER);
	case CALL_ALL_TO_ALL:
		return cohort_all_to_all_host(c->comm, c->send, c->recv,
		                              c->count, c->type,
		                              COHORT_FOREVER);
	case CALL_GATHER:
		return cohort_gather_host(c->comm, c->send, c->recv, c->count,
		                          c->type, c->root, COHORT_FOREVER);
	case CALL_SCATTER:
		return cohort_scatter_host(c->comm, c->send, c->recv, c->count,
		                           c->type, c->root, COHORT_FOREVER);
	case CALL_SEND_RECV:
		break;
	}
	return COHORT_INVALID;
}

static ncclResult_t exchange_by_table(const struct call *c)
{
	const struct platform *p = c->platform;
	ncclDataType_t type = (ncclDataType_t)c->type;
	ncclResult_t res = p->ncclGroupStart(), end;

	if (res != ncclSuccess)
		return res;
	res = p->ncclSend(c->send, c->count, type, next_of(c), c->native,
	                  c->stream);
	if (res == ncclSuccess)
		res = p->ncclRecv(c->recv, c->count, type, previous_of(c),
		                  c->native, c->stream);
	end = p->ncclGroupEnd();
	return res == ncclSuccess ? end : res;
}

static ncclResult_t submit_by_table(const struct call *c)
{
	const struct platform *p = c->platform;
	ncclDataType_t type = (ncclDataType_t)c->type;
	ncclRedOp_t op = (ncclRedOp_t)c->op;

	switch (c->kind) {
	case CALL_ALL_REDUCE:
		return p->ncclAllReduce(c->send, c->recv, c->count, type, op,
		                        c->native, c->stream);
	case CALL_BROADCAST:
		return p->ncclBroadcast(c->send, c->recv, c->count, type,
		                        c->root, c->native, c->stream);
	case CALL_REDUCE:
		return p->ncclReduce(c->send, c->recv, c->count, type, op,
		                     c->root, c->native, c->stream);
	case CALL_ALL_GATHER:
		return p->ncclAllGather(c->send, c->recv, c->count, type,
		                        c->native, c->stream);
	case CALL_REDUCE_SCATTER:
		return p->ncclReduceScatter(c->send, c->recv, c->count, type,
		                            op, c->native, c->stream);
	case CALL_ALL_TO_ALL:
		return p->ncclAlltoAll(c->send, c->recv, c->count, type,
		                       c->native, c->stream);
	case CALL_GATHER:
		return p->ncclGather(c->send, c->recv, c->count, type, c->root,
		                     c->native, c->stream);
	case CALL_SCATTER:
		return p->ncclScatter(c->send, c->recv, c->count, type, c->root,
		                      c->native, c->stream);
	case CALL_SEND_RECV:
		break;
	}
	return exchange_by_table(c);
}

int call_submit(struct call *c)
{
	switch (c->path) {
	case PATH_RAW:
		return (int)submit_by_table(c);
	case PATH_HOST:
		return submit_with_host_memory(c);
	default:
		return submit_by_api(c);
	}
}

int call_finish(struct call *c)
{
	switch (c->path) {
	case PATH_RAW:
		return (int)c->platform->cudaStreamSynchronize(c->stream);
	case PATH_HOST:
		return COHORT_OK;
	default:
		return cohort_wait(c->comm, c->ticket, COHORT_FOREVER);
	}
}

/* ---- the table -------------------------------------------------------- */

double collective_factor(const struct collective *c, int n)
{
	double others = (n - 1.0) / n;

	return c->kind == CALL_ALL_REDUCE ? 2.0 * others
	       : collective_has_blocks(c) ? others
	                                  : 1.0;
}

const struct collective collectives[] = {
	{ "all_reduce", CALL_ALL_REDUCE, SOURCE_FOLD, 0 },
	{ "broadcast", CALL_BROADCAST, SOURCE_ROOT, HAS_ROOT },
	{ "reduce", CALL_REDUCE, SOURCE_FOLD, HAS_ROOT },
	{ "all_gather", CALL_ALL_GATHER, SOURCE_EACH, RECEIVES_BLOCKS },
	{ "reduce_scatter", CALL_REDUCE_SCATTER, SOURCE_FOLD, SENDS_BLOCKS },
	{ "all_to_all", CALL_ALL_TO_ALL, SOURCE_EACH,
	  SENDS_BLOCKS | RECEIVES_BLOCKS },
	{ "gather", CALL_GATHER, SOURCE_EACH, HAS_ROOT | RECEIVES_BLOCKS },
	{ "scatter", CALL_SCATTER, SOURCE_ROOT, HAS_ROOT | SENDS_BLOCKS },
	{ "send_recv", CALL_SEND_RECV, SOURCE_PREVIOUS, 0 },
};

const size_t collective_count = ARRAY_SIZE(collectives);

/* True if the names are equal without underscores, of which nccl-tests has fewer, up to
 * the ending of its programs. */
static bool is_name(const char *name, const char *text)
{
	for (;;) {
		name += *name == '_';
		if (!*name)
			return !*text || !strcmp(text, "_perf");
		text += *text == '_';
		if (*name++ != *text++)
			return false;
	}
}

const struct collective *collective_find(const char *name)
{
	for (size_t i = 0; i < collective_count; i++)
		if (is_name(collectives[i].name, name))
			return &collectives[i];
	return NULL;
}
