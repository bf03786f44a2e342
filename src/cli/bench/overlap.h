/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_OVERLAP_H
#define CLI_BENCH_OVERLAP_H

/*
 * cohort bench overlap: how much of the averaging of gradients a backward pass hides
 *
 * The backward pass is simulated: of each gradient it is known when it would be
 * computed, in proportion to its values, and until then the rank's thread waits
 * without work of its own.  In every round the ranks measure by turns, for each length
 * of the pass: the pass alone, the averaging alone (all gradients ready at once), and
 * a step in which gradients are ready one after the other (overlap_run.c); what came
 * out is shown at the end (overlap_report.c).
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/bench/average.h"

#define OVERLAP_MOST_CASES 16
#define OVERLAP_MOST_ROUNDS 1000

enum overlap_part {
	PART_BACKWARD, /* the pass alone */
	PART_COMM,     /* the averaging alone */
	PART_STEP,     /* one during the other */
	PARTS,
};

/* How long a pass is. */
struct overlap_length {
	double value;
	bool is_factor; /* of what the averaging takes; else milliseconds */
};

struct overlap_options {
	const char *shapes; /* the file */
	int ranks;
	int platform;
	int type;
	uint64_t rounds;
	uint64_t first_bytes; /* of the reducer's options */
	uint64_t bucket_bytes;
	bool full_buckets;
	struct overlap_length lengths[OVERLAP_MOST_CASES];
	size_t n;
	bool sleeps; /* while a gradient is computed, instead of carrying on what
	                is launched */
	bool check;
	bool pin;
	bool json;
	const char *plot; /* the file, or NULL */
};

struct overlap_case {
	double target_ns;  /* of the pass; by rank 0 in the first round */
	double *ns[PARTS]; /* of each round; by rank 0 */
	double us[PARTS];  /* medians */
	double ratio;      /* of the step to the longer of the others: median */
	double p95;
	double apart; /* to both, one after the other: likewise */
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

/* An enum cli_exit, after a complaint. */
int overlap_measure(struct overlap *o);

/* Of the rounds; once. */
void overlap_evaluate(struct overlap *o);

/* On stdout; and a figure.  That: an enum cli_exit, after a complaint. */
void overlap_print(const struct overlap *o);
void overlap_json(const struct overlap *o);
int overlap_plot(const struct overlap *o);

#endif
