/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

/*
 * cohort bench: its options, its cases, and one runner and one report for all
 * of them
 *
 * An operation is what the command measures: collectives (sweep.c), the lists
 * of gradients of cohort bench average (average.c), or the steps of cohort
 * bench overlap (overlap.c).  It makes a list of cases from the options
 * (bench_options.c).  The ranks' threads measure all cases in every round
 * (rounds.c), and the results are printed at the end (results.c, plot.c).
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "base/json.h"
#include "cli/bench/data.h"
#include "cli/common/progress.h"
#include "core/op.h"
#include "platform/platform.h"

/* ---- options ---------------------------------------------------------- */

/* How operations of collectives are made. */
enum bench_path {
	PATH_API,  /* cohort_*() */
	PATH_RAW,  /* NCCL's functions in the platform's table */
	PATH_HOST, /* cohort_*_host(), with plain memory */
	BENCH_PATHS,
};

/* Where a block of the result comes from. */
enum bench_source {
	SOURCE_FOLD,     /* the reduction of all ranks' blocks */
	SOURCE_ROOT,     /* the root's block */
	SOURCE_EACH,     /* block r is rank r's */
	SOURCE_PREVIOUS, /* the previous rank's block */
};

/* A collective that can be measured. */
struct collective {
	const char *name;
	/* OP_SEND: to the next rank, from the previous one. */
	enum op_kind kind;
	enum bench_source source;
};

/* How cohort bench average reduces a list. */
enum list_method {
	METHOD_ALONE, /* one call for each tensor, then one wait */
	METHOD_GROUP, /* the call for lists, as one native group */
	METHOD_FLAT,  /* the call for lists, which packs into flat buffers */
	/* The gradients live in flat buffers: one call for each. */
	METHOD_VIEWS,
	METHOD_AUTO, /* the call for lists, with its defaults */
	LIST_METHODS,
};

/* The length of a backward pass. */
struct overlap_length {
	double value;
	bool is_factor; /* a multiple of the averaging; else milliseconds */
};

#define BENCH_MAX_SIZES 256
#define BENCH_MAX_LENGTHS 16

struct bench_options {
	const struct bench_operation *operation;
	int ranks;    /* 0 if not given */
	int platform; /* enum cohort_platform */
	int launch;   /* enum cohort_launch */
	int type;     /* -1 for all */
	int op;       /* -1 for all */
	uint64_t rounds;
	uint64_t iterations; /* per round; 0 for as many as take round_ns */
	uint64_t warm_up;    /* before the timed ones */
	bool rewrites;       /* measure with buffers that are rewritten */
	bool check;
	bool pin;
	bool json;
	const char *plot; /* the file, or NULL */

	/* Of collectives. */
	const struct collective *collective; /* NULL for all */
	int root;
	size_t sizes[BENCH_MAX_SIZES]; /* in bytes */
	size_t size_count;
	bool loops; /* measure with buffers that stay as they are */
	bool paths[BENCH_PATHS];
	bool in_place;
	bool out_of_place;

	/* Of average and overlap. */
	const char *shapes; /* the file with the list of tensors */

	/* Of average. */
	/* The most elements of a tensor; 0 for any number. */
	uint64_t max_count;
	bool methods[LIST_METHODS];

	/* Of overlap. */
	uint64_t first_bytes; /* 0 for the reducer's default */
	uint64_t bucket_bytes;
	bool full_buckets;
	struct overlap_length lengths[BENCH_MAX_LENGTHS];
	size_t length_count;
	bool sleeps; /* until each gradient is ready, instead of calling
	                cohort_reducer_progress() */
};

/* ---- cases ------------------------------------------------------------ */

/* A case: what is timed in each round. */
struct bench_case {
	const char *title; /* of the table that it belongs to */
	char mode[32];     /* its name in that table */
	bool rewrites;
	bool is_checked;
	size_t bytes; /* as nccl-tests counts them */

	/* Of a collective. */
	const struct collective *collective;
	enum bench_path path;
	bool in_place; /* the result replaces what is sent */
	int type;
	int op; /* -1 if it has no operation */
	size_t count;

	int variant; /* enum list_method, or enum overlap_part */
	/* Of a backward pass; set by rank 0 before a meeting. */
	double length_ns;

	/* Written by rank 0's thread between two meetings. */
	uint64_t iterations; /* of a round; 0 until that is known */

	/* Written by rank 0's thread, then read by the main thread. */
	double *times_ns; /* of each round */

	/* Atomic; added to by each rank's thread, read by the main thread. */
	atomic_ullong wrong;
};

/* A list of tensors, from the file that --shapes names. */
struct bench_shape {
	size_t count;
	size_t at; /* its offset in a rank's memory, in bytes */
};

