/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures how long the reduction kernels take on one thread, by type and
 * operation
 *
 * A fold works in place, as in an all-reduce: it reads and writes one array per
 * rank.  The fold and a plain loop (a[i] = b[i] = a[i] + b[i] on float32, with
 * vectors as wide as the level's) take turns.  Prints medians: the time of a
 * call with one element in ns, bytes read and written in GB/s, and the fold's
 * time per byte divided by that of the plain loop.
 *
 *  build/release/bench/reduce [--rounds N] [--ranks N] [--level NAME] [--json]
 */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>

#include "base/clock.h"
#include "base/json.h"
#include "sim/exec/reduce_levels.h"

#define MAX_ROUNDS 1000
#define MAX_RANKS 16
#define SIZES 3
#define CALLS 200 /* number of calls with one element in a round */

/*
 * Minimum bytes of an array in one turn.  A shorter turn would be distorted,
 * because floats are slower for some microseconds after 512-bit integer
 * instructions.
 */
#define TURN 0x200000

static const size_t sizes[SIZES] = { 0x4000, 0x40000, 0x1000000 };

static const char *const type_names[ncclNumTypes] = {
	"int8",    "uint8",   "int32",   "uint32",   "int64",  "uint64",
	"float16", "float32", "float64", "bfloat16", "f8e4m3", "f8e5m2",
};

static const char *const op_names[ncclNumOps] = {
	[ncclSum] = "sum", [ncclProd] = "prod", [ncclMax] = "max",
	[ncclMin] = "min", [ncclAvg] = "avg",
};

/* ---- the plain loop ----------------------------------------------------- */

typedef void plain_fn(char *a, char *b, size_t bytes);

#define DEFINE_PLAIN(name, width, machine)                                     \
	machine static void name(char *a, char *b, size_t bytes)               \
	{                                                                      \
		typedef float vector                                           \
			__attribute__((vector_size(width), aligned(4)));       \
                                                                               \
		for (size_t at = 0; at < bytes; at += (width)) {               \
			vector *const x = (vector *)(a + at);                  \
			vector *const y = (vector *)(b + at);                  \
                                                                               \
			*x = *y = *x + *y;                                     \
		}                                                              \
	}

DEFINE_PLAIN(plain_base, 16, )
#ifdef __x86_64__
DEFINE_PLAIN(plain_avx2, 32, __attribute__((target("avx2"))))
DEFINE_PLAIN(plain_avx512, 64, __attribute__((target("avx512f"))))
#endif

static plain_fn *plain_of(const struct reduce_level *level)
{
#ifdef __x86_64__
	if (strncmp(level->name, "avx512", strlen("avx512")) == 0)
		return plain_avx512;
	if (level == &reduce_avx2)
		return plain_avx2;
#endif
	(void)level;
	return plain_base;
}

/* ---- measuring ---------------------------------------------------------- */

struct bench {
	const char *only; /* the level; NULL for the best one of each type */
	const struct reduce_level *level; /* the level for the measured type */
	plain_fn *plain;
	int rounds;
	int ranks;
	char *at[MAX_RANKS];
	const void *src[MAX_RANKS];
	void *out[MAX_RANKS];
};

struct result {
	double one; /* time of a call with one element, in ns */
	double speed[SIZES], ratio[SIZES];
	double plain[SIZES]; /* speed of the plain loop */
};

static void set_up(struct bench *b)
{
	size_t bytes = sizes[SIZES - 1], all;
	char *memory;

	all = bytes * (size_t)b->ranks;
	memory = aligned_alloc(4096, all);
	if (!memory) {
		fprintf(stderr, "reduce: out of memory\n");
		exit(1);
	}
	memset(memory, 0, all);
	for (int r = 0; r < b->ranks; r++) {
		b->at[r] = memory + (size_t)r * bytes;
		b->src[r] = b->out[r] = b->at[r];
	}
}

/* Choose the level for @type; return false if there is none. */
static bool aim(struct bench *b, int type)
{
	int nth = 0;

	do
		b->level = reduce_level(type, nth++);
	while (b->level && b->only && strcmp(b->level->name, b->only) != 0);
	b->plain = b->level ? plain_of(b->level) : NULL;
	return b->level;
}

static void fold(const struct bench *b, int type, int op, size_t bytes)
{
	b->level->fold[type][op](b->out, b->ranks, b->src, b->ranks,
	                         bytes / cohort_type_size(type));
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *times, int n)
{
	qsort(times, (size_t)n, sizeof(times[0]), compare);
	return times[n / 2];
}

static double time_one(const struct bench *b, int type, int op)
{
	double times[MAX_ROUNDS];
	uint64_t from;

	for (int i = 0; i < b->rounds; i++) {
		from = clock_now();
		for (int j = 0; j < CALLS; j++)
			fold(b, type, op, cohort_type_size(type));
		times[i] = (double)(clock_now() - from) / CALLS;
	}
	return median(times, b->rounds);
}

/* Measure the plain loop and the fold in turn, on arrays of one size. */
static void time_size(const struct bench *b, int type, int op, int nth,
                      struct result *r)
{
	static double plain[MAX_ROUNDS], own[MAX_ROUNDS], ratio[MAX_ROUNDS];
	const size_t bytes = sizes[nth];
	const int turns = bytes < TURN ? (int)(TURN / bytes) : 1;
	const double ranks = b->ranks;
	uint64_t from, middle, to;

	for (int i = 0; i < b->rounds; i++) {
		from = clock_now();
		for (int j = 0; j < turns; j++)
			b->plain(b->at[0], b->at[1], bytes);
		middle = clock_now();
		for (int j = 0; j < turns; j++)
			fold(b, type, op, bytes);
		to = clock_now();
		plain[i] = (double)(middle - from) / turns;
		own[i] = (double)(to - middle) / turns;
		ratio[i] = own[i] / plain[i] * 2 / ranks;
	}
	r->speed[nth] = 2 * ranks * (double)bytes / median(own, b->rounds);
	r->plain[nth] = 4 * (double)bytes / median(plain, b->rounds);
	r->ratio[nth] = median(ratio, b->rounds);
}

static struct result measure(const struct bench *b, int type, int op)
{
	struct result r;

	fold(b, type, op, sizes[SIZES - 1]);
	r.one = time_one(b, type, op);
	for (int i = 0; i < SIZES; i++)
		time_size(b, type, op, i, &r);
	return r;
}

/* ---- output ------------------------------------------------------------- */

static void print_head(const struct bench *b)
{
	printf("cohort %s, compiler %s, %s, %d ranks in place\n"
	       "medians of %d rounds; GB/s read and written, of the fold and "
	       "of "
	       "the plain loop\n"
	       "and how many times as long the fold took per byte\n\n"
	       "                1 elem.  16 KiB                 256 KiB        "
	       "        16 MiB\n"
	       "type      op         ns    GB/s   plain  times    GB/s   plain "
	       " times    GB/s   plain  times\n",
	       cohort_version(), __VERSION__,
	       b->only ? b->only : "the best level of each type", b->ranks,
	       b->rounds);
}

static void print_result(int type, int op, const struct result *r)
{
	printf("%-8s  %-4s  %7.1f", type_names[type], op_names[op], r->one);
	for (int i = 0; i < SIZES; i++)
		printf("  %6.1f  %6.1f %6.2f", r->speed[i], r->plain[i],
		       r->ratio[i]);
	putchar('\n');
	fflush(stdout);
}

static void json_result(struct json *json, const struct bench *b, int type,
                        int op, const struct result *r)
{
	json_open(json, NULL, '{');
	json_string(json, "level", b->level->name);
	json_int(json, "ranks", b->ranks);
	json_string(json, "type", type_names[type]);
	json_string(json, "op", op_names[op]);
	json_double(json, "one_ns", r->one);
	json_open(json, "sizes", '[');
	for (int i = 0; i < SIZES; i++) {
		json_open(json, NULL, '{');
		json_uint(json, "bytes", sizes[i]);
		json_double(json, "gb_per_s", r->speed[i]);
		json_double(json, "plain_gb_per_s", r->plain[i]);
		json_double(json, "times", r->ratio[i]);
		json_close(json, '}');
	}
	json_close(json, ']');
	json_close(json, '}');
}

static void run(struct bench *b, bool as_json)
{
	struct json json = { .out = stdout };
	struct result r;

	if (as_json)
		json_open(&json, NULL, '[');
	else
		print_head(b);
	for (int type = 0; type < ncclNumTypes; type++)
		for (int op = 0; aim(b, type) && op < ncclNumOps; op++) {
			r = measure(b, type, op);
			if (as_json)
				json_result(&json, b, type, op, &r);
			else
				print_result(type, op, &r);
		}
	if (as_json) {
		json_close(&json, ']');
		putchar('\n');
	}
}

static int usage(void)
{
	fprintf(stderr,
	        "usage: reduce [--rounds 1..%d] [--ranks 2..%d] "
	        "[--level avx512_bf16|avx512|avx2|base] "
	        "[--json]\n",
	        MAX_ROUNDS, MAX_RANKS);
	return 2;
}

int main(int argc, char **argv)
{
	static struct bench b = { .rounds = 21, .ranks = 2 };
	bool as_json = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0)
			as_json = true;
		else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
			b.rounds = atoi(argv[++i]);
		else if (strcmp(argv[i], "--ranks") == 0 && i + 1 < argc)
			b.ranks = atoi(argv[++i]);
		else if (strcmp(argv[i], "--level") == 0 && i + 1 < argc)
			b.only = argv[++i];
		else
			return usage();
	}
	/* bfloat16 exists in every level, so this tests --level. */
	if (!aim(&b, ncclBfloat16) || b.rounds < 1 || b.rounds > MAX_ROUNDS ||
	    b.ranks < 2 || b.ranks > MAX_RANKS)
		return usage();
	set_up(&b);
	run(&b, as_json);
	free(b.at[0]);
	return 0;
}
