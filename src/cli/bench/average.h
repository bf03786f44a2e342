/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_AVERAGE_H
#define CLI_BENCH_AVERAGE_H

/*
 * cohort bench average: how long a model's gradients take to all-reduce, by each method
 *
 * The list of tensors is read from a file (average_shapes.c).  Each rank's tensors are
 * contiguous in one memory, which all methods use.  In every round the ranks' threads
 * (average_lane.c) measure each method (average_run.c), and the results are printed at
 * the end (average_report.c).
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum average_method {
	METHOD_ALONE, /* one call for each tensor, then one wait */
	METHOD_GROUP, /* the call for lists, as one native group */
	METHOD_FLAT,  /* the call for lists, which packs into flat buffers */
	METHOD_VIEWS, /* the gradients live in flat buffers: one call for each */
	METHOD_AUTO,  /* the call for lists, with its defaults */
	METHODS,
};

#define AVERAGE_MAX_ROUNDS 10000

struct average_options {
	const char *shapes; /* the file */
	int ranks;
	int platform;
	int type;
	int op;
	uint64_t rounds;
	uint64_t max_count; /* the most elements of a tensor; 0: any number */
	bool rewrites;      /* rewrite gradients before each operation */
	bool check;
	bool pin;
	bool json;
	bool methods[METHODS];
};

struct average_shape {
	size_t count;
	size_t at; /* its offset in a rank's memory, in bytes */
};

struct average_shapes {
	struct average_shape *all;
	size_t n;
	size_t values;
};

struct average_figures {
	double time_us; /* median of the rounds */
	double p5_us;
	double p95_us;
	double busbw;    /* GB/s */
	double vs_alone; /* speedup over METHOD_ALONE, or NaN */
	double vs_flat;  /* speedup over METHOD_FLAT, or NaN */
};

struct average {
	const struct average_options *options;
	struct average_shapes shapes;
	size_t bytes; /* of all elements */
	size_t room;  /* of one rank's memory */
	int platform; /* the platform that it ran on */
	int cores;

	/* Written by rank 0's thread, then read by the main thread: for each
	 * round, or NULL if that is not measured. */
	double *times_ns[METHODS];
	atomic_ullong wrong[METHODS];
	struct average_figures figures[METHODS];
};

const char *average_method_name(int method);

/* Read the file: tensors whose elements have @size bytes each, and which have at
 * most @max_count elements (0: any number).  An enum cli_exit, after a complaint by
 * @command with the line's number. */
int average_read(const char *command, const char *file, size_t size,
                 uint64_t max_count, struct average_shapes *shapes,
                 size_t *room_out);

/* Measure.  An enum cli_exit, after a complaint. */
int average_measure(struct average *a);

/* Compute the figures from the rounds; to be called once. */
void average_evaluate(struct average *a);

/* Print the figures on stdout. */
void average_print(const struct average *a);
void average_json(const struct average *a);

#endif
