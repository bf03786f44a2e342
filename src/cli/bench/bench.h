/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

/*
 * cohort bench: its options and cases, and one runner and one report for all
 * operations
 *
 * An operation is what the command measures: collectives (sweep.c), the
 * gradients of cohort bench average (average.c), or the steps of cohort bench
 * overlap (overlap.c). bench_options.c reads the options, from which an
 * operation makes a list of cases, in sets that are compared. The ranks'
 * threads measure one set after another, all of its cases in every round
 * (rounds.c). results.c writes the results of a set when it is finished.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "base/json.h"
#include "core/op.h"
#include "platform/platform.h"

/* ---- data.c ----------------------------------------------------------- */

/* Number of elements after which the data of a checked test repeat. It is
 * prime, so that misplaced data are detected. */
enum { PATTERN_PERIOD = 1021 };

struct pattern {
	size_t size; /* size of an element, in bytes */
	unsigned char bytes[PATTERN_PERIOD * 8];
};

/* Make the pattern that @rank of @ranks sends. @op is an enum cohort_op, or -1
 * if data are only copied. */
void pattern_of_rank(struct pattern *pattern, int type, int op, int rank,
                     int ranks);

void pattern_of_fold(struct pattern *pattern, int type, int op, int ranks);
void pattern_put(const struct pattern *pattern, void *to, size_t count);

/* Return how many of the @count elements at @at differ from the elements of the
 * pattern that start at @first. */
size_t pattern_wrong(const struct pattern *pattern, const void *at,
                     size_t first, size_t count);

/* ---- options ---------------------------------------------------------- */

enum bench_path {
	PATH_API,  /* functions of Cohort's API */
	PATH_RAW,  /* NCCL's functions, from the platform's table */
	PATH_HOST, /* cohort_*_host(), with plain memory */
	BENCH_PATHS,
};

enum list_method {
	METHOD_ALONE, /* one call for each tensor, then one wait */
	METHOD_GROUP, /* the call for lists, as one native group */
	METHOD_FLAT,  /* the call for lists, which packs into flat buffers */
	/* one call for each flat buffer; the gradients live in these buffers */
	METHOD_VIEWS,
	METHOD_AUTO, /* the call for lists, with its defaults */
	LIST_METHODS,
};

struct overlap_length {
	double value;
	/* true if value is a multiple of the averaging time; false if it is in
	 * milliseconds */
	bool is_factor;
};

#define BENCH_MAX_SIZES 256
#define BENCH_MAX_LENGTHS 16

struct bench_options {
	const struct bench_operation *operation;
	int ranks;    /* number of ranks, or 0 if not given */
	int platform; /* enum cohort_platform */
	int type;     /* data type, or -1 for all */
	int op;       /* reduction, or -1 for all */
	uint64_t rounds;
	uint64_t iterations; /* iterations per round, or 0 to fill round_ns */
	uint64_t warm_up;    /* untimed iterations before the timed ones */
	/* measure with buffers that are rewritten before each operation */
	bool rewrites;
	bool check;
	bool pin;
	bool json;

	/* Options for collectives */
	/* enum op_kind of the collective, or -1 for all. OP_SEND stands for a
	 * send to the next rank and a receive from the previous one. */
	int kind;
	int root;
	size_t sizes[BENCH_MAX_SIZES]; /* sizes of the data, in bytes */
	size_t size_count;
	bool loops; /* measure with buffers that are not rewritten */
	bool paths[BENCH_PATHS];
	bool in_place;
	bool out_of_place;

	/* Options for average and overlap */
	const char *shapes; /* name of the file with the list of tensors */

	/* For average: the largest number of elements of a tensor, or 0 for no
	 * limit */
	uint64_t max_count;
	bool methods[LIST_METHODS];

	/* Options for overlap */
	uint64_t first_bytes; /* size of the first bucket, or 0 for default */
	uint64_t bucket_bytes;
	bool full_buckets;
	struct overlap_length lengths[BENCH_MAX_LENGTHS];
	size_t length_count;
	/* sleep until each gradient is ready, instead of calling
	 * cohort_reducer_progress() while waiting */
	bool sleeps;
};

/* ---- cases ------------------------------------------------------------ */

struct bench_case {
	const char *title;
	char mode[32]; /* name of the case in the table */
	/* number of its set; the cases of a set are next to each other */
	size_t set;
	bool rewrites;
	bool is_checked;
	size_t bytes; /* bytes of data, counted as in nccl-tests */

	/* The following members are set for collectives. */
	enum op_kind kind;
	enum bench_path path;
	bool in_place; /* the result replaces the sent data */
	int type;
	int op; /* -1 if the collective has no reduction */
	size_t count;

	int variant; /* enum list_method, or enum overlap_part */
	/* Length of a backward pass. Rank 0 sets it between two barriers. */
	double length_ns;

	/* Operations per round, or 0 while not known. Written by rank 0's
	 * thread between two barriers. */
	uint64_t iterations;

