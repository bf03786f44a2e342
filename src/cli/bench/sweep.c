/* SPDX-License-Identifier: Apache-2.0 */

/* The operation of cohort bench for collectives: a case for each chosen
 * collective, type, reduction, size and mode, in this order. The modes of a size
 * are a set */

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "cli/bench/bench.h"
#include "cli/common/cli.h"

/*
 * The collectives that have their own function. The columns are the kind, the
 * name, the name of NCCL's function, the buffers of a call with host memory, and
 * the arguments after the type.
 */
#define ONE(l) l->recv
#define TWO(l) l->send, l->recv
#define NONE(l)
#define OP(l) l->c->op,
#define ROOT(l) l->bench->options->root,
#define OP_ROOT(l) OP(l) ROOT(l)
#define COLLECTIVES(X)                                                         \
	X(OP_ALL_REDUCE, all_reduce, AllReduce, ONE, OP)                       \
	X(OP_BROADCAST, broadcast, Broadcast, ONE, ROOT)                       \
	X(OP_REDUCE, reduce, Reduce, ONE, OP_ROOT)                             \
	X(OP_ALL_GATHER, all_gather, AllGather, TWO, NONE)                     \
	X(OP_REDUCE_SCATTER, reduce_scatter, ReduceScatter, TWO, OP)           \
	X(OP_ALL_TO_ALL, all_to_all, AlltoAll, TWO, NONE)                      \
	X(OP_GATHER, gather, Gather, TWO, ROOT)                                \
	X(OP_SCATTER, scatter, Scatter, TWO, ROOT)

#define KIND(kind, ...) kind,
static const enum op_kind kinds[] = { COLLECTIVES(KIND) OP_SEND };

static const char *name_of(enum op_kind kind)
{
	return kind == OP_SEND ? "send_recv" : op_name(kind);
}

/* Return whether @text is the name of a collective. nccl-tests uses fewer
 * underscores and appends "_perf", so ignore both. */
static bool is_name(const char *name, const char *text)
{
	for (;;) {
		name += *name == '_';
		if (!*name)
			return !*text || strcmp(text, "_perf") == 0;
		text += *text == '_';
		if (*name++ != *text++)
			return false;
	}
}

int collective_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (is_name(name_of(kinds[i]), name))
			return (int)kinds[i];
	return -1;
}

/* Add a case of at most @bytes, but at least one element. A collective that
 * works on blocks has at least one element per rank. */
static void add_case(struct bench *b, struct bench_case c, size_t bytes)
{
	static const char *const paths[BENCH_PATHS] = { "", " raw", " host" };
	const size_t blocks =
		op_has_blocks(c.kind) ? (size_t)b->options->ranks : 1;
	const size_t size = cohort_type_size(c.type) * blocks;

	c.count = MAX(bytes / size, (size_t)1);
	c.bytes = c.count * size;
	c.title = name_of(c.kind);
	c.is_checked = true;
	c.iterations = b->options->iterations;
	snprintf(c.mode, sizeof(c.mode), "%s%s%s",
	         c.rewrites ? "rewrite" : "loop", paths[c.path],
	         c.in_place ? "" : " out-of-place");
	bench_add_case(b, &c);
	b->bytes = MAX(b->bytes, c.bytes);
	if (!c.in_place)
		b->buffers = 2;
	b->needs_plain |= c.path == PATH_HOST;
}

/* Return whether to measure a case. A collective that cannot run in place is
 * always measured out of place. send_recv has no call with host memory. */
static bool is_wanted(const struct bench_options *o, const struct bench_case *c)
{
	const enum op_kind kind = c->kind;
	bool can = kind != OP_ALL_TO_ALL && kind != OP_SEND;
	bool has_host = kind != OP_SEND;
	bool is_host = c->path == PATH_HOST;

	if (!(c->rewrites ? o->rewrites : o->loops) || !o->paths[c->path] ||
	    (is_host && !has_host))
		return false;
	/* The call on host memory has a single buffer, so it is always in
	 * place. */
	if (is_host && can && !op_has_blocks(kind))
		return c->in_place;
	return c->in_place ? o->in_place && can : o->out_of_place || !can;
}

