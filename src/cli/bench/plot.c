/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A figure of the bus bandwidths over the sizes, by gnuplot
 *
 * gnuplot is a separate program; it reads its commands and the figures from a pipe.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"

/* True if a folder of PATH has gnuplot. */
static bool has_gnuplot(void)
{
	const char *at = getenv("PATH");
	char file[4096];

	while (at && *at) {
		int length = (int)strcspn(at, ":");

		snprintf(file, sizeof(file), "%.*s/gnuplot", length, at);
		if (!access(file, X_OK))
			return true;
		at += length + (at[length] == ':');
	}
	return false;
}

int bench_plot_check(void)
{
	if (has_gnuplot())
		return CLI_OK;
	cli_complain("bench",
	             "--plot: gnuplot is not installed (of Debian, the "
	             "package gnuplot-nox)");
	return CLI_FAILED;
}

/* Consecutive cases that differ only in size form a line. */
static bool is_same_line(const struct bench_case *a, const struct bench_case *b)
{
	return a->collective == b->collective && a->type == b->type &&
	       a->op == b->op && a->mode.pace == b->mode.pace &&
	       a->mode.path == b->mode.path &&
	       a->mode.in_place == b->mode.in_place;
}

static size_t line_end(const struct bench_plan *plan, size_t from)
{
	size_t end = from + 1;

	while (end < plan->count &&
	       is_same_line(&plan->cases[from], &plan->cases[end]))
		end++;
	return end;
}

/* Write a text in gnuplot's quotes, in which a quote is doubled. */
void bench_plot_quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', out);
		fputc(*text, out);
	}
	fputc('\'', out);
}

static void put_head(FILE *out, const struct bench_plan *plan)
{
	const struct bench_options *o = plan->options;

	fputs("set terminal svg size 800,500 font 'sans,12' background "
	      "'white'\nset output ",
	      out);
	bench_plot_quoted(out, o->plot);
	fprintf(out,
	        "\nset title '%s, %d ranks, %s platform' noenhanced\n"
	        "set logscale x 2\nset format x '%%.0b %%BB'\n"
	        "set xlabel 'size'\nset ylabel 'bus bandwidth, GB/s'\n"
	        "set yrange [0:*]\nset key outside bottom center "
	        "noenhanced\nset grid\n",
	        o->collective ? o->collective->name : "all collectives",
	        o->ranks, cli_platform_name(plan->platform));
}

/* Write how a line is drawn. */
static void put_line(FILE *out, const struct bench_case *c, int color)
{
	char mode[BENCH_MODE_TEXT];

	fprintf(out,
	        "%s'-' using 1:2 with linespoints linecolor %d pointtype 7 "
	        "title ",
	        color == 1 ? "plot " : ", ", color);
	fprintf(out, "'%s %s %s%s%s'", c->collective->name,
	        bench_type_name(c->type), bench_mode_text(&c->mode, mode),
	        c->op < 0 ? "" : ", ", c->op < 0 ? "" : bench_op_name(c->op));
}

static void put_values(FILE *out, const struct bench_plan *plan, size_t from,
                       size_t end)
{
	for (size_t i = from; i < end; i++) {
		const struct bench_case *c = &plan->cases[i];

		fprintf(out, "%zu %g\n", c->bytes, c->figures.busbw);
	}
	fputs("e\n", out);
}

static void put_lines(FILE *out, const struct bench_plan *plan)
{
	int color = 1;

	for (size_t i = 0; i < plan->count; i = line_end(plan, i))
		put_line(out, &plan->cases[i], color++);
	fputc('\n', out);
	for (size_t i = 0; i < plan->count; i = line_end(plan, i))
		put_values(out, plan, i, line_end(plan, i));
}

int bench_plot(const struct bench_plan *plan)
{
	FILE *out = popen("gnuplot", "w");

	if (!out) {
		cli_complain("bench", "gnuplot: %s", strerror(errno));
		return CLI_FAILED;
	}
	put_head(out, plan);
	put_lines(out, plan);
	if (pclose(out) == 0)
		return CLI_OK;
	cli_complain("bench", "--plot: gnuplot has failed to write %s",
	             plan->options->plot);
	return CLI_FAILED;
}
