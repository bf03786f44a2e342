/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whatever the type, a sum here adds 32-bit integers, by the widest vectors that the
 * processor has; a copy is memcpy().
 */

#include "cli/bench/limit.h"

#include <stdbool.h>
#include <string.h>

#include "sim/exec/reduce.h"

#define LINE 64
#define CHUNK 16384 /* bytes that are copied to all from cache */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

struct range {
	size_t begin;
	size_t bytes;
};

/* A rank's share: whole cache lines, evenly; the last rank also takes the
 * remainder. */
static struct range share_of(size_t bytes, int rank, int ranks)
{
	size_t lines = (bytes + LINE - 1) / LINE, n = (size_t)ranks;
	size_t each = (lines + n - 1) / n * LINE;
	size_t begin = least(each * (size_t)rank, bytes);

	return (struct range){ begin, least(each, bytes - begin) };
}

/* ---- sums ------------------------------------------------------------- */

typedef uint32_t wide __attribute__((vector_size(LINE), aligned(1), may_alias));

enum { MAX_FEW = 4 };

struct fold {
	const char *in[MAX_FEW];
	char *out[MAX_FEW];
	size_t bytes;
};

/* @n and @m are constants after inlining. */
static inline __attribute__((always_inline)) void
fold_lines(const struct fold *fold, int n, int m)
{
	struct fold f = *fold;
	size_t at = 0;

	for (; at + LINE <= f.bytes; at += LINE) {
		wide sum = *(const wide *)(f.in[0] + at);

		for (int k = 1; k < n; k++)
			sum += *(const wide *)(f.in[k] + at);
		for (int k = 0; k < m; k++)
			*(wide *)(f.out[k] + at) = sum;
	}
	for (; at < f.bytes; at++) {
		char sum = f.in[0][at];

		for (int k = 1; k < n; k++)
			sum = (char)(sum + f.in[k][at]);
		for (int k = 0; k < m; k++)
			f.out[k][at] = sum;
	}
}

static inline __attribute__((always_inline)) void fold_few(const struct fold *f,
                                                           int n, int m)
{
	if (n == 2)
		m == 1 ? fold_lines(f, 2, 1) : fold_lines(f, 2, 2);
	else if (n == 3)
		m == 1 ? fold_lines(f, 3, 1) : fold_lines(f, 3, 3);
	else
		m == 1 ? fold_lines(f, 4, 1) : fold_lines(f, 4, 4);
}

static void fold_any(const struct fold *f, int n, int m)
{
	fold_few(f, n, m);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void fold_avx2(const struct fold *f,
                                                      int n, int m)
{
	fold_few(f, n, m);
}

__attribute__((target("avx512f"))) static void fold_avx512(const struct fold *f,
                                                           int n, int m)
{
	fold_few(f, n, m);
}
#endif

static void fold_best(const struct fold *f, int n, int m)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx512f")) {
		fold_avx512(f, n, m);
		return;
	}
	if (__builtin_cpu_supports("avx2")) {
		fold_avx2(f, n, m);
		return;
	}
#endif
	fold_any(f, n, m);
}

/* For more ranks than there are loops for: sum pairwise into a buffer that stays
 * in cache, then store that. */
static void fold_many(const struct limit_place *places, int ranks, int only,
                      size_t from, size_t to, size_t bytes)
{
	char sum[CHUNK];

	for (size_t at = 0; at < bytes; at += CHUNK) {
		size_t n = least(CHUNK, bytes - at);

		memcpy(sum, places[0].send + from + at, n);
		for (int r = 1; r < ranks; r++) {
			struct fold pair = {
				.in = { sum, places[r].send + from + at },
				.out = { sum },
				.bytes = n,
			};
			fold_best(&pair, 2, 1);
		}
		for (int r = 0; r < ranks; r++)
			if (only < 0 || r == only)
				memcpy(places[r].recv + to + at, sum, n);
	}
}

/* Sum what all ranks send at @from into what rank @only, or every rank (-1),
 * receives at @to. */
static void fold(const struct limit_place *places, int ranks, int only,
                 size_t from, size_t to, size_t bytes)
{
	struct fold few = { .bytes = bytes };

	if (ranks < 2 || ranks > MAX_FEW) {
		fold_many(places, ranks, only, from, to, bytes);
		return;
	}
	for (int r = 0; r < ranks; r++) {
		few.in[r] = places[r].send + from;
		few.out[r] = places[only < 0 ? r : only].recv + to;
	}
	fold_best(&few, ranks, only < 0 ? ranks : 1);
}

