/* SPDX-License-Identifier: Apache-2.0 */

/* The results of cohort bench: a table like that of nccl-tests, or JSON */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"

double bench_time(const struct bench *b, const struct bench_case *c,
                  double place)
{
	size_t rounds = b->options->rounds;

	memcpy(b->scratch, c->times_ns, rounds * sizeof(double));
	return cli_quantile(b->scratch, rounds, place) * 1e-3;
}

unsigned long long bench_wrong(const struct bench_case *c, size_t n)
{
	unsigned long long wrong = 0;

	/* Relaxed, because the last barrier of the case orders these reads. */
	for (size_t i = 0; i < n; i++)
		wrong +=
			atomic_load_explicit(&c[i].wrong, memory_order_relaxed);
	return wrong;
}

struct row {
	struct json *json; /* the JSON output, or NULL for a table */
	bool is_heading;
	bool has_columns;
};

void row_text(struct row *row, int width, const char *title, const char *key,
              const char *text)
{
	if (row->json && key)
		json_string(row->json, key, text);
	if (row->json || !title)
		return;
	putchar(row->is_heading && !row->has_columns ? '#' : ' ');
	row->has_columns = true;
	printf("%*s", width, row->is_heading ? title : text);
}

void row_number(struct row *row, int width, const char *title, const char *key,
                long long value)
{
	char text[32];

	if (row->json && key)
		json_int(row->json, key, value);
	snprintf(text, sizeof(text), "%lld", value);
	row_text(row, width, title, NULL, text);
}

void row_figure(struct row *row, int width, int digits, const char *title,
                const char *key, double value)
{
	char text[64];

	if (row->json && key)
		json_double(row->json, key, value);
	snprintf(text, sizeof(text), "%.*f", digits, value);
	row_text(row, width, title, NULL, isnan(value) ? "-" : text);
}

/* Write a time with four significant digits and at most seven digits in
 * total. */
static void put_time(struct row *row, const char *title, const char *key,
                     double us)
{
	int digits = us < 10 ? 3 : us < 100 ? 2 : us < 1000 ? 1 : 0;

	row_figure(row, 10, digits, title, key, us);
}

void row_times(struct row *row, const struct bench *b,
               const struct bench_case *c)
{
	put_time(row, "time", "time_us", bench_time(b, c, 0.5));
	put_time(row, "p5", "p5_us", bench_time(b, c, 0.05));
	put_time(row, "p95", "p95_us", bench_time(b, c, 0.95));
}

void row_wrong(struct row *row, const struct bench *b,
               const struct bench_case *c, size_t n, bool is_column)
{
	const char *title = is_column ? "wrong" : NULL;

	if (b->options->check) {
		row_number(row, 5, title, "wrong",
		           (long long)bench_wrong(c, n));
		return;
	}
	if (row->json)
		json_null(row->json, "wrong");
	row_text(row, 5, title, NULL, "-");
}

void bench_print_head(const struct bench *b)
{
	const struct bench_options *o = b->options;

	printf("# cohort %s, %s platform, %d rank%s on %d core%s%s, ranks "
	       "launch %s, %llu rounds\n",
	       cohort_version(), cli_platform_name(b->kind), o->ranks,
	       o->ranks == 1 ? "" : "s", b->cores, b->cores == 1 ? "" : "s",
	       o->pin ? " (pinned)" : "", cli_launch_name(b->launch),
	       (unsigned long long)o->rounds);
	printf("# times in us: median, 5th and 95th percentile of the rounds; "
	       "bandwidths in GB/s\n");
	if (b->operation->legend)
		printf("# %s\n", b->operation->legend);
	/* print the heading now, because the first row takes some time */
	fflush(stdout);
}

void bench_print_rows(const struct bench *b, size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i += b->operation->row) {
		const struct bench_case *c = &b->cases[i];
		struct row heading = { .is_heading = true };
		struct row line = { .json = NULL };

		if (i == 0 || c->title != c[-1].title) {
			printf("#\n# %s\n", c->title);
			if (b->operation->describe)
				b->operation->describe(b);
			b->operation->report(&heading, b, c);
			putchar('\n');
		}
		b->operation->report(&line, b, c);
		putchar('\n');
	}
	fflush(stdout);
}

void bench_json(const struct bench *b)
{
	struct json json = { .out = stdout };
	struct row row = { .json = &json };

	json_open(&json, NULL, '[');
	for (size_t i = 0; i < b->count; i += b->operation->row) {
		json_open(&json, NULL, '{');
		b->operation->report(&row, b, &b->cases[i]);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	putchar('\n');
}
