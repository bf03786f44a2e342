/* SPDX-License-Identifier: Apache-2.0 */

#include "support/verdicts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

static void store_verdict(struct verdicts *all, const struct cohort_verdict *v)
{
	int r, i = atomic_load(&all->count);

	if (i == VERDICTS_ROOM)
		return;
	all->seen[i] = *v;
	for (r = 0; r < v->size && r < VERDICTS_RANKS; r++) {
		all->ranks[i][r] = v->ranks[r];
		all->ranks[i][r].stack = NULL;
	}
	all->seen[i].ranks = all->ranks[i];
	snprintf(all->texts[i], sizeof(all->texts[i]), "%s", v->text);
	all->seen[i].text = all->texts[i];
	snprintf(all->lines[i], sizeof(all->lines[i]), "%s", v->line);
	all->seen[i].line = all->lines[i];
	snprintf(all->calls[i], sizeof(all->calls[i]), "%s", v->call);
	all->seen[i].call = all->calls[i];
	atomic_store(&all->count, i + 1);
	sem_post(&all->received);
}

static int on_verdict(const struct cohort_verdict *v, void *user)
{
	struct verdicts *all = user;

	store_verdict(all, v);
	if (all->also)
		all->also(v, all->user);
	if (all->block_stage && v->stage == all->block_stage) {
		sem_post(&all->blocked);
		while (sem_wait(&all->resume))
			continue;
		snprintf(all->group, sizeof(all->group), "%s", v->group);
		sem_post(&all->resumed);
	}
	return all->answer;
}

void verdicts_attach(struct verdicts *all, struct cohort_group_options *options)
{
	sem_init(&all->received, 0, 0);
	sem_init(&all->blocked, 0, 0);
	sem_init(&all->resume, 0, 0);
	sem_init(&all->resumed, 0, 0);
	options->on_verdict = on_verdict;
	options->user = all;
}

static void await(sem_t *sem, const char *what)
{
	if (clock_await(sem, clock_deadline(RANKS_SOON)))
		return;
	fprintf(stderr, "timeout while waiting for %s\n", what);
	exit(1);
}

const struct cohort_verdict *verdicts_next(struct verdicts *all)
{
	await(&all->received, "a verdict");
	return &all->seen[all->read++];
}

const struct cohort_verdict *verdicts_next_of(struct verdicts *all, int stage)
{
	const struct cohort_verdict *v;

	do
		v = verdicts_next(all);
	while (v->stage != stage);
	return v;
}

void verdicts_await_block(struct verdicts *all)
{
	await(&all->blocked, "on_verdict");
}

const char *verdicts_release(struct verdicts *all)
{
	sem_post(&all->resume);
	await(&all->resumed, "the end of on_verdict");
	return all->group;
}

bool verdict_says(const char *text, const char *part)
{
	static const char begin[] = "; not counted: ";
	static const char end[] = " in which this process did not run";
	const char *from = strstr(text, begin);
	const char *to = from ? strstr(from, end) : NULL;
	char without[sizeof(((struct verdicts *)0)->texts[0])];

	if (strstr(text, part) || !to)
		return strstr(text, part);
	snprintf(without, sizeof(without), "%.*s%s", (int)(from - text), text,
	         to + sizeof(end) - 1);
	return strstr(without, part);
}