static void run_fold(const struct collective *c,
                     const struct limit_place *places, int rank, int ranks,
                     int root, size_t block)
{
	struct range share = share_of(block, rank, ranks);

	if (c->sends_blocks)
		fold(places, ranks, rank, (size_t)rank * block, 0, block);
	else
		fold(places, ranks, c->only_root ? root : -1, share.begin,
		     share.begin, share.bytes);
}

/* ---- copies ----------------------------------------------------------- */

static void copy(char *to, const char *from, size_t bytes)
{
	if (to != from)
		memcpy(to, from, bytes);
}

/* Copy to what every rank receives, at offset @at. */
static void copy_to_all(const struct limit_place *places, int ranks,
                        const char *from, size_t at, size_t bytes)
{
	for (size_t done = 0; done < bytes; done += CHUNK)
		for (int r = 0; r < ranks; r++)
			copy(places[r].recv + at + done, from + done,
			     least(CHUNK, bytes - done));
}

static void run_from_root(const struct collective *c,
                          const struct limit_place *places, int rank, int ranks,
                          int root, size_t block)
{
	struct range share = share_of(block, rank, ranks);
	const char *from = places[root].send + share.begin;

	if (!c->sends_blocks) {
		copy_to_all(places, ranks, from, share.begin, share.bytes);
		return;
	}
	for (int r = 0; r < ranks; r++)
		copy(places[r].recv + share.begin, from + (size_t)r * block,
		     share.bytes);
}

static void run_from_each(const struct collective *c,
                          const struct limit_place *places, int rank, int ranks,
                          int root, size_t block)
{
	struct range share = share_of(block, rank, ranks);

	for (int r = 0; r < ranks; r++) {
		size_t to = (size_t)r * block;

		if (c->sends_blocks)
			memcpy(places[rank].recv + to,
			       places[r].send + (size_t)rank * block, block);
		else if (c->only_root)
			copy(places[root].recv + to + share.begin,
			     places[r].send + share.begin, share.bytes);
		else
			copy_to_all(places, ranks, places[r].send + share.begin,
			            to + share.begin, share.bytes);
	}
}

void limit_run(const struct collective *c, const struct limit_place *places,
               int rank, int ranks, int root, size_t block)
{
	switch (c->source) {
	case SOURCE_FOLD:
		run_fold(c, places, rank, ranks, root, block);
		break;
	case SOURCE_ROOT:
		run_from_root(c, places, rank, ranks, root, block);
		break;
	case SOURCE_EACH:
		run_from_each(c, places, rank, ranks, root, block);
		break;
	case SOURCE_PREVIOUS:
		memcpy(places[rank].recv,
		       places[(rank + ranks - 1) % ranks].send, block);
		break;
	}
}

void limit_reduce(const struct limit_place *places, int ranks, size_t from,
                  size_t bytes)
{
	fold(places, ranks, -1, from, from, bytes);
}

/* ---- with the host platform's arithmetic ------------------------------ */

static void direct_fold(const struct limit_place *places, int ranks, int only,
                        size_t from, size_t to, size_t bytes,
                        const struct call *call)
{
	const void *in[COHORT_MAX_RANKS];
	void *out[COHORT_MAX_RANKS];

	for (int r = 0; r < ranks; r++) {
		in[r] = places[r].send + from;
		out[r] = places[only < 0 ? r : only].recv + to;
	}
	reduce_fold_to(out, only < 0 ? ranks : 1, in, ranks,
	               bytes / cohort_type_size(call->type), call->type,
	               call->op);
}

void direct_run(const struct collective *c, const struct limit_place *places,
                int rank, int ranks, const struct call *call)
{
	size_t block = call->count * cohort_type_size(call->type);
	struct range share = share_of(block, rank, ranks);

	if (c->source != SOURCE_FOLD)
		limit_run(c, places, rank, ranks, call->root, block);
	else if (c->sends_blocks)
		direct_fold(places, ranks, rank, (size_t)rank * block, 0, block,
		            call);
	else if (share.bytes)
		direct_fold(places, ranks, c->only_root ? call->root : -1,
		            share.begin, share.begin, share.bytes, call);
}