	/* Time of each round. Written by rank 0's thread, and read by the main
	 * thread after the run. */
	double *times_ns;

	/* Number of wrong elements. Atomic: each rank's thread adds to it. */
	atomic_ullong wrong;
};

/* The list of tensors in the file that --shapes names */
struct bench_shape {
	size_t count;
	size_t at; /* offset in a rank's memory, in bytes */
};

struct bench_shapes {
	struct bench_shape *all;
	size_t n;
	size_t values; /* number of elements of all tensors */
	size_t room;   /* size of a rank's memory for all tensors, in bytes */
	size_t most;   /* number of elements of the largest tensor */
};

/* ---- the ranks -------------------------------------------------------- */

/* A rank of a measurement. It belongs to the rank's thread; rank 0's thread
 * reads parts of it between two barriers. */
struct lane {
	struct bench *bench;
	struct cohort_comm *comm;
	int rank;
	/* number of arrivals that complete this rank's next barrier */
	uint64_t met;
	struct bench_case *c;
	char *buffer[2];
	/* Host memory, or NULL if the host can access the buffers */
	char *staging;
	char *plain[2];          /* host memory for PATH_HOST, or NULL */
	bool is_plain;           /* the current case uses host memory */
	struct pattern pattern;  /* pattern of the data that the rank sends */
	struct pattern expected; /* pattern of one block of the result */

	const void *send;
	void *recv;
	cudaStream_t stream;
	/* for PATH_RAW: native communicator, valid between
	 * cohort_comm_native_enter() and _leave() */
	ncclComm_t native;
	uint64_t ticket; /* ticket of the newest operation */
	size_t block;    /* size of a block, in bytes */
	/* numbers of blocks that a rank sends and receives; with a root, the
	 * numbers of the root */
	size_t sends, receives;

	/* Used by average and overlap */
	struct cohort_tensor *tensors;

	/* Used by average */
	struct cohort_tensor *buckets;
	size_t bucket_count;

	/* Used by overlap */
	struct cohort_reducer *reducer;

	/* Written by the rank's thread, and read by rank 0's thread between two
	 * barriers */
	double ns; /* time per operation, if operations run back to back */
	/* start of each operation, if buffers are rewritten */
	uint64_t *begins;
	uint64_t *ends; /* end of each operation, if buffers are rewritten */
};

/* Number of groups, which differ in how they launch lists of tensors */
#define BENCH_GROUPS 3

struct bench {
	const struct bench_options *options;
	const struct bench_operation *operation;
	int cores;

	/* Array that the operation's plan() has allocated */
	struct bench_case *cases;
	size_t count;
	struct bench_shapes shapes;
	size_t bytes; /* size of a lane's buffer */
	int buffers;  /* number of buffers of each lane */
	bool needs_plain;
	/* buckets of the reducer; written by rank 0 between two barriers */
	int buckets;

	/* The workers of group 0 are the lanes' threads. */
	struct cohort_group *groups[BENCH_GROUPS];
	struct cohort_comm *comms[BENCH_GROUPS][COHORT_MAX_RANKS];
	const struct platform *platform;
	int kind;   /* enum cohort_platform of the groups */
	int launch; /* enum cohort_launch of the groups */
	struct lane *lanes[COHORT_MAX_RANKS];
	bool is_abandoned; /* an abandoned thread may still use the lanes */

	/* bar_width, drawn_ns and scratch are owned by rank 0's thread during
	 * the run, and by the main thread afterwards. */
	/* width of the progress bar, or 0 without a terminal */
	int bar_width;
	uint64_t drawn_ns; /* time at which the bar was drawn */
	double *scratch;   /* scratch memory for quantiles */

	/* Atomic. Total number of arrivals at barriers, of all ranks; never
	 * reset. */
	_Alignas(64) atomic_ullong arrived;

	/* Atomic. Set by the first rank that fails, which then writes the error
	 * message (complaint). Read by the other ranks, and by the main thread
	 * after the run. */
	_Alignas(64) atomic_bool has_failed;
	char complaint[1200];
};

/* ---- operations ------------------------------------------------------- */

struct row;

/* The functions of an operation. The rank's thread calls those that take a
 * lane. If one of them stores an error message and returns false, the
 * measurement ends on all ranks. */
struct bench_operation {
	double round_ns;      /* intended time of a case in a round */
	uint64_t least, most; /* limits on the number of operations per round */
	size_t row;           /* number of cases in a row of the report */
	const char *legend;   /* explanation of the table, or NULL */

	/* Make the cases. Return an enum cli_exit; if it is not CLI_OK, an
	 * error was printed. */
	int (*plan)(struct bench *b);

	/* The functions from open_groups to fill, and describe and
	 * print_last_lines, may be NULL. */
	int (*open_groups)(struct bench *b); /* returns an enum cohort_status */
	bool (*open)(struct lane *lane);     /* prepare the rank */
	void (*close)(struct lane *lane);    /* free the rank's resources */
	bool (*enter)(struct lane *lane);    /* prepare the current case */
	void (*leave)(struct lane *lane);    /* end the current case */
	bool (*fill)(struct lane *lane, int byte); /* set the case's memory */

