/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/bench/perf_calls.h"

#include <string.h>

/*
 * The collectives that have a function of their own: kind, name, that of NCCL's function,
 * where the result is from, the buffers of a call with host memory, and the arguments behind
 * the type
 */
#define ONE(c) c->recv
#define TWO(c) c->send, c->recv
#define NONE(c)
#define OP(c) c->op,
#define ROOT(c) c->root,
#define OP_ROOT(c) c->op, c->root,
#define COLLECTIVES(X)                                                         \
	X(OP_ALL_REDUCE, all_reduce, AllReduce, FOLD, ONE, OP)                 \
	X(OP_BROADCAST, broadcast, Broadcast, ROOT, ONE, ROOT)                 \
	X(OP_REDUCE, reduce, Reduce, FOLD, ONE, OP_ROOT)                       \
	X(OP_ALL_GATHER, all_gather, AllGather, EACH, TWO, NONE)               \
	X(OP_REDUCE_SCATTER, reduce_scatter, ReduceScatter, FOLD, TWO, OP)     \
	X(OP_ALL_TO_ALL, all_to_all, AlltoAll, EACH, TWO, NONE)                \
	X(OP_GATHER, gather, Gather, EACH, TWO, ROOT)                          \
	X(OP_SCATTER, scatter, Scatter, ROOT, TWO, ROOT)

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
#define CASE(kind, name, native, source, buffers, arguments)                   \
	case kind:                                                             \
		return cohort_##name(c->comm, c->send, c->recv, c->count,      \
		                     c->type, arguments(c) c->stream,          \
		                     &c->ticket);
		COLLECTIVES(CASE)
#undef CASE
	default:
		return exchange_by_api(c);
	}
}

static int submit_with_host_memory(struct call *c)
{
	switch (c->kind) {
#define CASE(kind, name, native, source, buffers, arguments)                   \
	case kind:                                                             \
		return cohort_##name##_host(c->comm, buffers(c), c->count,     \
		                            c->type,                           \
		                            arguments(c) COHORT_FOREVER);
		COLLECTIVES(CASE)
#undef CASE
	default:
		return COHORT_INVALID;
	}
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
	switch (c->kind) {
#define CASE(kind, name, native_name, source, buffers, arguments)              \
	case kind:                                                             \
		return c->platform->nccl##native_name(                         \
			c->send, c->recv, c->count, (ncclDataType_t)c->type,   \
			arguments(c) c->native, c->stream);
		COLLECTIVES(CASE)
#undef CASE
	default:
		return exchange_by_table(c);
	}
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

	return c->kind == OP_ALL_REDUCE ? 2.0 * others
	       : op_has_blocks(c->kind) ? others
	                                : 1.0;
}

const struct collective collectives[] = {
#define ROW(kind, name, native, source, buffers, arguments)                    \
	{ #name, kind, SOURCE_##source },
	COLLECTIVES(ROW)
#undef ROW
		{ "send_recv", OP_SEND, SOURCE_PREVIOUS },
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
