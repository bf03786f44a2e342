/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_BENCH_H
#define CLI_BENCH_BENCH_H

/*
 * cohort bench: what is asked for, and what is measured
 *
 * The options (options.c) make a plan of cases (plan.c), each one call
 * with one size in one mode.  The ranks' threads measure all of them in every round
 * (run.c, lane.c); what came out is shown at the end (report.c,
 * plot.c).
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
	PACE_REWRITE, /* the same, and before each the ranks rewrite their
	                 buffers and meet, outside the timed part */
	PACE_QUEUED,  /* several, then one wait */
	PACE_ENQUEUE, /* likewise, but the wait is outside the timed part */
	PACE_COMPUTE, /* one, then wait, each after some work of the rank's own,
	                 and that is timed, too; the limit is the work alone */
	BENCH_PACES,
};

/* Who carries operations out. */
enum bench_path {
	PATH_API,    /* cohort_*() */
	PATH_RAW,    /* NCCL's functions of the platform's table */
	PATH_DIRECT, /* the ranks' threads, by the host platform's arithmetic, with
	                a meeting before and one after it */
	PATH_HOST,  /* cohort_*_host(), with plain memory */
	PATH_TIMED, /* the same with a timeout */
	BENCH_PATHS,
};

/* True of calls that wait by themselves. */
static inline bool bench_path_waits(enum bench_path path)
{
	return path == PATH_HOST || path == PATH_TIMED;
}

struct bench_mode {
	enum bench_pace pace;
	enum bench_path path;
	bool in_place; /* what is sent is where the result goes */
};

#define BENCH_MAX_SIZES 256

struct bench_options {
	const struct collective *collective; /* NULL: all */
	int ranks;                           /* 0: not given */
	int platform;                        /* enum cohort_platform */
	int launch;                          /* enum cohort_launch */
	int type;                            /* -1: all */
	int op;                              /* likewise */
	int root;
	size_t sizes[BENCH_MAX_SIZES]; /* in bytes */
	size_t size_count;
	uint64_t rounds;
	uint64_t iterations; /* per round; 0: as many as take a while */
	uint64_t warm_up;    /* before those */
	bool paces[BENCH_PACES];
	uint64_t depth[BENCH_PACES]; /* operations per wait */
	uint64_t compute_us;         /* of work per operation, on average */
	bool unbalanced;             /* rank r has r + 1 shares of it */
	bool paths[BENCH_PATHS];
	bool in_place;
	bool out_of_place;
	bool limit;
	bool check;
	bool pin;
	bool json;
	const char *plot; /* the file, or NULL */
};

/* Spelled as on the command line; of an @op that is -1 NULL. */
const char *bench_type_name(int type);
const char *bench_op_name(int op);

/* Of the rounds, in us and GB/s. */
struct bench_figures {
	double time_us; /* the median */
	double p5_us;
	double p95_us;
	double algbw;
	double busbw;
	double of_limit; /* the limit's time by this one's; NaN: not asked */
};

/* One line of the table. */
struct bench_case {
	const struct collective *collective;
	struct bench_mode mode;
	int type;
	int op; /* -1: has none */
	size_t count;
	size_t bytes; /* as nccl-tests counts them */

	/* By rank 0's thread, then by the main thread.  Of each round: */
	double *times_ns;
	double *limits_ns; /* of the same loads and stores; NULL: not asked */
	uint64_t iterations;
	uint64_t limit_iterations;

	/* Atomic; added to by each rank's thread, read by the main thread. */
	atomic_ullong wrong;

	struct bench_figures figures; /* once it is measured */
};

struct bench_plan {
	const struct bench_options *options;
	struct bench_case *cases;
	size_t count;
	size_t bytes;     /* of the largest buffer */
	bool needs_two;   /* buffers per rank */
	bool needs_plain; /* memory for calls with host memory */
	int platform;     /* that it ran on */
	int launch;       /* how ranks launched; by rank 0's thread */
	int cores;
};

/* Read the command line.  An enum cli_exit; @help_out: that was asked for, and
 * printed. */
int bench_parse(int argc, char **argv, struct bench_options *options,
                bool *help_out);

/* The help, on stdout. */
void bench_help(void);

/* The cases of the options.  False if there is no memory; bench_plan_fini() also
 * after that. */
bool bench_plan_init(struct bench_plan *plan,
                     const struct bench_options *options);
void bench_plan_fini(struct bench_plan *plan);

/* A type or a reduction by its name, as -d and -o have it; -1: all.  An enum cli_exit,
 * after a complaint. */
int bench_parse_type(const char *text, int *type_out);
int bench_parse_op(const char *text, int *op_out);

/* Read the value of @option into an int by one of these; but "all" is refused. */
int bench_read_one(const char *command, const struct cli_option *option,
                   const char *text, int (*parse)(const char *text, int *out));

/* Of the host platform as many devices as @ranks need, at least; to be said before
 * anything asks it.  @info: of the platform, which is then known.  An enum cli_exit,
 * after a complaint. */
int bench_settle_devices(int platform, int ranks,
                         struct cohort_platform_info *info);

/* Cores that the process may use. */
int bench_count_cores(void);

/* cohort bench average, and overlap. */
int average_main(int argc, char **argv);
int overlap_main(int argc, char **argv);

/* Measure them all.  An enum cli_exit, after a complaint. */
int bench_measure(struct bench_plan *plan);

/* A mode's name: "loop", "queued 16 raw", "rewrite out-of-place"; returns @text. */
#define BENCH_MODE_TEXT 64
const char *bench_mode_text(const struct bench_options *options,
                            const struct bench_mode *mode,
                            char text[BENCH_MODE_TEXT]);

/* The one of @n values, n > 0, that is at @place, from 0 to 1; they are sorted.
 * Between two of them it is between their values. */
double bench_quantile(double *values, size_t n, double place);

/* What came out, as figures.  Once. */
void bench_evaluate(struct bench_plan *plan);

/* Elements of results. */
unsigned long long bench_wrong(const struct bench_case *c);

/* On stdout. */
void bench_print(const struct bench_plan *plan);
void bench_json(const struct bench_plan *plan);

/* Whether there is a gnuplot; a text in its quotes; and a figure by it.  An enum
 * cli_exit, after a complaint. */
int bench_plot_check(void);
void bench_plot_quoted(FILE *out, const char *text);
int bench_plot(const struct bench_plan *plan);

/* The command: @argv[0] is its name, an enum cli_exit is returned. */
int bench_main(int argc, char **argv);

#endif
