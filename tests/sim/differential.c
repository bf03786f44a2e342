/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares scaled sums, and collectives of NCCL that cohort.h does not have,
 * with a plain reference
 *
 * One thread makes the calls of all ranks, in groups. A case has a type, a
 * count, a misalignment, and buffers that are in place or separate. Buffers
 * are between guards. tests/api/differential.c compares all other collectives,
 * by the public API.
 */

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/fill.h"
#include "support/native.h"
#include "support/reference.h"

#define GUARD 64
#define LARGEST 40001 /* approximate maximum number of elements */
#define ROOM (GUARD + 32 + 8 * (size_t)LARGEST + GUARD)

enum kind {
	ALL_TO_ALL,
	GATHER,
	SCATTER,
	BCAST,
	SCALED_ALL_REDUCE,
	SCALED_REDUCE,
	SCALED_REDUCE_SCATTER,
};

struct config {
	enum kind kind;
	int n, type, root;
	size_t count; /* argument of the call */
	bool in_place;
	bool on_device; /* the scalars are in device memory */
	size_t offset;  /* misalignment of the buffers */
};

/* Memory of one rank */
struct memory {
	char *send_room, *recv_room;
	char *send, *recv; /* equal, or one inside the other, if in place */
	char *input;       /* copy of the data to send */
	char *scaled;      /* the input times the scalar */
	unsigned char scalar[8];
	ncclRedOp_t op;
};

static const struct platform *p;
static struct native_clique clique;
static struct memory memory[NATIVE_RANKS];
static char *wanted;

static bool sends_blocks(enum kind kind)
{
	return kind == ALL_TO_ALL || kind == SCATTER ||
	       kind == SCALED_REDUCE_SCATTER;
}

static bool receives_blocks(enum kind kind)
{
	return kind == ALL_TO_ALL || kind == GATHER;
}

static bool is_scaled(enum kind kind)
{
	return kind >= SCALED_ALL_REDUCE;
}

static size_t blocks(const struct config *c, bool many)
{
	return c->count * (many ? (size_t)c->n : 1);
}

static size_t sent(const struct config *c)
{
	return blocks(c, sends_blocks(c->kind));
}

/* ---- buffers ---------------------------------------------------------- */

static void *must_allocate(size_t bytes)
{
	void *at = malloc(bytes);

	native_must(!at, "malloc");
	return at;
}

static void open_all(int n)
{
	int r;

	reference_begin();
	p = native_open(NATIVE_RANKS);
	native_clique_open(&clique, p, n);
	wanted = must_allocate(ROOM);
	for (r = 0; r < n; r++) {
		memory[r].send_room = must_allocate(ROOM);
		memory[r].recv_room = must_allocate(ROOM);
		memory[r].input = must_allocate(ROOM);
		memory[r].scaled = must_allocate(ROOM);
	}
}

static void close_all(int n)
{
	int r;

	native_clique_destroy(&clique);
	free(wanted);
	for (r = 0; r < n; r++) {
		free(memory[r].send_room);
		free(memory[r].recv_room);
		free(memory[r].input);
		free(memory[r].scaled);
	}
}

/* Set the buffers of rank @r. In place, one buffer is inside the other, as NCCL
 * defines. */
static void place_buffers(const struct config *c, int r)
{
	const size_t size = reference_size(c->type);
	const size_t block = (size_t)r * c->count * size;
	/* Misalign by an odd number of bytes or, if the call is scaled, of
	 * elements. */
	const size_t unit = is_scaled(c->kind) ? size : 1;
	struct memory *m = &memory[r];

	m->send = m->send_room + GUARD + c->offset * unit;
	m->recv = m->recv_room + GUARD + (c->offset ? 3 * unit : 0);
	if (c->kind == BCAST)
		m->recv = m->send;
	if (!c->in_place)
		return;
	if (receives_blocks(c->kind))
		m->send = m->recv + block;
	else if (sends_blocks(c->kind))
		m->recv = m->send + block;
	else
		m->recv = m->send;
}

static void fill(const struct config *c, int r)
{
	struct memory *m = &memory[r];
	uint64_t seed = (uint64_t)(r + 1) * 1000003 + c->count;
	const size_t bytes = sent(c) * reference_size(c->type);

	fill_guard(m->send_room, ROOM);
	fill_guard(m->recv_room, ROOM);
	place_buffers(c, r);
	fill_random(m->send, sent(c), c->type, seed, false);
	memcpy(m->input, m->send, bytes);
	if (!is_scaled(c->kind))
		return;
	fill_random(m->scalar, 1, c->type, seed + 1, false);
	reference_scale(m->scaled, m->input, m->scalar, sent(c), c->type);
}

