/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A figure of the results, by gnuplot
 *
 * gnuplot is a separate program; it reads its commands and the figures from a
 * pipe.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"

/* gnuplot reads the points of all lines after the command that draws them. */
struct plot {
	FILE *commands;
	FILE *points;
	bool has_lines;
};

int bench_plot_check(void)
{
	if (system("command -v gnuplot >/dev/null 2>&1") == 0)
		return CLI_OK;
	cli_complain("bench",
	             "--plot: gnuplot is not installed (of Debian, the "
	             "package gnuplot-nox)");
	return CLI_FAILED;
}

/* Write a text in gnuplot's quotes, in which a quote is doubled. */
static void put_quoted(FILE *out, const char *text)
{
	fputc('\'', out);
	for (; *text; text++) {
		if (*text == '\'')
			fputc('\'', out);
		fputc(*text, out);
	}
	fputc('\'', out);
}

void plot_begin(struct plot *p, const char *title, const char *settings)
{
	fputs("set title ", p->commands);
	put_quoted(p->commands, title);
	fprintf(p->commands,
	        " noenhanced\n%sset yrange [0:*]\n"
	        "set key outside bottom center noenhanced\nset grid\n",
	        settings);
}

void plot_line(struct plot *p, const char *style, const char *title)
{
	if (p->has_lines)
		fputs("e\n", p->points);
	fprintf(p->commands, "%s'-' using 1:2 with linespoints %s title ",
	        p->has_lines ? ", " : "plot ", style);
	put_quoted(p->commands, title);
	p->has_lines = true;
}

void plot_point(struct plot *p, double x, double y)
{
	fprintf(p->points, "%.15g %g\n", x, y);
}

static bool draw(const struct bench *b, FILE *out)
{
	struct plot plot = { .commands = out };
	size_t size;
	char *points = NULL;

	plot.points = open_memstream(&points, &size);
	if (!plot.points)
		return false;
	fputs("set terminal svg size 800,500 font 'sans,12' background "
	      "'white'\nset output ",
	      out);
	put_quoted(out, b->options->plot);
	fputc('\n', out);
	b->operation->plot(&plot, b);
	fclose(plot.points);
	fprintf(out, "\n%se\n", points);
	free(points);
	return true;
}

int bench_plot(const struct bench *b)
{
	const char *command = b->operation->command;
	FILE *out = popen("gnuplot", "w");
	bool is_drawn;

	if (!out) {
		cli_complain(command, "gnuplot: %s", strerror(errno));
		return CLI_FAILED;
	}
	is_drawn = draw(b, out);
	if (pclose(out) == 0 && is_drawn)
		return CLI_OK;
	cli_complain(command, "--plot: gnuplot has failed to write %s",
	             b->options->plot);
	return CLI_FAILED;
}