static void add_modes(struct bench *b, struct bench_case like, size_t bytes)
{
	like.set = b->count;
	for (int mode = 0; mode < 2 * BENCH_PATHS * 2; mode++) {
		like.rewrites = mode / 2 / BENCH_PATHS;
		like.path = (enum bench_path)(mode / 2 % BENCH_PATHS);
		like.in_place = mode % 2 == 0;
		if (is_wanted(b->options, &like))
			add_case(b, like, bytes);
	}
}

static void add_sizes(struct bench *b, struct bench_case like)
{
	for (size_t i = 0; i < b->options->size_count; i++)
		add_modes(b, like, b->options->sizes[i]);
}

static void add_ops(struct bench *b, struct bench_case like)
{
	const struct bench_options *o = b->options;

	if (!op_has_redop(like.kind)) {
		like.op = -1;
		add_sizes(b, like);
		return;
	}
	for (like.op = COHORT_SUM; like.op <= COHORT_AVG; like.op++)
		if (o->op < 0 || like.op == o->op)
			add_sizes(b, like);
}

static int plan(struct bench *b)
{
	const struct bench_options *o = b->options;

	b->buffers = 1;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct bench_case like = { .kind = kinds[i] };

		if (o->kind >= 0 && o->kind != (int)like.kind)
			continue;
		for (like.type = 0; like.type <= COHORT_F8E5M2; like.type++)
			if (o->type < 0 || like.type == o->type)
				add_ops(b, like);
	}
	return CLI_OK;
}

/* Return the rank that is @by places after the lane's rank in the ring. */
static int neighbor(const struct lane *l, int by)
{
	const int ranks = l->bench->options->ranks;

	return (l->rank + ranks + by) % ranks;
}

static int exchange_by_api(struct lane *l)
{
	const struct bench_case *c = l->c;
	int rc = cohort_batch_begin(l->comm);

	if (rc == COHORT_OK)
		rc = cohort_send(l->comm, l->send, c->count, c->type,
		                 neighbor(l, 1), NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_recv(l->comm, l->recv, c->count, c->type,
		                 neighbor(l, -1), NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_batch_end(l->comm, l->stream, &l->ticket);
	return rc;
}

static int submit_by_api(struct lane *l)
{
	switch (l->c->kind) {
#define CASE(kind, name, native_name, buffers, arguments)                      \
	case kind:                                                             \
		return cohort_##name(l->comm, l->send, l->recv, l->c->count,   \
		                     l->c->type, arguments(l) l->stream,       \
		                     &l->ticket);
		COLLECTIVES(CASE)
#undef CASE
	default:
		return exchange_by_api(l);
	}
}

static int call_with_host_memory(struct lane *l)
{
	switch (l->c->kind) {
#define CASE(kind, name, native_name, buffers, arguments)                      \
	case kind:                                                             \
		return cohort_##name##_host(l->comm, buffers(l), l->c->count,  \
		                            l->c->type,                        \
		                            arguments(l) COHORT_FOREVER);
		COLLECTIVES(CASE)
#undef CASE
	default:
		return COHORT_INVALID;
	}
}

static ncclResult_t exchange_by_table(const struct lane *l)
{
	const struct platform *p = l->bench->platform;
	ncclDataType_t type = (ncclDataType_t)l->c->type;
	ncclResult_t res = p->ncclGroupStart(), end;

	if (res != ncclSuccess)
		return res;
	res = p->ncclSend(l->send, l->c->count, type, neighbor(l, 1), l->native,
	                  l->stream);
	if (res == ncclSuccess)
		res = p->ncclRecv(l->recv, l->c->count, type, neighbor(l, -1),
		                  l->native, l->stream);
	end = p->ncclGroupEnd();
	return res == ncclSuccess ? end : res;
}