/* ---- the call --------------------------------------------------------- */

static ncclResult_t call(const struct config *c, int r)
{
	struct memory *m = &memory[r];
	const ncclDataType_t type = (ncclDataType_t)c->type;
	const ncclComm_t comm = clique.comm[r];
	const cudaStream_t stream = clique.stream[r];

	switch (c->kind) {
	case ALL_TO_ALL:
		return p->ncclAlltoAll(m->send, m->recv, c->count, type, comm,
		                       stream);
	case GATHER:
		return p->ncclGather(m->send, r == c->root ? m->recv : NULL,
		                     c->count, type, c->root, comm, stream);
	case SCATTER:
		return p->ncclScatter(r == c->root ? m->send : NULL, m->recv,
		                      c->count, type, c->root, comm, stream);
	case BCAST:
		return p->ncclBcast(m->send, c->count, type, c->root, comm,
		                    stream);
	case SCALED_ALL_REDUCE:
		return p->ncclAllReduce(m->send, m->recv, c->count, type, m->op,
		                        comm, stream);
	case SCALED_REDUCE:
		return p->ncclReduce(m->send, r == c->root ? m->recv : NULL,
		                     c->count, type, m->op, c->root, comm,
		                     stream);
	case SCALED_REDUCE_SCATTER:
		return p->ncclReduceScatter(m->send, m->recv, c->count, type,
		                            m->op, comm, stream);
	}
	return ncclInternalError;
}

/*
 * Make a scaled call. When it has returned, immediately destroy its operation
 * and overwrite a scalar in host memory.
 */
static void call_scaled(const struct config *c, int r)
{
	struct memory *m = &memory[r];
	unsigned char scalar[8];

	memcpy(scalar, m->scalar, sizeof(scalar));
	native_must(p->ncclRedOpCreatePreMulSum(
			    &m->op, c->on_device ? m->scalar : scalar,
			    (ncclDataType_t)c->type,
			    c->on_device ? ncclScalarDevice
					 : ncclScalarHostImmediate,
			    clique.comm[r]),
	            "ncclRedOpCreatePreMulSum");
	memset(scalar, 0x55, sizeof(scalar));
	native_must(call(c, r), "the call");
	native_must(p->ncclRedOpDestroy(m->op, clique.comm[r]),
	            "ncclRedOpDestroy");
}

static void call_all(const struct config *c)
{
	int r;

	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = 0; r < c->n; r++) {
		if (is_scaled(c->kind))
			call_scaled(c, r);
		else
			native_must(call(c, r), "the call");
	}
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	for (r = 0; r < c->n; r++)
		native_must(p->cudaStreamSynchronize(clique.stream[r]),
		            "cudaStreamSynchronize");
}

/* ---- the comparison --------------------------------------------------- */

/* Store in wanted the elements that rank @r must receive. Return their
 * number. */
static size_t expect(const struct config *c, int r)
{
	const void *in[NATIVE_RANKS];
	int i;

	for (i = 0; i < c->n; i++)
		in[i] = is_scaled(c->kind) ? memory[i].scaled : memory[i].input;
	switch (c->kind) {
	case ALL_TO_ALL:
		reference_all_to_all(wanted, in, c->n, c->count, c->type, r);
		break;
	case GATHER:
		if (r != c->root)
			return 0;
		reference_all_gather(wanted, in, c->n, c->count, c->type);
		break;
	case SCATTER:
		reference_scatter(wanted, in, c->count, c->type, c->root, r);
		break;
	case BCAST:
		reference_broadcast(wanted, in, c->count, c->type, c->root);
		break;
	case SCALED_REDUCE:
		if (r != c->root)
			return 0;
		reference_reduce(wanted, in, c->n, c->count, c->type,
		                 COHORT_SUM);
		break;
	case SCALED_ALL_REDUCE:
		reference_reduce(wanted, in, c->n, c->count, c->type,
		                 COHORT_SUM);
		break;
	case SCALED_REDUCE_SCATTER:
		reference_reduce_scatter(wanted, in, c->n, c->count, c->type,
		                         COHORT_SUM, r);
		break;
	}
	return blocks(c, receives_blocks(c->kind));
}

