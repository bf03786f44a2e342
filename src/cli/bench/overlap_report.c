/* SPDX-License-Identifier: Apache-2.0 */

/* The results of cohort bench overlap: a table or JSON, and a figure. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/bench/bench.h"
#include "cli/bench/overlap.h"
#include "cli/common/cli.h"

/* ---- figures ---------------------------------------------------------- */

static double longer(double a, double b)
{
	return a > b ? a : b;
}

static void evaluate(struct overlap_case *c, size_t rounds)
{
	double ratios[OVERLAP_MOST_ROUNDS], apart[OVERLAP_MOST_ROUNDS];
	const double *backward = c->ns[PART_BACKWARD], *comm = c->ns[PART_COMM];

	for (size_t i = 0; i < rounds; i++) {
		ratios[i] = c->ns[PART_STEP][i] / longer(backward[i], comm[i]);
		apart[i] = c->ns[PART_STEP][i] / (backward[i] + comm[i]);
	}
	c->ratio = bench_quantile(ratios, rounds, 0.5);
	c->p95 = bench_quantile(ratios, rounds, 0.95);
	c->apart = bench_quantile(apart, rounds, 0.5);
	for (int part = 0; part < PARTS; part++)
		c->us[part] = bench_quantile(c->ns[part], rounds, 0.5) * 1e-3;
}

void overlap_evaluate(struct overlap *o)
{
	for (size_t i = 0; i < o->options->n; i++)
		evaluate(&o->cases[i], o->options->rounds);
}

/* ---- table ------------------------------------------------------------ */

void overlap_print(const struct overlap *o)
{
	const struct overlap_options *p = o->options;

	printf("# cohort %s, %s platform, %d rank%s on %d core%s%s, %llu "
	       "rounds\n",
	       cohort_version(), cli_platform_name(o->platform), p->ranks,
	       p->ranks == 1 ? "" : "s", o->cores, o->cores == 1 ? "" : "s",
	       p->pin ? " (pinned)" : "", (unsigned long long)p->rounds);
	printf("# %s: %zu tensors of %s, %zu bytes, in %d bucket%s, %s\n",
	       p->shapes, o->shapes.n, bench_type_name(p->type), o->bytes,
	       o->buckets, o->buckets == 1 ? "" : "s",
	       p->sleeps ? "sleeping" : "making progress");
	printf("# times in us: medians of the rounds; by max: the step by the "
	       "longer of the\n"
	       "# others, and its 95th percentile; by sum: by both\n");
	printf("#%11s %12s %12s %8s %8s %8s\n", "backward", "comm", "step",
	       "by max", "p95", "by sum");
	for (size_t i = 0; i < p->n; i++) {
		const struct overlap_case *c = &o->cases[i];

		printf("%12.1f %12.1f %12.1f %8.3f %8.3f %8.3f\n",
		       c->us[PART_BACKWARD], c->us[PART_COMM], c->us[PART_STEP],
		       c->ratio, c->p95, c->apart);
	}
}

/* ---- JSON ------------------------------------------------------------- */

void overlap_json(const struct overlap *o)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '[');
	for (size_t i = 0; i < o->options->n; i++) {
		const struct overlap_case *c = &o->cases[i];

		json_open(&json, NULL, '{');
		json_uint(&json, "tensors", o->shapes.n);
		json_uint(&json, "bytes", o->bytes);
		json_int(&json, "buckets", o->buckets);
		json_double(&json, "backward_us", c->us[PART_BACKWARD]);
		json_double(&json, "comm_us", c->us[PART_COMM]);
		json_double(&json, "step_us", c->us[PART_STEP]);
		json_double(&json, "by_max", c->ratio);
		json_double(&json, "by_max_p95", c->p95);
		json_double(&json, "by_sum", c->apart);
		if (o->options->check)
			json_uint(&json, "wrong", atomic_load(&o->wrong));
		else
			json_null(&json, "wrong");
		json_close(&json, '}');
	}
	json_close(&json, ']');
	putchar('\n');
}

/* ---- figure ----------------------------------------------------------- */

static void put_head(FILE *out, const struct overlap *o)
{
	const char *file = strrchr(o->options->shapes, '/');

	file = file ? file + 1 : o->options->shapes;
	fputs("set terminal svg size 800,500 font 'sans,12' background "
	      "'white'\nset output ",
	      out);
	bench_plot_quoted(out, o->options->plot);
	fputs("\nset title ", out);
	bench_plot_quoted(out, file);
	fprintf(out,
	        " noenhanced\n"
	        "set label 1 '%d ranks, %s platform' at graph 0.02,0.95\n"
	        "set xlabel 'backward pass, ms'\nset ylabel 'ms'\n"
	        "set xrange [0:*]\nset yrange [0:*]\n"
	        "set key outside bottom center\nset grid\n",
	        o->options->ranks, cli_platform_name(o->platform));
}

/* A value of a case in ms: the sum of both, the longer, or the step. */
static double value(const struct overlap_case *c, int line)
{
	double backward = c->us[PART_BACKWARD], comm = c->us[PART_COMM];

	return 1e-3 * (line == 0   ? backward + comm
	               : line == 1 ? longer(backward, comm)
	                           : c->us[PART_STEP]);
}

static void put_lines(FILE *out, const struct overlap *o)
{
	fputs("plot '-' using 1:2 with linespoints linecolor 3 dashtype 2 "
	      "pointtype 0 title 'backward + averaging', "
	      "'-' using 1:2 with linespoints linecolor 2 dashtype 2 "
	      "pointtype 0 title 'the longer of both', "
	      "'-' using 1:2 with linespoints linecolor 1 pointtype 7 "
	      "title 'step'\n",
	      out);
	for (int line = 0; line < 3; line++) {
		for (size_t i = 0; i < o->options->n; i++) {
			const struct overlap_case *c = &o->cases[i];

			fprintf(out, "%g %g\n", 1e-3 * c->us[PART_BACKWARD],
			        value(c, line));
		}
		fputs("e\n", out);
	}
}

int overlap_plot(const struct overlap *o)
{
	FILE *out = popen("gnuplot", "w");

	if (!out) {
		cli_complain("bench overlap", "gnuplot: %s", strerror(errno));
		return CLI_FAILED;
	}
	put_head(out, o);
	put_lines(out, o);
	if (pclose(out) == 0)
		return CLI_OK;
	cli_complain("bench overlap", "--plot: gnuplot has failed to write %s",
	             o->options->plot);
	return CLI_FAILED;
}