static ncclResult_t submit_by_table(const struct lane *l)
{
	switch (l->c->kind) {
#define CASE(kind, name, native_name, buffers, arguments)                      \
	case kind:                                                             \
		return l->bench->platform->nccl##native_name(                  \
			l->send, l->recv, l->c->count,                         \
			(ncclDataType_t)l->c->type, arguments(l) l->native,    \
			l->stream);
		COLLECTIVES(CASE)
#undef CASE
	default:
		return exchange_by_table(l);
	}
}

static bool operate_by_table(struct lane *l)
{
	const struct platform *p = l->bench->platform;
	ncclResult_t submitted = submit_by_table(l);
	cudaError_t finished;

	if (submitted != ncclSuccess)
		return lane_fail(l, l->c->title,
		                 p->ncclGetErrorString(submitted));
	finished = p->cudaStreamSynchronize(l->stream);
	return finished == cudaSuccess ||
	       lane_fail(l, l->c->title, p->cudaGetErrorString(finished));
}

static bool operate(struct lane *l)
{
	int rc;

	if (l->c->path == PATH_RAW)
		return operate_by_table(l);
	rc = l->c->path == PATH_HOST ? call_with_host_memory(l)
	                             : submit_by_api(l);
	if (rc == COHORT_OK && l->c->path == PATH_API)
		rc = cohort_wait(l->comm, l->ticket, COHORT_FOREVER);
	return rc == COHORT_OK ||
	       lane_fail(l, l->c->title, cohort_last_error());
}

/* Set the buffers of a case. In place, the single block that a rank sends or
 * receives is the block at the rank's own index. */
static void find_buffers(struct lane *l)
{
	char **buffers = l->is_plain && l->staging ? l->plain : l->buffer;
	char *send = buffers[1], *recv = buffers[0];
	size_t offset = (size_t)l->rank * l->block;

	if (l->c->in_place) {
		send = recv;
		if (l->receives > 1)
			send += offset;
		if (l->sends > 1)
			recv += offset;
	}
	l->send = send;
	l->recv = recv;
}

static bool enter_native(struct lane *l)
{
	const struct bench *b = l->bench;
	const struct bench_case *c = l->c;
	void *native;

	l->block = c->count * cohort_type_size(c->type);
	l->is_plain = c->path == PATH_HOST;
	l->stream = cohort_comm_stream(l->comm);
	op_blocks(&(struct op){ .kind = c->kind }, 0, b->options->ranks,
	          &l->sends, &l->receives);
	if (c->kind == OP_SEND)
		l->receives = 1;
	find_buffers(l);
	pattern_of_rank(&l->pattern, c->type, c->op, l->rank,
	                b->options->ranks);
	if (c->path != PATH_RAW)
		return true;
	if (cohort_comm_native_enter(l->comm, &native) != COHORT_OK)
		return lane_fail(l, c->title, cohort_last_error());
	l->native = native;
	return true;
}

static void leave(struct lane *l)
{
	if (l->c->path == PATH_RAW)
		cohort_comm_native_leave(l->comm);
}

static bool rewrite(struct lane *l)
{
	char *send = (char *)(uintptr_t)l->send, *at = lane_host(l, send);

	pattern_put(&l->pattern, at, l->sends * l->c->count);
	return lane_copy(l, send, at, l->sends * l->block);
}

static bool fill(struct lane *l, int byte)
{
	char **buffers = l->is_plain && l->staging ? l->plain : l->buffer;

	for (int i = 0; i < l->bench->buffers; i++) {
		char *at = lane_host(l, buffers[i]);

		memset(at, byte, l->c->bytes);
		if (!lane_copy(l, buffers[i], at, l->c->bytes))
			return false;
	}
	return true;
}

