/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WALK_REPORT_H
#define WALK_REPORT_H

/*
 * The walk's results, and their output as text and as JSON
 */

#include <stdbool.h>

#define MAX_WAYS 16
#define MAX_RANKS 2
#define CALLS 2048 /* number of calls of one way in a round */
#define MAX_SCENES 6

/* The conditions of a measurement. */
struct scene {
	const char *table;
	int ranks;
	bool in_step;
	int budget; /* limit of the walk in ns; 0 if there is none */
	bool no_start_marks;
};

struct spread {
	double low, median, high;
};

struct result {
	struct spread bare, cohort, walk, mark;
	struct spread parts[MAX_WAYS]; /* starting with FIRST_PART */
	double sum;
};

/*
 * Return whether the parts of the walk are measured, which needs a platform
 * without work of its own.
 */
bool scene_has_parts(const struct scene *scene);

/*
 * Return whether @way is measured.  If ranks are in step, a part that each rank
 * does alone is not, because it overlaps with the wait for the other ranks.
 */
bool scene_times(const struct scene *scene, int way);

void walk_print_head(int rounds);
void walk_print_scene(const struct scene *scene, const struct result *result);

/* Print the results of @n scenes. */
void walk_print_parts(const struct scene *scenes, const struct result *results,
                      int n);
void walk_json(const struct scene *scenes, const struct result *results, int n,
               int rounds);

#endif
