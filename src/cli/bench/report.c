/* SPDX-License-Identifier: Apache-2.0 */

/* The results of cohort bench: a table like nccl-tests', or JSON. */

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "cli/bench/bench.h"
#include "cli/common/cli.h"

/* ---- figures ---------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_quantile(double *values, size_t n, double place)
{
	double at = place * (double)(n - 1);
	size_t below = (size_t)at;

	qsort(values, n, sizeof(*values), compare);
	if (below + 1 >= n)
		return values[n - 1];
	return values[below] +
	       (at - (double)below) * (values[below + 1] - values[below]);
}

static void evaluate(const struct bench_options *o, struct bench_case *c)
{
	struct bench_figures *f = &c->figures;
	double ns = bench_quantile(c->times_ns, o->rounds, 0.5);

	f->time_us = ns * 1e-3;
	f->p5_us = bench_quantile(c->times_ns, o->rounds, 0.05) * 1e-3;
	f->p95_us = bench_quantile(c->times_ns, o->rounds, 0.95) * 1e-3;
	f->algbw = (double)c->bytes / ns;
	f->busbw = f->algbw * c->collective->factor(o->ranks);
}

void bench_evaluate(struct bench_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		evaluate(plan->options, &plan->cases[i]);
}

/* ---- names ------------------------------------------------------------ */

const char *bench_type_name(int type)
{
	return cohort_type_name(type);
}

const char *bench_op_name(int op)
{
	static const char *const names[] = {
#define OP_NAME(name, value, text) [name] = text,
		COHORT_OP_LIST(OP_NAME)
#undef OP_NAME
	};

	return op < 0 ? NULL : names[op];
}

unsigned long long bench_wrong(const struct bench_case *c)
{
	/* Relaxed: the threads have ended. */
	return atomic_load_explicit(&c->wrong, memory_order_relaxed);
}

/* ---- table ------------------------------------------------------------ */

void bench_print_head(const struct bench_plan *plan)
{
	const struct bench_options *o = plan->options;

	printf("# cohort %s, %s platform, %d rank%s on %d core%s%s, ranks "
	       "launch %s, %llu rounds\n",
	       cohort_version(), cli_platform_name(plan->platform), o->ranks,
	       o->ranks == 1 ? "" : "s", plan->cores,
	       plan->cores == 1 ? "" : "s", o->pin ? " (pinned)" : "",
	       cli_launch_name(plan->launch), (unsigned long long)o->rounds);
	printf("# times in us: median, 5th and 95th percentile of the rounds; "
	       "bandwidths in GB/s\n");
	fflush(stdout); /* the rest takes a while */
}

static void print_title(const struct collective *c)
{
	printf("#\n# %s\n#%11s %11s %10s %5s %4s  %-22s %10s %10s %10s %7s %7s "
	       "%5s\n",
	       c->name, "bytes", "count", "type", "redop", "root", "mode",
	       "time", "p5", "p95", "algbw", "busbw", "wrong");
}

/* Print with four significant digits, and at most seven in all. */
static void print_time(double us)
{
	printf(" %10.*f", us < 10 ? 3 : us < 100 ? 2 : us < 1000 ? 1 : 0, us);
}

static void print_case(const struct bench_plan *plan,
                       const struct bench_case *c)
{
	const struct bench_options *o = plan->options;
	const struct bench_figures *f = &c->figures;
	const char *op = bench_op_name(c->op);
	char mode[BENCH_MODE_TEXT];

	printf("%12zu %11zu %10s %5s %4d  %-22s", c->bytes, c->count,
	       bench_type_name(c->type), op ? op : "none",
	       c->collective->has_root ? o->root : -1,
	       bench_mode_text(&c->mode, mode));
	print_time(f->time_us);
	print_time(f->p5_us);
	print_time(f->p95_us);
	printf(" %7.3f %7.3f", f->algbw, f->busbw);
	if (o->check)
		printf(" %5llu\n", bench_wrong(c));
	else
		printf(" %5s\n", "-");
}

/* The two lines with which nccl-tests ends. */
static void print_sums(const struct bench_plan *plan)
{
	unsigned long long wrong = 0;
	double busbw = 0.0;

	for (size_t i = 0; i < plan->count; i++) {
		wrong += bench_wrong(&plan->cases[i]);
		busbw += plan->cases[i].figures.busbw;
	}
	if (plan->options->check)
		printf("# Out of bounds values : %llu %s\n", wrong,
		       wrong ? "FAILED" : "OK");
	else
		printf("# Out of bounds values : not checked\n");
	printf("# Avg bus bandwidth    : %g\n",
	       plan->count ? busbw / (double)plan->count : 0.0);
}

void bench_print(const struct bench_plan *plan)
{
	const struct collective *title = NULL;

	for (size_t i = 0; i < plan->count; i++) {
		const struct bench_case *c = &plan->cases[i];

		if (c->collective != title)
			print_title(c->collective);
		title = c->collective;
		print_case(plan, c);
	}
	print_sums(plan);
}

/* ---- JSON ------------------------------------------------------------- */

static void json_case(struct json *json, const struct bench_options *o,
                      const struct bench_case *c)
{
	const struct bench_figures *f = &c->figures;
	char mode[BENCH_MODE_TEXT];

	json_open(json, NULL, '{');
	json_string(json, "collective", c->collective->name);
	json_string(json, "dtype", bench_type_name(c->type));
	json_string(json, "op", bench_op_name(c->op));
	json_int(json, "ranks", o->ranks);
	json_uint(json, "bytes", c->bytes);
	json_string(json, "mode", bench_mode_text(&c->mode, mode));
	json_double(json, "time_us", f->time_us);
	json_double(json, "p5_us", f->p5_us);
	json_double(json, "p95_us", f->p95_us);
	json_double(json, "algbw", f->algbw);
	json_double(json, "busbw", f->busbw);
	if (o->check)
		json_uint(json, "wrong", bench_wrong(c));
	else
		json_null(json, "wrong");
	json_close(json, '}');
}

void bench_json(const struct bench_plan *plan)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '[');
	for (size_t i = 0; i < plan->count; i++)
		json_case(&json, plan->options, &plan->cases[i]);
	json_close(&json, ']');
	putchar('\n');
}