	bool (*rewrite)(struct lane *lane); /* rewrite the data to send */
	bool (*operate)(struct lane *lane); /* run an operation, and wait */
	bool (*compare)(struct lane *lane); /* count wrong elements */
	void (*describe)(const struct bench *b); /* print above the table */

	/* Write the columns of the report row that starts with case @c. */
	void (*report)(struct row *row, const struct bench *b,
	               const struct bench_case *c);
	void (*print_last_lines)(const struct bench *b);
};

extern const char *const bench_method_names[LIST_METHODS];

/* Return the kind of a collective, given its name or that of its program in
 * nccl-tests, such as "all_reduce_perf" and "alltoall_perf", or -1. */
int collective_find(const char *name);

extern const struct bench_operation bench_collectives, bench_average,
	bench_overlap;

/* ---- bench_options.c -------------------------------------------------- */

/* Read the command line. Return true if the benchmark must run. Otherwise print
 * the help or an error, store an enum cli_exit, and return false. */
bool bench_parse(int argc, char **argv, struct bench_options *options,
                 int *status_out);

/* ---- rounds.c --------------------------------------------------------- */

/* Allocate zeroed memory for @n elements. If there is no memory, end the
 * program, so the ranks' threads must not call this. */
void *bench_allocate(size_t n, size_t size);

/* Create a measurement with all of its cases. Return NULL after printing an
 * error. */
struct bench *bench_create(const struct bench_options *options, int cores);

/* Destroy a measurement, unless an abandoned thread may still use it. */
void bench_destroy(struct bench *b);

/* Measure all cases. Return an enum cli_exit; if it is not CLI_OK, an error was
 * printed. */
int bench_measure(struct bench *b);

/* Open group @i, which launches lists as @many says (enum cohort_many). */
int bench_open_group(struct bench *b, int i, int many);

/* Return @array, which has @n elements, with room for one more. */
void *bench_grow(void *array, size_t n, size_t size);

void bench_add_case(struct bench *b, const struct bench_case *c);

/* Time @n operations of the current case. Only rank 0's @ns_out is set. */
bool lane_time(struct lane *lane, uint64_t n, double *ns_out);

/* Wait until all ranks have called this function. Return false if a rank has
 * failed or the group has ended. */
bool lane_barrier(struct lane *lane);

/* Report that @what has failed, and end all groups. Return false. */
bool lane_fail(struct lane *lane, const char *what, const char *why);

/* Return the address at which the host accesses the contents of the buffer
 * @at. */
char *lane_host(const struct lane *lane, char *at);

/* Copy between a buffer and its host memory, unless they are the same. */
bool lane_copy(struct lane *lane, void *to, const void *from, size_t bytes);

/* Count wrong elements of the current case. Relaxed, because the number is read
 * after the last barrier of the case. */
static inline void lane_add_wrong(struct lane *lane, size_t wrong)
{
	atomic_fetch_add_explicit(&lane->c->wrong, wrong, memory_order_relaxed);
}

/* ---- gradients.c ------------------------------------------------------ */

/* Read the list of tensors, whose elements have @size bytes. Return an enum
 * cli_exit. If it is not CLI_OK, an error that names the line was printed. */
int gradients_read(struct bench *b, size_t size);

/* Create the lane's tensors, at the addresses that @place returns, and its
 * patterns. */
bool gradients_place(struct lane *lane,
                     char *(*place)(struct lane *lane, size_t i));
bool gradients_rewrite(struct lane *lane);

bool gradients_compare(struct lane *lane);

/* ---- results.c -------------------------------------------------------- */

/* Return the quantile @place of a case's times, in microseconds. */
double bench_time(const struct bench *b, const struct bench_case *c,
                  double place);

unsigned long long bench_wrong(const struct bench_case *c, size_t n);
void bench_print_head(const struct bench *b);

void bench_print_rows(const struct bench *b, size_t first, size_t n);
void bench_json(const struct bench *b);

/*
 * Write a column of a row. In a table the column has @title and is @width
 * characters wide; in a JSON object it is the member @key. If @title or @key is
 * NULL, the column is omitted there. A figure has up to @digits decimals, and
 * may be NaN.
 */
void row_text(struct row *row, int width, const char *title, const char *key,
              const char *text);
void row_number(struct row *row, int width, const char *title, const char *key,
                long long value);
void row_figure(struct row *row, int width, int digits, const char *title,
                const char *key, double value);

void row_times(struct row *row, const struct bench *b,
               const struct bench_case *c);

/* Write the column with the number of wrong elements in @n cases. A table gets
 * this column only if @is_column is true. */
void row_wrong(struct row *row, const struct bench *b,
               const struct bench_case *c, size_t n, bool is_column);

#endif
