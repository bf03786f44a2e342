/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_OVERLAP_H
#define CLI_BENCH_OVERLAP_H

/*
 * cohort bench overlap: how much of the averaging of gradients a backward pass hides
 *
 * The backward pass is simulated: each gradient is ready after a time in proportion to
 * its elements, and until then the rank's thread waits without work of its own.  In
 * every round the ranks measure in turn, for each length of the pass: the pass alone,
 * the averaging alone with all gradients ready at once, and a step in which gradients
 * become ready one after the other (overlap_run.c).  The results are printed at the end
 * (overlap_report.c).
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/bench/average.h"

#define OVERLAP_MOST_CASES 16
#define OVERLAP_MOST_ROUNDS 1000

enum overlap_part {
	PART_BACKWARD, /* the backward pass alone */
	PART_COMM,     /* the averaging alone */
	PART_STEP,     /* the averaging during the pass */
	PARTS,
};

/* The length of a pass. */
struct overlap_length {
	double value;
	bool is_factor; /* a multiple of the averaging; else milliseconds */
};

struct overlap_options {
	const char *shapes; /* the file */
	int ranks;
	int platform;
	int type;
	uint64_t rounds;
	uint64_t first_bytes; /* 0: the reducer's default */
	uint64_t bucket_bytes;
	bool full_buckets;
	struct overlap_length lengths[OVERLAP_MOST_CASES];
	size_t n;
	bool sleeps; /* sleep while a gradient is computed, and carry nothing out */
	bool check;
	bool pin;
	bool json;
	const char *plot; /* the file, or NULL */
};

struct overlap_case {
	double target_ns;  /* of the pass; set by rank 0 in the first round */
	double *ns[PARTS]; /* of each round; set by rank 0 */
	double us[PARTS];  /* medians */
	double ratio; /* median of the step divided by the longer of the others */
	double p95;
	double apart; /* median of the step divided by their sum */
};

struct overlap {
	const struct overlap_options *options;
	struct average_shapes shapes;
	size_t bytes;
	int platform;
	int cores;
	int buckets;
	struct overlap_case cases[OVERLAP_MOST_CASES];
	atomic_ullong wrong;
};

/* Measure.  An enum cli_exit, after a complaint. */
int overlap_measure(struct overlap *o);

/* Compute the figures from the rounds; to be called once. */
void overlap_evaluate(struct overlap *o);

/* Print the figures on stdout; and draw them, which returns an enum cli_exit,
 * after a complaint. */
void overlap_print(const struct overlap *o);
void overlap_json(const struct overlap *o);
int overlap_plot(const struct overlap *o);

#endif