/* Return whether nothing outside [@at, @at + @bytes) was written. */
static bool is_alone(const char *room, const char *at, size_t bytes)
{
	size_t before = (size_t)(at - room), behind = before + bytes;

	return fill_guard_intact(room, before) &&
	       fill_guard_intact(room + behind, ROOM - behind);
}

static bool is_right(const struct config *c, int r)
{
	const size_t size = reference_size(c->type), n = expect(c, r);
	const struct memory *m = &memory[r];

	if (n && reference_compare(m->recv, wanted, n, c->type) != n)
		return false;
	if (c->in_place || c->kind == BCAST)
		return true;
	return memcmp(m->send, m->input, sent(c) * size) == 0 &&
	       is_alone(m->recv_room, m->recv, n * size);
}

static void run_case(const struct config *c)
{
	int r;

	for (r = 0; r < c->n; r++)
		fill(c, r);
	call_all(c);
	for (r = 0; r < c->n; r++)
		cr_assert(is_right(c, r),
		          "kind %d rank %d of %d type %d root %d count %zu%s "
		          "offset %zu",
		          (int)c->kind, r, c->n, c->type, c->root, c->count,
		          c->in_place ? " in place" : "", c->offset);
}

/* Return whether NCCL refuses the call: it cannot scale 8-bit floats on one
 * rank. */
static bool is_refused(enum kind kind, int n, int type)
{
	return n == 1 && is_scaled(kind) &&
	       (type == ncclFloat8e4m3 || type == ncclFloat8e5m2);
}

static void run_cases(enum kind kind, int n)
{
	const size_t counts[] = { 0, 1, 17, 1023, (size_t)(LARGEST / n) };
	size_t k, offset;
	int type, place;

	open_all(n);
	for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
		for (type = 0; type < ncclNumTypes; type++)
			for (place = 0; place < 2; place++)
				for (offset = is_refused(kind, n, type) ? 2 : 0;
				     offset < 2; offset++)
					run_case(&(struct config){
						.kind = kind,
						.n = n,
						.type = type,
						.root = (type + (int)k) % n,
						.count = counts[k],
						.in_place = place &&
					                    kind != ALL_TO_ALL,
						.on_device = type % 2,
						.offset = offset,
					});
	close_all(n);
}

TestSuite(differential, .timeout = 120);

static struct criterion_test_params numbers_of_ranks(void)
{
	static int n[] = { 1, 2, 3, 8 };

	return cr_make_param_array(int, n, sizeof(n) / sizeof(n[0]));
}

ParameterizedTestParameters(differential, all_to_all_equals_the_reference)
{
	return numbers_of_ranks();
}

ParameterizedTest(int *n, differential, all_to_all_equals_the_reference)
{
	run_cases(ALL_TO_ALL, *n);
}

ParameterizedTestParameters(differential, gather_equals_the_reference)
{
	return numbers_of_ranks();
}

ParameterizedTest(int *n, differential, gather_equals_the_reference)
{
	run_cases(GATHER, *n);
}

ParameterizedTestParameters(differential, scatter_equals_the_reference)
{
	return numbers_of_ranks();
}

ParameterizedTest(int *n, differential, scatter_equals_the_reference)
{
	run_cases(SCATTER, *n);
}

ParameterizedTestParameters(differential, bcast_equals_the_reference)
{
	return numbers_of_ranks();
}

ParameterizedTest(int *n, differential, bcast_equals_the_reference)
{
	run_cases(BCAST, *n);
}

ParameterizedTestParameters(differential,
                            scaled_all_reduce_equals_the_reference)
{
	return numbers_of_ranks();
}

ParameterizedTest(int *n, differential, scaled_all_reduce_equals_the_reference)
{
	run_cases(SCALED_ALL_REDUCE, *n);
}

ParameterizedTestParameters(differential, scaled_reduce_equals_the_reference)
{
	return numbers_of_ranks();
}

ParameterizedTest(int *n, differential, scaled_reduce_equals_the_reference)
{
	run_cases(SCALED_REDUCE, *n);
}

ParameterizedTestParameters(differential,
                            scaled_reduce_scatter_equals_the_reference)
{
	return numbers_of_ranks();
}

ParameterizedTest(int *n, differential,
                  scaled_reduce_scatter_equals_the_reference)
{
	run_cases(SCALED_REDUCE_SCATTER, *n);
}
