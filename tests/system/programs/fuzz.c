/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Random calls in random groups on all devices, made by one thread and checked
 * against a plain computation
 *
 *  fuzz [ROUNDS [SEED]]
 *
 * Integers must be exact. Floats may differ by at most the rounding error of
 * any order of additions. A failure is reported with its round and seed.
 */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "program.h"

#define MAX_CALLS 4
#define MAX_COUNT 40000

enum kind { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, SCATTER, SHIFT, KINDS };

static const char *const kinds[] = { "AllReduce", "Broadcast",     "Reduce",
	                             "AllGather", "ReduceScatter", "SendRecv" };

enum op { SUM, PROD, MAX, MIN, AVG, SCALED, OPS };

static const ncclRedOp_t ops[] = { ncclSum, ncclProd, ncclMax, ncclMin,
	                           ncclAvg };

struct call {
	enum kind kind;
	enum op op;
	int type;
	size_t count; /* elements in a rank's part */
	/* the root, or the distance between the ranks of a message */
	int root;
	bool in_place;
	char *sent[MAX_RANKS], *got[MAX_RANKS];       /* host memory */
	char *send[MAX_RANKS], *recv[MAX_RANKS];      /* device memory */
	void *memory[MAX_RANKS], *memory2[MAX_RANKS]; /* memory to free */
	ncclRedOp_t scaled[MAX_RANKS];
};

static struct rank ranks[MAX_RANKS];
static int n;
static uint64_t state;

