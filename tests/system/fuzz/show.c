/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints each program in readable form before its run if FUZZ_SHOW is set
 */

#include <stdio.h>
#include <stdlib.h>

#include "system/fuzz/program.h"

static const char *name_of(enum step_kind kind)
{
	static const char *const names[] = {
#define STEP_NAME(name, weight) [STEP_##name] = #name,
		STEP_LIST(STEP_NAME)
#undef STEP_NAME
	};

	return names[kind] ? names[kind] : "nothing";
}

static void show_family(const struct program *p, const struct family *f)
{
	int r;

	fprintf(stderr, ", family %d:", (int)(f - p->families));
	for (r = 0; r < f->n; r++)
		fprintf(stderr, " %d", f->device[r]);
}

static void show_step(const struct program *p, const struct step *s)
{
	int i;

	fprintf(stderr, "%2d %-14s", s->number, name_of(s->kind));
	for (i = 1; i < STEP_BYTES; i++)
		fprintf(stderr, " %3d", s->raw[i]);
	fprintf(stderr, "  thread %d%s%s%s", s->who,
	        s->grouped ? ", grouped" : "", s->is_sure ? ", sure" : "",
	        s->may_hang ? ", may hang" : "");
	if (s->family)
		show_family(p, s->family);
	if (s->kind == STEP_collective || s->kind == STEP_captured)
		fprintf(stderr, ", call %d of %zu, odd %d", s->call, s->count,
		        s->odd_rank);
	fputc('\n', stderr);
}

void plan_show(const struct program *p)
{
	int i;

	if (!getenv("FUZZ_SHOW"))
		return;
	fprintf(stderr, "%d threads%s\n", p->threads,
	        p->is_wild ? ", wild" : "");
	for (i = 0; i < p->step_count; i++)
		show_step(p, &p->steps[i]);
}
