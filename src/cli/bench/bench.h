/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

/*
 * cohort bench: its options, its cases and their results
 *
 * The options (options.c) make a plan of cases (plan.c): each case is one call with one
 * size in one mode.  The ranks' threads measure all cases in every round (run.c,
 * lane.c), and the results are printed at the end (report.c, plot.c).
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/bench/call.h"
#include "cli/common/options.h"

/* How operations follow each other in the timed part. */
enum bench_pace {
	PACE_LOOP,    /* one, then wait, again and again */
	PACE_REWRITE, /* one, then wait; before each the ranks rewrite their
	                 buffers and meet, outside the timed part */
	BENCH_PACES,
};

/* How operations are made. */
enum bench_path {
	PATH_API,  /* cohort_*() */
	PATH_RAW,  /* NCCL's functions in the platform's table */
	PATH_HOST, /* cohort_*_host(), with plain memory */
	BENCH_PATHS,
};

struct bench_mode {
	enum bench_pace pace;
	enum bench_path path;
	bool in_place; /* the result replaces what is sent */
};

#define BENCH_MAX_SIZES 256

struct bench_options {
	const struct collective *collective; /* NULL: all */
	int ranks;                           /* 0: not given */
	int platform;                        /* enum cohort_platform */
	int launch;                          /* enum cohort_launch */
	int type;                            /* -1: all */
	int op;                              /* -1: all */
	int root;
	size_t sizes[BENCH_MAX_SIZES]; /* in bytes */
	size_t size_count;
	uint64_t rounds;
	uint64_t iterations; /* per round; 0: as many as take AUTO_NS */
	uint64_t warm_up;    /* before the timed ones */
	bool paces[BENCH_PACES];
	bool paths[BENCH_PATHS];
	bool in_place;
	bool out_of_place;
	bool check;
	bool pin;
	bool json;
	const char *plot; /* the file, or NULL */
};

/* The name as on the command line; NULL if @op is -1. */
const char *bench_type_name(int type);
const char *bench_op_name(int op);

/* Figures of a case, in us and GB/s. */
struct bench_figures {
	double time_us; /* the median */
	double p5_us;
	double p95_us;
	double algbw;
	double busbw;
};

/* A case: one line of the table. */
struct bench_case {
	const struct collective *collective;
	struct bench_mode mode;
	int type;
	int op; /* -1: it has no operation */
	size_t count;
	size_t bytes; /* as nccl-tests counts them */

	/* Written by rank 0's thread, then read by the main thread. */
	double *times_ns; /* of each round */
	uint64_t iterations;

	/* Atomic; added to by each rank's thread, read by the main thread. */
	atomic_ullong wrong;

	struct bench_figures figures; /* once the case is measured */
};

struct bench_plan {
	const struct bench_options *options;
	struct bench_case *cases;
	size_t count;
	size_t bytes;     /* size of the largest buffer */
	bool needs_two;   /* some case needs two buffers per rank */
	bool needs_plain; /* some case calls with plain host memory */
	int platform;     /* the platform that it ran on */
	int launch;       /* how ranks launched; written by rank 0's thread */
	int cores;
};

/* Read the command line.  An enum cli_exit; @help_out is true if the help was
 * printed. */
int bench_parse(int argc, char **argv, struct bench_options *options,
                bool *help_out);

/* Print the help on stdout. */
void bench_help(void);

/* Make the cases that the options ask for.  False if there is no memory;
 * bench_plan_fini() must be called then, too. */
bool bench_plan_init(struct bench_plan *plan,
                     const struct bench_options *options);
void bench_plan_fini(struct bench_plan *plan);

/* Parse the name of a type for -d, or of a reduction for -o; -1 means all.  An
 * enum cli_exit, after a complaint. */
int bench_parse_type(const char *text, int *type_out);
int bench_parse_op(const char *text, int *op_out);

/* Read the value of @option into an int by one of these; but "all" is refused. */
int bench_read_one(const char *command, const struct cli_option *option,
                   const char *text, int (*parse)(const char *text, int *out));

/* Give the host platform at least as many devices as @ranks needs, which must
 * happen before it is used; then probe the platform into @info.  An enum cli_exit,
 * after a complaint. */
int bench_settle_devices(int platform, int ranks,
                         struct cohort_platform_info *info);

/* The number of cores that the process may use. */
int bench_count_cores(void);

/* The commands cohort bench average and cohort bench overlap. */
int average_main(int argc, char **argv);
int overlap_main(int argc, char **argv);

/* Measure all cases.  An enum cli_exit, after a complaint. */
int bench_measure(struct bench_plan *plan);

/* A mode's name: "loop", "loop raw", "rewrite out-of-place"; returns @text. */
#define BENCH_MODE_TEXT 64
const char *bench_mode_text(const struct bench_mode *mode,
                            char text[BENCH_MODE_TEXT]);

/* The quantile @place, from 0 to 1, of @n values, n > 0, which are sorted here.
 * Between two values it is interpolated. */
double bench_quantile(double *values, size_t n, double place);

/* Compute the figures of all cases; to be called once. */
void bench_evaluate(struct bench_plan *plan);

/* How many elements of results were wrong. */
unsigned long long bench_wrong(const struct bench_case *c);

/* Print on stdout: what is going to be measured; then the results. */
void bench_print_head(const struct bench_plan *plan);
void bench_print(const struct bench_plan *plan);
void bench_json(const struct bench_plan *plan);

/* Check that there is a gnuplot; write a text in its quotes; draw the figure.  An
 * enum cli_exit, after a complaint. */
int bench_plot_check(void);
void bench_plot_quoted(FILE *out, const char *text);
int bench_plot(const struct bench_plan *plan);

/* The command: @argv[0] is its name, an enum cli_exit is returned. */
int bench_main(int argc, char **argv);

#endif