/* Set the pattern that block @b of the result must have. */
static void expect(struct lane *l, int b)
{
	const struct bench_case *c = l->c;
	int ranks = l->bench->options->ranks, from = b;

	if (op_has_redop(c->kind)) {
		pattern_of_fold(&l->expected, c->type, c->op, ranks);
		return;
	}
	if (c->kind == OP_BROADCAST || c->kind == OP_SCATTER)
		from = l->bench->options->root;
	else if (c->kind == OP_SEND)
		from = neighbor(l, -1);
	pattern_of_rank(&l->expected, c->type, c->op, from, ranks);
}

static bool compare(struct lane *l)
{
	const bool only_root_receives =
		l->c->kind == OP_REDUCE || l->c->kind == OP_GATHER;
	size_t count = l->c->count;
	size_t first = l->sends > 1 ? (size_t)l->rank * count : 0;
	char *at = lane_host(l, l->recv);

	if (only_root_receives && l->rank != l->bench->options->root)
		return true;
	if (!lane_copy(l, at, l->recv, l->receives * l->block))
		return false;
	for (size_t b = 0; b < l->receives; b++) {
		expect(l, (int)b);
		lane_add_wrong(l, pattern_wrong(&l->expected, at + b * l->block,
		                                first, count));
	}
	return true;
}

static double bandwidth(const struct bench *b, const struct bench_case *c)
{
	return (double)c->bytes / bench_time(b, c, 0.5) * 1e-3;
}

static double bus_bandwidth(const struct bench *b, const struct bench_case *c)
{
	const int ranks = b->options->ranks;
	const double others = (ranks - 1.0) / ranks;
	const enum op_kind kind = c->kind;

	return bandwidth(b, c) * (kind == OP_ALL_REDUCE ? 2.0 * others
	                          : op_has_blocks(kind) ? others
	                                                : 1.0);
}

static void report(struct row *row, const struct bench *b,
                   const struct bench_case *c)
{
	const char *type = cohort_type_name(c->type);
	const char *op = c->op < 0 ? NULL : cohort_op_name(c->op);
	int root = op_has_root(c->kind) ? b->options->root : -1;

	row_text(row, 0, NULL, "collective", c->title);
	row_text(row, 0, NULL, "dtype", type);
	row_text(row, 0, NULL, "op", op);
	row_number(row, 0, NULL, "ranks", b->options->ranks);
	row_number(row, 11, "bytes", "bytes", (long long)c->bytes);
	row_number(row, 11, "count", NULL, (long long)c->count);
	row_text(row, 10, "type", NULL, type);
	row_text(row, 5, "redop", NULL, op ? op : "none");
	row_number(row, 4, "root", NULL, root);
	row_text(row, -22, "mode", "mode", c->mode);
	row_times(row, b, c);
	row_figure(row, 7, 3, "algbw", "algbw", bandwidth(b, c));
	row_figure(row, 7, 3, "busbw", "busbw", bus_bandwidth(b, c));
	row_wrong(row, b, c, 1, true);
}

/* Print the two lines with which the output of nccl-tests ends. */
static void print_last_lines(const struct bench *b)
{
	unsigned long long wrong = bench_wrong(b->cases, b->count);
	double busbw = 0.0;

	for (size_t i = 0; i < b->count; i++)
		busbw += bus_bandwidth(b, &b->cases[i]);
	if (b->options->check)
		printf("# Out of bounds values : %llu %s\n", wrong,
		       wrong ? "FAILED" : "OK");
	else
		printf("# Out of bounds values : not checked\n");
	printf("# Avg bus bandwidth    : %g\n", busbw / (double)b->count);
}

const struct bench_operation bench_collectives = {
	.round_ns = 5e6,
	.least = 2,
	.most = 10000,
	.row = 1,
	.plan = plan,
	.enter = enter_native,
	.leave = leave,
	.fill = fill,
	.rewrite = rewrite,
	.operate = operate,
	.compare = compare,
	.report = report,
	.print_last_lines = print_last_lines,
};
