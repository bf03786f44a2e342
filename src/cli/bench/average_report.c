/* SPDX-License-Identifier: Apache-2.0 */

/* The results of cohort bench average, as a table or as JSON. */

#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/bench/average.h"
#include "cli/bench/bench.h"
#include "cli/common/cli.h"

const char *average_method_name(int method)
{
	static const char *const names[] = { "alone", "group", "flat", "views",
		                             "auto" };

	return names[method];
}

/* ---- figures ---------------------------------------------------------- */

/* The median, over the rounds, of @a divided by @b; NaN if one of them is NULL. */
static double middle_ratio(const double *a, const double *b, double *scratch,
                           size_t rounds)
{
	if (!a || !b)
		return NAN;
	for (size_t i = 0; i < rounds; i++)
		scratch[i] = a[i] / b[i];
	return bench_quantile(scratch, rounds, 0.5);
}

static void evaluate(struct average *a, int method, double *scratch)
{
	const struct average_options *o = a->options;
	struct average_figures *f = &a->figures[method];
	const double *times = a->times_ns[method];
	size_t rounds = o->rounds;

	f->vs_alone =
		middle_ratio(a->times_ns[METHOD_ALONE], times, scratch, rounds);
	f->vs_flat =
		middle_ratio(a->times_ns[METHOD_FLAT], times, scratch, rounds);
	for (size_t i = 0; i < rounds; i++)
		scratch[i] = times[i];
	f->time_us = bench_quantile(scratch, rounds, 0.5) * 1e-3;
	f->p5_us = bench_quantile(scratch, rounds, 0.05) * 1e-3;
	f->p95_us = bench_quantile(scratch, rounds, 0.95) * 1e-3;
	f->busbw = (double)a->bytes / f->time_us * 1e-3 * 2.0 * (o->ranks - 1) /
	           o->ranks;
}

void average_evaluate(struct average *a)
{
	double scratch[AVERAGE_MAX_ROUNDS];

	for (int m = 0; m < METHODS; m++)
		if (a->options->methods[m])
			evaluate(a, m, scratch);
}

static unsigned long long wrong_of(const struct average *a, int method)
{
	/* Relaxed: the threads have ended. */
	return atomic_load_explicit(&a->wrong[method], memory_order_relaxed);
}

/* ---- table ------------------------------------------------------------ */

static void print_ratio(double value)
{
	if (isnan(value))
		printf(" %8s", "-");
	else
		printf(" %8.3f", value);
}

static void print_method(const struct average *a, int method)
{
	const struct average_figures *f = &a->figures[method];

	printf("%8s %11.1f %11.1f %11.1f %8.3f", average_method_name(method),
	       f->time_us, f->p5_us, f->p95_us, f->busbw);
	print_ratio(f->vs_alone);
	print_ratio(f->vs_flat);
	if (a->options->check)
		printf(" %5llu\n", wrong_of(a, method));
	else
		printf(" %5s\n", "-");
}

void average_print(const struct average *a)
{
	const struct average_options *o = a->options;

	printf("# cohort %s, %s platform, %d rank%s on %d core%s%s, %llu "
	       "rounds\n",
	       cohort_version(), cli_platform_name(a->platform), o->ranks,
	       o->ranks == 1 ? "" : "s", a->cores, a->cores == 1 ? "" : "s",
	       o->pin ? " (pinned)" : "", (unsigned long long)o->rounds);
	printf("# %s: %zu tensors of %s, %zu bytes, %s%s\n", o->shapes,
	       a->shapes.n, bench_type_name(o->type), a->bytes,
	       bench_op_name(o->op), o->rewrites ? ", rewritten" : "");
	printf("# times in us: median, 5th and 95th percentile of the rounds; "
	       "bandwidth in GB/s;\n"
	       "# vs: how many times as fast\n");
	printf("#%7s %11s %11s %11s %8s %8s %8s %5s\n", "method", "time", "p5",
	       "p95", "busbw", "vs alone", "vs flat", "wrong");
	for (int m = 0; m < METHODS; m++)
		if (o->methods[m])
			print_method(a, m);
}

/* ---- JSON ------------------------------------------------------------- */

void average_json(const struct average *a)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '[');
	for (int m = 0; m < METHODS; m++) {
		const struct average_figures *f = &a->figures[m];

		if (!a->options->methods[m])
			continue;
		json_open(&json, NULL, '{');
		json_string(&json, "method", average_method_name(m));
		json_uint(&json, "tensors", a->shapes.n);
		json_uint(&json, "bytes", a->bytes);
		json_double(&json, "time_us", f->time_us);
		json_double(&json, "busbw", f->busbw);
		json_double(&json, "vs_alone", f->vs_alone);
		json_double(&json, "vs_flat", f->vs_flat);
		if (a->options->check)
			json_uint(&json, "wrong", wrong_of(a, m));
		else
			json_null(&json, "wrong");
		json_close(&json, '}');
	}
	json_close(&json, ']');
	putchar('\n');
}