struct bench_shapes {
	struct bench_shape *all;
	size_t n;
	size_t values; /* of all tensors */
	size_t room;   /* bytes of a rank's memory with all tensors */
	size_t most;   /* values of the largest tensor */
};

/* ---- the ranks -------------------------------------------------------- */

/* A rank of a measurement.  Belongs to the rank's thread; others read some of
 * it between two meetings. */
struct lane {
	struct bench *bench;
	struct cohort_comm *comm;
	int rank;
	uint64_t met; /* how many arrivals complete this rank's next meeting */
	struct bench_case *c; /* the current case */
	char *buffer[2];
	/* Host memory, if device memory cannot be written; else NULL. */
	char *staging;
	char *plain[2]; /* host memory beside the two buffers, or NULL */
	bool is_plain;  /* the current case uses it, or host memory anyway */
	struct pattern pattern;  /* of what the rank sends */
	struct pattern expected; /* of one block of the result */

	/* Of a collective. */
	const void *send;
	void *recv;
	cudaStream_t stream;
	ncclComm_t native; /* inside cohort_comm_native_enter(), for PATH_RAW */
	uint64_t ticket;   /* of the newest operation */
	size_t block;      /* bytes of one block */
	size_t sends,
		receives; /* blocks of a rank; of the root, if there is one */

	/* Of average and overlap. */
	struct cohort_tensor *tensors;

	/* Of average. */
	struct cohort_tensor *buckets;
	size_t bucket_count;

	/* Of overlap. */
	struct cohort_reducer *reducer;

	/* Read by rank 0's thread between two meetings. */
	double ns;        /* per operation, back to back */
	uint64_t *begins; /* of each operation, if buffers are rewritten */
	uint64_t *ends;   /* of each operation, if buffers are rewritten */
};

/* Groups that differ in how they launch lists. */
#define BENCH_GROUPS 3

struct bench {
	const struct bench_options *options;
	const struct bench_operation *operation;
	int cores;

	/* Made by the operation. */
	struct bench_case *cases;
	size_t count;
	struct bench_shapes shapes;
	size_t bytes; /* size of a lane's largest buffer */
	int buffers;  /* of each lane */
	bool needs_plain;
	int buckets; /* of the reducer; written by rank 0 between meetings */

	/* The first group's workers are the lanes' threads. */
	struct cohort_group *groups[BENCH_GROUPS];
	struct cohort_comm *comms[BENCH_GROUPS][COHORT_MAX_RANKS];
	const struct platform *platform;
	int kind;   /* of the platform, enum cohort_platform */
	int launch; /* how ranks launch, enum cohort_launch */
	struct lane *lanes[COHORT_MAX_RANKS];
	bool is_abandoned; /* a thread may still use the lanes */

	/* Owned by rank 0's thread, then by the main thread. */
	struct progress progress;
	double *scratch; /* for quantiles */

	/* Atomic; counts arrivals of all ranks at meetings, never reset. */
	_Alignas(64) atomic_ullong arrived;

	/* Atomic; set once by the first rank that fails, which then writes the
	 * complaint; read by the others, and by the main thread after the
	 * run. */
	_Alignas(64) atomic_bool has_failed;
	char complaint[1200];
};

/* ---- operations ------------------------------------------------------- */

struct row;
struct plot;

/* Functions on a lane are called by the rank's thread, and return false after a
 * complaint that ends the measurement on all ranks. */
struct bench_operation {
	const char *command; /* its name in complaints */
	double round_ns; /* how long a round of a case takes, within limits */
	uint64_t least, most; /* operations per round of a case */
	size_t turn; /* cases that take turns at being first; 0 for all */
	size_t row;  /* cases that are one row of the report */
	const char *legend; /* of the table, or NULL */

	/* Make the cases.  An enum cli_exit, after a complaint. */
	int (*plan)(struct bench *b);

	/* Open further groups, or NULL.  An enum cohort_status. */
	int (*open_groups)(struct bench *b);

	/* Prepare the rank, or NULL; and free what its thread alone can free,
	 * or NULL. */
	bool (*open)(struct lane *lane);
	void (*close)(struct lane *lane);

	/* Prepare for the current case, or NULL; and end that, or NULL. */
	bool (*enter)(struct lane *lane);
	void (*leave)(struct lane *lane);

	/* Set all memory of the case to @byte, or NULL. */
	bool (*fill)(struct lane *lane, int byte);

	/* Rewrite what the rank sends. */
	bool (*rewrite)(struct lane *lane);

	/* Make one operation, and wait for it. */
	bool (*operate)(struct lane *lane);

	/* Count wrong elements of the result. */
	bool (*compare)(struct lane *lane);

	/* Print a line above the table, or NULL; put the columns of the row
	 * that begins with the case @c; print the last lines, or NULL; and draw
	 * the figure, or NULL. */
	void (*describe)(const struct bench *b);
	void (*report)(struct row *row, const struct bench *b,
	               const struct bench_case *c);
	void (*conclude)(const struct bench *b);
	void (*plot)(struct plot *plot, const struct bench *b);
};

