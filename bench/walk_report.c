/* SPDX-License-Identifier: Apache-2.0 */

#include "walk_report.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "ways.h"

bool scene_has_parts(const struct scene *scene)
{
	return strcmp(scene->table, "empty") == 0;
}

bool scene_times(const struct scene *scene, int way)
{
	return way < FIRST_PART || (scene_has_parts(scene) &&
	                            (!scene->in_step || ways[way].several));
}

/* ---- text ------------------------------------------------------------- */

static int cores(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed)
	               ? 1
	               : CPU_COUNT(&allowed);
}

void walk_print_head(int rounds)
{
	printf("cohort %s, compiler %s, CLOCK_MONOTONIC, %d core%s%s\n"
	       "%d rounds of %d calls of each way, by turns; ns per call, of "
	       "the slowest rank\n"
	       "median [5 %%, 95 %%]\n\n",
	       cohort_version(), __VERSION__, cores(), cores() > 1 ? "s" : "",
	       cores() < MAX_RANKS ? ", which ranks share" : ", one per rank",
	       rounds, CALLS);
	printf("table  ranks  run       call+mark  cohort  the walk            "
	       "budget  one more mark\n");
}

/* A spread as text. */
struct cell {
	char at[48];
};

static struct cell cell_of(const struct spread *s)
{
	struct cell t;

	snprintf(t.at, sizeof(t.at), "%.0f [%.0f, %.0f]", s->median, s->low,
	         s->high);
	return t;
}

static const char *run_name(const struct scene *scene)
{
	return scene->in_step          ? "in step"
	       : scene->no_start_marks ? "no start"
	                               : "free";
}

void walk_print_scene(const struct scene *scene, const struct result *r)
{
	char budget[16] = "";

	if (scene->budget)
		snprintf(budget, sizeof(budget), "%d", scene->budget);
	printf("%-5s  %5d  %-8s  %9.0f  %6.0f  %-18s  %6s  %s\n", scene->table,
	       scene->ranks, run_name(scene), r->bare.median, r->cohort.median,
	       cell_of(&r->walk).at, budget, cell_of(&r->mark).at);
	fflush(stdout);
}

/* Print a part of the walk, with a cell for each scene that measures parts. */
static void print_part(const struct scene *scenes, const struct result *results,
                       int n, int way)
{
	struct cell t;
	int i;

	printf("%-22s", ways[way].name);
	for (i = 0; i < n; i++) {
		if (!scene_has_parts(&scenes[i]))
			continue;
		t = cell_of(&results[i].parts[way]);
		printf("  %-20s", scene_times(&scenes[i], way) ? t.at : "-");
	}
	putchar('\n');
}

static void print_totals(const struct scene *scenes, int n, const char *name,
                         const double *totals)
{
	int i;

	printf("%-22s", name);
	for (i = 0; i < n; i++)
		if (scene_has_parts(&scenes[i]) && !scenes[i].in_step)
			printf("  %-20.0f", totals[i]);
	putchar('\n');
}

void walk_print_parts(const struct scene *scenes, const struct result *results,
                      int n)
{
	double sum[MAX_SCENES], walk[MAX_SCENES], rest[MAX_SCENES];
	char name[32];
	int i, way;

	printf("\n%-22s", "parts, each by itself");
	for (i = 0; i < n; i++) {
		if (!scene_has_parts(&scenes[i]))
			continue;
		snprintf(name, sizeof(name), "%d rank%s, %s", scenes[i].ranks,
		         scenes[i].ranks > 1 ? "s" : "", run_name(&scenes[i]));
		printf("  %-20s", name);
	}
	putchar('\n');
	for (way = FIRST_PART; way < way_count; way++)
		print_part(scenes, results, n, way);
	for (i = 0; i < n; i++) {
		sum[i] = results[i].sum;
		walk[i] = results[i].walk.median;
		rest[i] = walk[i] - sum[i];
	}
	print_totals(scenes, n, "sum", sum);
	print_totals(scenes, n, "the walk", walk);
	print_totals(scenes, n, "rest", rest);
	printf("rest: glue, and what parts cost more or less among others\n");
}

/* ---- JSON ------------------------------------------------------------- */

static void json_spread(struct json *json, const char *key,
                        const struct spread *s)
{
	json_open(json, key, '{');
	json_double(json, "median", s->median);
	json_double(json, "low", s->low);
	json_double(json, "high", s->high);
	json_close(json, '}');
}

static void json_parts(struct json *json, const struct scene *scene,
                       const struct result *r)
{
	int way;

	json_open(json, "parts", '[');
	for (way = FIRST_PART; way < way_count; way++) {
		if (!scene_times(scene, way))
			continue;
		json_open(json, NULL, '{');
		json_string(json, "name", ways[way].name);
		json_spread(json, "ns", &r->parts[way]);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void json_scene(struct json *json, const struct scene *scene,
                       const struct result *r)
{
	json_open(json, NULL, '{');
	json_string(json, "table", scene->table);
	json_int(json, "ranks", scene->ranks);
	json_bool(json, "in_step", scene->in_step);
	json_bool(json, "no_start_marks", scene->no_start_marks);
	json_spread(json, "call_and_mark", &r->bare);
	json_spread(json, "cohort", &r->cohort);
	json_spread(json, "walk", &r->walk);
	if (scene->budget)
		json_int(json, "budget", scene->budget);
	else
		json_null(json, "budget");
	json_spread(json, "one_more_mark", &r->mark);
	json_parts(json, scene, r);
	json_close(json, '}');
}

void walk_json(const struct scene *scenes, const struct result *results, int n,
               int rounds)
{
	struct json json = { .out = stdout };
	int i;

	json_open(&json, NULL, '{');
	json_string(&json, "version", cohort_version());
	json_string(&json, "compiler", __VERSION__);
	json_int(&json, "cores", cores());
	json_int(&json, "rounds", rounds);
	json_int(&json, "calls", CALLS);
	json_open(&json, "scenes", '[');
	for (i = 0; i < n; i++)
		json_scene(&json, &scenes[i], &results[i]);
	json_close(&json, ']');
	json_close(&json, '}');
	putchar('\n');
}
