/* SPDX-License-Identifier: Apache-2.0 */

/* The output of the drill. */

#include "cli/drill/drill.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/common/cli.h"

/* ---- texts ------------------------------------------------------------ */

void drill_spell(char *out, size_t size, int kind, int rank)
{
	if (kind == COHORT_VERDICT_NONE)
		snprintf(out, size, "none");
	else if (rank < 0)
		snprintf(out, size, "%s", cohort_verdict_text(kind));
	else
		snprintf(out, size, "%s, rank %d", cohort_verdict_text(kind),
		         rank);
}

/* ---- the table -------------------------------------------------------- */

/* The column behind place, fault and verdict. */
enum { TIMES_COLUMN = 11 + 25 + 31 };

void drill_print_head(void)
{
	printf("%-11s%-25s%-31s%6s%6s\n", "where", "fault", "verdict", "ms",
	       "bound");
}

void drill_print(const struct drill_result *result)
{
	int used = printf("%-11s%-25s%-31s", drill_place_name(result->place),
	                  drill_trouble_name(result->trouble),
	                  result->ok ? result->got : "WRONG");

	if (result->is_timed && used > TIMES_COLUMN)
		printf("\n%*s", TIMES_COLUMN, "");
	if (result->is_timed)
		printf("%6.1f%6.0f", result->detected_ms, result->bound_ms);
	putchar('\n');
	if (!result->ok)
		printf("           %s\n           expected: %s\n", result->got,
		       result->expected);
	fflush(stdout);
}

void drill_print_left_out(enum place place, enum trouble trouble)
{
	printf("%-11s%-25sleft out: %s\n", drill_place_name(place),
	       drill_trouble_name(trouble), drill_why_not(place, trouble));
}

void drill_print_summary(const struct drill_summary *s)
{
	printf("\n%zu cells, %zu right, %zu wrong; %.1f s\n", s->cells,
	       s->cells - s->wrong, s->wrong, s->seconds);
	if (s->left_out)
		printf("%zu cells left out, which NVIDIA's NCCL cannot be made "
		       "to have\n",
		       s->left_out);
	if (s->timed)
		printf("noticed after the bound: %.1f ms in the median, %.1f "
		       "ms at worst\n",
		       s->late_ms[s->timed / 2], s->late_ms[s->timed - 1]);
}

/* ---- what is expected ------------------------------------------------- */

static const char *bound_name(enum bound bound)
{
	static const char *const names[] = {
		[NO_BOUND] = "",
		[BY_DEADLINE] = "at its deadline",
		[AT_ONCE] = "at once",
		[BY_PROBER] = "within 50 ms",
	};

	return names[bound];
}

static void list_cell(const struct drill_options *options, enum place place,
                      enum trouble trouble)
{
	const struct cell *cell =
		drill_cell(place, trouble, options->processes);
	char expected[96];

	printf("%-11s%-25s", drill_place_name(place),
	       drill_trouble_name(trouble));
	if (cell->impossible) {
		printf("-  %s\n", cell->impossible);
		return;
	}
	drill_spell(expected, sizeof(expected), cell->kind,
	            drill_expected_rank(cell, options->ranks,
	                                options->processes));
	printf("%s%s%s", expected, cell->bound ? ", " : "",
	       bound_name(cell->bound));
	if (cell->least > options->ranks)
		printf(" (takes %d ranks)", cell->least);
	putchar('\n');
}

void drill_list(const struct drill_options *options)
{
	for (int p = 0; p < PLACES; p++)
		for (int t = 0; t < drill_troubles(options); t++)
			if (options->only[p][t])
				list_cell(options, (enum place)p,
				          (enum trouble)t);
}

/* ---- JSON ------------------------------------------------------------- */

static void json_cell(struct json *json, const struct drill_result *result)
{
	json_open(json, NULL, '{');
	json_string(json, "where", drill_place_name(result->place));
	json_string(json, "fault", drill_trouble_name(result->trouble));
	json_int(json, "ranks", result->ranks);
	json_string(json, "expected", result->expected);
	json_string(json, "got", result->got);
	json_string(json, "text", *result->text ? result->text : NULL);
	if (result->is_timed) {
		json_double(json, "detected_ms", result->detected_ms);
		json_double(json, "bound_ms", result->bound_ms);
	} else {
		json_null(json, "detected_ms");
		json_null(json, "bound_ms");
	}
	json_bool(json, "ok", result->ok);
	json_close(json, '}');
}

void drill_json(const struct drill_result *results, size_t n)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '{');
	json_open(&json, "cells", '[');
	for (size_t i = 0; i < n; i++)
		json_cell(&json, &results[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}
