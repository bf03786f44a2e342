/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WALK_REPORT_H
#define WALK_REPORT_H

/*
 * What the walk measures, and how it is shown: as text and as JSON
 */

#include <stdbool.h>

#define MAX_WAYS 16
#define MAX_RANKS 2
#define CALLS 2048 /* of one way in one round */
#define MAX_SCENES 6

/* The conditions of a measurement. */
struct scene {
	const char *table;
	int ranks;
	bool in_step;
	int budget; /* ns; 0: none, because the platform's own work takes longer */
	bool no_start_marks;
};

struct spread {
	double low, median, high;
};

struct result {
	struct spread bare, cohort, walk, mark;
	struct spread parts[MAX_WAYS]; /* the first is FIRST_PART */
	double sum;
};

/* True if the parts are timed: where nothing else is in the way. */
bool scene_has_parts(const struct scene *scene);

/* True if @way is timed.  In step, a part hides in the meeting, unless several ranks
 * take part in it. */
bool scene_times(const struct scene *scene, int way);

void walk_print_head(int rounds);
void walk_print_scene(const struct scene *scene, const struct result *result);

/* Results of @n scenes. */
void walk_print_parts(const struct scene *scenes, const struct result *results,
                      int n);
void walk_json(const struct scene *scenes, const struct result *results, int n,
               int rounds);

#endif
