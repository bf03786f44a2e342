/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_AVERAGE_H
#define CLI_BENCH_AVERAGE_H

/*
 * cohort bench average: what the gradients of a model cost, in all the ways there are
 *
 * The list of tensors is read from a file (average_shapes.c).  Of each rank they lie
 * behind each other in one memory, so that all methods work on the same.  In every
 * round the ranks' threads measure each method (average_run.c); what came out is shown
 * at the end (average_report.c).
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum average_method {
	METHOD_ALONE, /* one call for each tensor, then one wait */
	METHOD_GROUP, /* the call for lists, made to be one native group */
	METHOD_FLAT,  /* the same, made to pack into flat buffers */
	METHOD_VIEWS, /* the gradients live in flat buffers: one call for each */
	METHOD_AUTO,  /* the call for lists, as it is */
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
	uint64_t max_count; /* of a tensor; 0: any */
	bool rewrites;      /* the gradients before each operation, outside of
	                       what is timed */
	bool limit;
	bool check;
	bool pin;
	bool json;
	bool methods[METHODS];
};

/* A tensor. */
struct average_shape {
	size_t count;
	size_t at; /* bytes from the begin of a rank's memory */
};

struct average_shapes {
	struct average_shape *all;
	size_t n;
	size_t values;
};

struct average_figures {
	double time_us; /* medians of the rounds */
	double p5_us;
	double p95_us;
	double busbw;    /* GB/s */
	double of_limit; /* NaN, here and below: not asked */
	double vs_alone; /* how many times as fast */
	double vs_flat;
};

struct average {
	const struct average_options *options;
	struct average_shapes shapes;
	size_t bytes; /* of the values */
	size_t room;  /* of a rank's memory */
	int platform; /* that it ran on */
	int cores;

	/* By rank 0's thread, then by the main thread: of each round, of what is
	 * asked for, else NULL. */
	double *times_ns[METHODS];
	double *limits_ns;
	atomic_ullong wrong[METHODS];
	struct average_figures figures[METHODS];
};

const char *average_method_name(int method);

/* Read the file: tensors of @size bytes each value, with at most @max_count (0: any)
 * values.  An enum cli_exit, after a complaint of @command with the line's number. */
int average_read(const char *command, const char *file, size_t size,
                 uint64_t max_count, struct average_shapes *shapes,
                 size_t *room_out);

/* An enum cli_exit, after a complaint. */
int average_measure(struct average *a);

/* Of the rounds; once. */
void average_evaluate(struct average *a);

/* On stdout. */
void average_print(const struct average *a);
void average_json(const struct average *a);

#endif
