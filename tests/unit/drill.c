/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the table of cohort drill, which has, for every fault at every
 * place, the expected outcome or the reason why the fault cannot occur
 */

#include "cli/drill/drill.h"

#include <criterion/criterion.h>
#include <string.h>

/* Assert @what. The message names the place and the fault of the cell. */
#define HOLDS(what)                                                            \
	cr_assert(what, "%s, %s", drill_place_names[p], drill_trouble_names[t])

static bool is_sentence(const char *text)
{
	size_t length = strlen(text);

	return length > 10 && text[0] >= 'A' && text[0] <= 'Z' &&
	       text[length - 1] == '.';
}

/* Check the invariants of a cell. Return the cell, or NULL if its fault cannot
 * occur at its place. */
static const struct cell *possible_cell(int p, int t, int processes)
{
	const struct cell *c =
		drill_cell((enum place)p, (enum trouble)t, processes);
	bool ends;

	HOLDS(c);
	ends = c->kind != COHORT_VERDICT_NONE;
	if (c->impossible) {
		HOLDS(is_sentence(c->impossible));
		HOLDS(!ends && !c->says);
		return NULL;
	}
	HOLDS(c->least <= 4);
	HOLDS(ends == (c->bound != NO_BOUND));
	HOLDS(ends == (c->says != NULL));
	HOLDS(ends || c->blame == NOBODY);
	return c;
}

Test(drill, every_drill_cell_has_an_outcome_or_a_reason)
{
	const struct cell *c;
	int p, t, possible = 0;

	for (p = 0; p < PLACES; p++)
		for (t = 0; t < TROUBLES_OF_ONE; t++) {
			c = possible_cell(p, t, 1);
			if (!c)
				continue;
			possible++;
			/*
			 * A cell may expect an orderly end only if its fault is
			 * harmless everywhere, or at least at the cell's place.
			 */
			HOLDS(c->kind != COHORT_VERDICT_NONE ||
			      t == BY_NOTHING || t == BY_LATE ||
			      t == BY_STREAM || t == BY_DEAD_STREAM ||
			      t == BY_PAUSED_PARENT || p == AT_WAIT ||
			      p == AT_RESPAWN ||
			      (p == AT_CLOSE && t == BY_CLOSING));
		}
	cr_assert_eq(PLACES * TROUBLES_OF_ONE, 324);
	cr_assert_geq(possible, 210);
}

/* With several processes, some faults are harmless. For example, a lack of file
 * descriptors harms only a process that needs one. */
Test(drill, every_drill_cell_of_2_processes_has_an_outcome_or_reason)
{
	const struct cell *c;
	int p, t, possible = 0;
	bool ends;

	for (p = 0; p < PLACES; p++)
		for (t = 0; t < TROUBLES; t++) {
			c = possible_cell(p, t, 2);
			if (!c)
				continue;
			possible++;
			ends = c->kind != COHORT_VERDICT_NONE;
			HOLDS(t != BY_KILL || ends || p == AT_RESPAWN);
			HOLDS(t != BY_STOP || ends || p == AT_CLOSE);
			HOLDS(t != BY_REMOTE);
		}
	cr_assert_eq(PLACES * TROUBLES, 384);
	cr_assert_geq(possible, 245);
}

Test(drill, drill_blames_the_first_rank_of_a_killed_process)
{
	const struct cell *c = drill_cell(AT_CALL, BY_KILL, 2);

	cr_assert_eq(drill_expected_rank(c, 4, 2), 2);
	cr_assert_eq(drill_expected_rank(c, 8, 2), 4);
	cr_assert_eq(drill_expected_rank(c, 8, 4), 6);
}

Test(drill, drill_expects_no_verdict_without_a_fault)
{
	int p, t;

	for (p = 0, t = BY_NOTHING; p < PLACES; p++) {
		const struct cell *c =
			drill_cell((enum place)p, (enum trouble)t, 1);

		HOLDS(!c->impossible);
		HOLDS(c->kind == (p == AT_ABORT ? COHORT_VERDICT_ABORTED
		                                : COHORT_VERDICT_NONE));
	}
}

Test(drill, drill_places_and_faults_have_unique_names)
{
	int p, t, k;

	for (p = 0; p < PLACES; p++)
		for (k = 0; k < p; k++)
			cr_assert_str_neq(drill_place_names[p],
			                  drill_place_names[k]);
	for (t = 0; t < TROUBLES; t++)
		for (k = 0; k < t; k++)
			cr_assert_str_neq(drill_trouble_names[t],
			                  drill_trouble_names[k]);
}

Test(drill, drill_blames_no_rank_if_only_two_ranks_differ)
{
	const struct cell *c = drill_cell(AT_CALL, BY_COUNT, 1);

	cr_assert_eq(drill_expected_rank(c, 2, 1), -1);
	cr_assert_eq(drill_expected_rank(c, 4, 1), 3);
	cr_assert_eq(drill_expected_rank(c, 8, 1), 7);
	c = drill_cell(AT_CALL, BY_ABSENCE, 1);
	cr_assert_eq(drill_expected_rank(c, 2, 1), 1);
	c = drill_cell(AT_CALL, BY_SIGNAL, 1);
	cr_assert_eq(drill_expected_rank(c, 8, 1), -1);
	c = drill_cell(AT_CLOSE, BY_ABSENCE, 1);
	cr_assert_eq(drill_expected_rank(c, 8, 1), 0);
}

/* A fault that the program's own ranks can cause needs no script. The drill
 * itself checks all other faults when it runs. */
Test(drill, only_faults_that_ranks_cannot_cause_are_scripted)
{
	int p;

	for (p = 0; p < PLACES; p++) {
		cr_assert(!drill_script((enum place)p, BY_NOTHING));
		cr_assert(!drill_script((enum place)p, BY_COUNT));
		cr_assert(!drill_script((enum place)p, BY_REMOTE));
		cr_assert(drill_script((enum place)p, BY_ERROR));
		cr_assert(drill_script((enum place)p, BY_STUCK));
	}
	cr_assert(!drill_script(AT_CALL, BY_ABSENCE));
	cr_assert(!drill_script(AT_CALL, BY_EXIT));
	cr_assert(!drill_script(AT_SPLIT, BY_LATE));
	cr_assert(!drill_script(AT_CLOSE, BY_ABSENCE));
	cr_assert(!drill_script(AT_CALL, BY_TIMEOUT));
	cr_assert(!drill_script(AT_CHILD, BY_SIBLING));
	cr_assert(drill_script(AT_WAIT, BY_ABSENCE));
	cr_assert(drill_script(AT_WAIT, BY_TIMEOUT));
	cr_assert(drill_script(AT_OPEN, BY_TOO_LATE));
}