static uint64_t draw(void)
{
	uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static size_t below(size_t most)
{
	return (size_t)(draw() % most);
}

/* ---- types ------------------------------------------------------------- */

/*
 * Types, by ncclDataType_t. @digits is the number of fraction bits, or 0 for an
 * integer.
 */
static const struct type {
	size_t size;
	bool is_signed;
	int digits, exponent_bits;
} types[] = {
	{ 1, true, 0, 0 },  { 1, false, 0, 0 }, { 4, true, 0, 0 },
	{ 4, false, 0, 0 }, { 8, true, 0, 0 },  { 8, false, 0, 0 },
	{ 2, true, 10, 5 }, { 4, true, 23, 8 }, { 8, true, 52, 11 },
	{ 2, true, 7, 8 },  { 1, true, 3, 4 },  { 1, true, 2, 5 },
};

#define TYPES ((int)(sizeof(types) / sizeof(types[0])))

static uint64_t bits_at(const struct type *t, const char *memory, size_t i)
{
	uint64_t bits = 0;

	memcpy(&bits, memory + i * t->size, t->size); /* little-endian */
	return bits;
}

static int64_t whole(const struct type *t, uint64_t bits)
{
	const unsigned unused = 64 - 8 * (unsigned)t->size;

	return t->is_signed ? (int64_t)(bits << unused) >> unused
	                    : (int64_t)bits;
}

static double decode(const struct type *t, uint64_t bits)
{
	const int bias = (1 << (t->exponent_bits - 1)) - 1;
	const uint64_t fraction = bits & ((UINT64_C(1) << t->digits) - 1);
	const int exponent =
		(int)(bits >> t->digits) & ((1 << t->exponent_bits) - 1);
	const double sign = bits >> (8 * t->size - 1) ? -1 : 1;

	if (!exponent)
		return sign * ldexp((double)fraction, 1 - bias - t->digits);
	return sign * ldexp((double)(fraction | UINT64_C(1) << t->digits),
	                    exponent - bias - t->digits);
}

/*
 * Return the bits of a random value. Floats are such that no operation
 * overflows. Integers need no limit, because they wrap.
 */
static uint64_t draw_bits(const struct type *t, enum op op)
{
	uint64_t bits;
	double x;

	if (!t->digits && op == AVG)
		return (uint64_t)(below(16) * (t->is_signed && draw() % 2
		                                       ? UINT64_MAX
		                                       : 1));
	do {
		bits = draw();
		if (!t->digits)
			return bits;
		bits &= UINT64_MAX >> (64 - 8 * t->size);
		/*
		 * Most random exponents would be far too large, so use one near
		 * 0.
		 */
		bits &= ~(((UINT64_C(1) << t->exponent_bits) - 1) << t->digits);
		bits |= (uint64_t)((1 << (t->exponent_bits - 1)) - 2 +
		                   (int)below(3))
		        << t->digits;
		x = fabs(decode(t, bits));
	} while (x > (op == PROD ? 1.5 : 4));
	return bits;
}

/* ---- expected results --------------------------------------------------- */

static bool same_whole(const struct call *c, const struct type *t, size_t i,
                       uint64_t got)
{
	const uint64_t mask = UINT64_MAX >> (64 - 8 * t->size);
	uint64_t x, value = bits_at(t, c->sent[0], i);

	if (c->op == SCALED)
		value *= 3;
	for (int r = 1; r < n; r++) {
		x = bits_at(t, c->sent[r], i);
		if (c->op == PROD)
			value *= x;
		else if (c->op == SCALED)
			value += 3 * x;
		else if (c->op == SUM)
			value += x;
		else if (c->op == AVG)
			value = (uint64_t)(whole(t, value) + whole(t, x));
		else if (t->is_signed ? (whole(t, x) > whole(t, value)) ==
		                                (c->op == MAX)
		                      : (x > value) == (c->op == MAX))
			value = x;
	}
	if (c->op == AVG)
		value = (uint64_t)(whole(t, value) / n);
	return (value & mask) == got;
}

static bool same_float(const struct call *c, const struct type *t, size_t i,
                       uint64_t got)
{
	double value = decode(t, bits_at(t, c->sent[0], i)), x;
	double size = fabs(value), slack;

	for (int r = 1; r < n; r++) {
		x = decode(t, bits_at(t, c->sent[r], i));
		size += fabs(x);
		if (c->op == PROD)
			value *= x;
		else if (c->op == MAX)
			value = fmax(value, x);
		else if (c->op == MIN)
			value = fmin(value, x);
		else
			value += x;
	}
	if (c->op == PROD)
		size = fabs(value);
	slack = c->op == MAX || c->op == MIN
	                ? 0
	                : ldexp((n + 2) * size, -t->digits) +
	                          ldexp(n,
	                                -t->digits -
	                                        (1 << (t->exponent_bits - 1)));
	if (c->op == AVG)
		value /= n;
	if (c->op == SCALED)
		value /= 2;
	return fabs(decode(t, got) - value) <= slack;
}

/* Return whether @got is the result of element @i over all ranks. */
static bool same_result(const struct call *c, size_t i, uint64_t got)
{
	const struct type *t = &types[c->type];

	return t->digits ? same_float(c, t, i, got) : same_whole(c, t, i, got);
}

static size_t sent_count(const struct call *c)
{
	return c->count * (c->kind == SCATTER ? (size_t)n : 1);
}

static size_t got_count(const struct call *c)
{
	return c->count * (c->kind == ALL_GATHER ? (size_t)n : 1);
}

static bool right(const struct call *c, int rank, size_t i)
{
	const struct type *t = &types[c->type];
	const uint64_t got = bits_at(t, c->got[rank], i);
	const size_t part = (size_t)rank * c->count;

	switch (c->kind) {
	case BROADCAST:
		return got == bits_at(t, c->sent[c->root], i);
	case ALL_GATHER:
		return got == bits_at(t, c->sent[i / c->count], i % c->count);
	case SHIFT:
		return got == bits_at(t, c->sent[(rank + n - c->root) % n], i);
	case REDUCE:
		return rank != c->root || same_result(c, i, got);
	case SCATTER:
		return same_result(c, part + i, got);
	default:
		return same_result(c, i, got);
	}
}

/* ---- calls -------------------------------------------------------------- */

static void choose(struct call *c)
{
	c->kind = below(KINDS);
	c->op = below(OPS);
	c->type = (int)below((size_t)TYPES);
	c->root = (int)below((size_t)n);
	c->in_place = c->kind != SHIFT && below(3) == 0;
	c->count = below(below(4) ? 700 : MAX_COUNT);
	/* NCCL refuses this call. */
	if (n == 1 && types[c->type].size == 1 && types[c->type].digits &&
	    c->op >= AVG)
		c->op = SUM;
}

static void allocate(struct call *c, int r)
{
	const size_t size = types[c->type].size;
	const size_t sent = sent_count(c) * size, got = got_count(c) * size;
	/* Align the buffers only to the size of an element. */
	const size_t odd = below(5) * size;

	c->sent[r] = malloc(sent + 1);
	c->got[r] = malloc(got + 1);
	CHECK(c->sent[r] && c->got[r]);
	for (size_t i = 0; i < sent_count(c); i++) {
		const uint64_t bits = draw_bits(&types[c->type], c->op);

		memcpy(c->sent[r] + i * size, &bits, size);
	}
	CUDA(cudaSetDevice(r));
	CUDA(cudaMalloc(&c->memory[r], sent + got + odd + 1));
	CUDA(cudaMalloc(&c->memory2[r], sent + got + odd + 1));
	c->send[r] = (char *)c->memory[r] + odd;
	c->recv[r] = (char *)c->memory2[r] + odd;
	if (c->in_place && c->kind == ALL_GATHER)
		c->send[r] = c->recv[r] + (size_t)r * sent;
	else if (c->in_place && c->kind == SCATTER)
		c->recv[r] = c->send[r] + (size_t)r * got;
	else if (c->in_place)
		c->recv[r] = c->send[r];
	CUDA(cudaMemcpyAsync(c->send[r], c->sent[r], sent,
	                     cudaMemcpyHostToDevice, ranks[r].stream));
}

static ncclRedOp_t reduction(struct call *c, int r)
{
	/* Factor of the scaled sum: 3 for integer types, one half for
	 * floating-point types */
	uint64_t scalar = 3;
	const struct type *t = &types[c->type];

	if (c->op != SCALED)
		return ops[c->op];
	if (t->digits)
		scalar = (uint64_t)((1 << (t->exponent_bits - 1)) - 2)
		         << t->digits;
	NCCL(ncclRedOpCreatePreMulSum(&c->scaled[r], &scalar,
	                              (ncclDataType_t)c->type,
	                              ncclScalarHostImmediate, ranks[r].comm));
	return c->scaled[r];
}

static void issue(struct call *c, int r)
{
	const ncclDataType_t type = (ncclDataType_t)c->type;
	const ncclComm_t comm = ranks[r].comm;
	const cudaStream_t stream = ranks[r].stream;
	void *const send = c->send[r], *const recv = c->recv[r];

	switch (c->kind) {
	case ALL_REDUCE:
		NCCL(ncclAllReduce(send, recv, c->count, type, reduction(c, r),
		                   comm, stream));
		return;
	case BROADCAST:
		NCCL(ncclBroadcast(send, recv, c->count, type, c->root, comm,
		                   stream));
		return;
	case REDUCE:
		NCCL(ncclReduce(send, recv, c->count, type, reduction(c, r),
		                c->root, comm, stream));
		return;
	case ALL_GATHER:
		NCCL(ncclAllGather(send, recv, c->count, type, comm, stream));
		return;
	case SCATTER:
		NCCL(ncclReduceScatter(send, recv, c->count, type,
		                       reduction(c, r), comm, stream));
		return;
	default:
		NCCL(ncclSend(send, c->count, type, (r + c->root) % n, comm,
		              stream));
		NCCL(ncclRecv(recv, c->count, type, (r + n - c->root) % n, comm,
		              stream));
	}
}

static void check(struct call *c, int r, long round, uint64_t seed)
{
	const size_t size = types[c->type].size;

	CUDA(cudaSetDevice(r));
	CUDA(cudaMemcpyAsync(c->got[r], c->recv[r], got_count(c) * size,
	                     cudaMemcpyDeviceToHost, ranks[r].stream));
	CUDA(cudaStreamSynchronize(ranks[r].stream));
	for (size_t i = 0; i < got_count(c); i++) {
		if (right(c, r, i))
			continue;
		fprintf(stderr,
		        "seed %llu, round %ld: %s, operation %d, type %d, "
		        "count %zu, root %d%s: rank %d has %llx at %zu\n",
		        (unsigned long long)seed, round, kinds[c->kind], c->op,
		        c->type, c->count, c->root,
		        c->in_place ? ", in place" : "", r,
		        (unsigned long long)bits_at(&types[c->type], c->got[r],
		                                    i),
		        i);
		exit(1);
	}
}

static bool reduces(const struct call *c)
{
	return c->kind == ALL_REDUCE || c->kind == REDUCE || c->kind == SCATTER;
}

static void release(struct call *c, int r)
{
	free(c->sent[r]);
	free(c->got[r]);
	CUDA(cudaSetDevice(r));
	CUDA(cudaFree(c->memory[r]));
	CUDA(cudaFree(c->memory2[r]));
	if (c->op == SCALED && reduces(c))
		NCCL(ncclRedOpDestroy(c->scaled[r], ranks[r].comm));
}

/* Choose calls. One of them can be a rank's broadcasts from several roots. */
static void choose_all(struct call calls[], int count)
{
	const bool broadcasts = below(6) == 0;

	for (int i = 0; i < count; i++) {
		choose(&calls[i]);
		if (broadcasts)
			calls[i].kind = BROADCAST;
	}
}

static void run_round(long round, uint64_t seed)
{
	struct call calls[MAX_CALLS] = { 0 };
	const int count = 1 + (int)below(MAX_CALLS);

	choose_all(calls, count);
	for (int i = 0; i < count; i++)
		for (int r = 0; r < n; r++)
			allocate(&calls[i], r);
	NCCL(ncclGroupStart());
	for (int r = 0; r < n; r++)
		for (int i = 0; i < count; i++)
			issue(&calls[i], r);
	NCCL(ncclGroupEnd());
	for (int i = 0; i < count; i++)
		for (int r = 0; r < n; r++)
			check(&calls[i], r, round, seed);
	for (int i = 0; i < count; i++)
		for (int r = 0; r < n; r++)
			release(&calls[i], r);
}

int main(int argc, char **argv)
{
	const long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 40;
	const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	state = seed;
	n = open_ranks(ranks);
	for (long round = 0; round < rounds; round++)
		run_round(round, seed);
	close_ranks(ranks, n);
	puts("OK");
	return 0;
}