extern const char *const bench_method_names[LIST_METHODS];

extern const struct collective collectives[];
extern const size_t collective_count;

/* Find a collective by its name or by that of its program of nccl-tests, as
 * "all_reduce_perf" and "alltoall_perf"; NULL if there is none. */
const struct collective *collective_find(const char *name);

extern const struct bench_operation bench_collectives, bench_average,
	bench_overlap;

/* ---- bench_options.c -------------------------------------------------- */

/* Read the command line.  An enum cli_exit; @help_out is true if the help was
 * printed. */
int bench_parse(int argc, char **argv, struct bench_options *options,
                bool *help_out);

/* ---- rounds.c --------------------------------------------------------- */

/* Memory of zeros for @n elements; ends the command if there is none.  Not for
 * the ranks' threads. */
void *bench_allocate(size_t n, size_t size);

/* Make a measurement with all of its cases.  NULL after a complaint. */
struct bench *bench_create(const struct bench_options *options, int cores);

/* Keeps what an abandoned thread may still use. */
void bench_destroy(struct bench *b);

/* Measure all cases.  An enum cli_exit, after a complaint. */
int bench_measure(struct bench *b);

/* Open the group @i, which launches lists as @many says (enum cohort_many). */
int bench_open_group(struct bench *b, int i, int many);

/* Return @array with room for element @n. */
void *bench_grow(void *array, size_t n, size_t size);

/* Add a case, with room for its times. */
void bench_add_case(struct bench *b, const struct bench_case *c);

/* Time @n operations of the current case; only rank 0 gets the time. */
bool lane_time(struct lane *lane, uint64_t n, double *ns_out);

/* Wait for all ranks; false if one has failed, or the group has ended. */
bool lane_meet(struct lane *lane);

/* Complain that @what has failed, and end all groups.  Returns false. */
bool lane_fail(struct lane *lane, const char *what, const char *why);

/* Where the host writes or reads what belongs at @at; and copy between the two,
 * which does nothing if they are the same. */
char *lane_host(const struct lane *lane, char *at);
bool lane_copy(struct lane *lane, void *to, const void *from, size_t bytes);

/* Relaxed: read after the threads have ended. */
static inline void lane_add_wrong(struct lane *lane, size_t wrong)
{
	atomic_fetch_add_explicit(&lane->c->wrong, wrong, memory_order_relaxed);
}

/* ---- gradients.c ------------------------------------------------------ */

/* Read the list of tensors whose elements have @size bytes.  An enum cli_exit,
 * after a complaint with the line's number. */
int gradients_read(struct bench *b, size_t size);

/* Make the lane's tensors, which are where @place says, and its patterns. */
bool gradients_place(struct lane *lane,
                     char *(*place)(struct lane *lane, size_t i));

/* Rewrite all gradients; count wrong elements of their reduction. */
bool gradients_rewrite(struct lane *lane);
bool gradients_compare(struct lane *lane);

/* ---- results.c -------------------------------------------------------- */

/* The quantile @place of a case's times, in us. */
double bench_time(const struct bench *b, const struct bench_case *c,
                  double place);

/* How many elements of the results of @n cases were wrong. */
unsigned long long bench_wrong(const struct bench_case *c, size_t n);

/* Print on stdout: what is going to be measured; then the results. */
void bench_print_head(const struct bench *b);
void bench_print(const struct bench *b);
void bench_json(const struct bench *b);

/*
 * Put a column into a row: into a table under @title, @width characters wide,
 * and into an object as @key; NULL leaves it out there.  A figure is printed
 * with up to @digits decimals, and may be NaN.
 */
void row_text(struct row *row, int width, const char *title, const char *key,
              const char *text);
void row_number(struct row *row, int width, const char *title, const char *key,
                long long value);
void row_figure(struct row *row, int width, int digits, const char *title,
                const char *key, double value);

/* The time of a case, with its quantiles. */
void row_times(struct row *row, const struct bench *b,
               const struct bench_case *c);

/* The wrong elements of @n cases, in a table if @is_column. */
void row_wrong(struct row *row, const struct bench *b,
               const struct bench_case *c, size_t n, bool is_column);

/* ---- plot.c ----------------------------------------------------------- */

/* Check that there is a gnuplot; draw the figure.  An enum cli_exit, after a
 * complaint. */
int bench_plot_check(void);
int bench_plot(const struct bench *b);

/* Begin a figure, with further commands for gnuplot; a line; and put a point on
 * it. */
void plot_begin(struct plot *plot, const char *title, const char *settings);
void plot_line(struct plot *plot, const char *style, const char *title);
void plot_point(struct plot *plot, double x, double y);

#endif
