/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: rounds, in each of which a group is asked for a dump and answers
 *
 * All groups of a process that have the FIFO answer what is written to it.
 * Processes that share it take turns: one of them reads what was written, so it
 * is written again until each has answered.
 */

#include "cli/top/top.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cli/common/cli.h"

/* How long to wait for other groups after the first answer. */
#define SETTLE_NS (NS_PER_S * 3 / 10)

/* How long to wait for other processes of a group. */
#define OTHERS_NS (NS_PER_S * 3 / 2)

/* How long a round may take, and when it asks again. */
#define DEADLINE_NS (2 * NS_PER_S)
#define AGAIN_NS NS_PER_S
#define TURN_NS (NS_PER_S / 10)

/* How often it looks for answers. */
#define LOOK_NS (NS_PER_S / 50)

/* How long a living process may be without its FIFO, as while its group
 * respawns. */
#define GONE_NS (5 * NS_PER_S)

static const struct flight *flight_of(const struct top_dump *d)
{
	return &d->trace->flight;
}

/* ---- processes --------------------------------------------------------- */

/* True if the process that wrote @d runs on this machine, or did. */
static bool is_here(const struct top_dump *d)
{
	char host[sizeof(flight_of(d)->host)] = "";

	return flight_of(d)->pid > 0 && !gethostname(host, sizeof(host) - 1) &&
	       strcmp(host, flight_of(d)->host) == 0;
}

/* True if the process does not exist, or its parent has yet to hear of its
 * end. */
static bool is_dead(const struct top_dump *d)
{
	char state;

	if (!is_here(d))
		return false;
	if (kill(flight_of(d)->pid, 0) && errno == ESRCH)
		return true;
	state = thread_process_state(flight_of(d)->pid);
	return state == 'Z' || state == 'X';
}

/* True if a group has missed a round and this one, while its process has
 * answered for another group. */
static bool is_closed(const struct feed *f, const struct top_dump *d)
{
	const struct top_dump *other;

	for (other = f->dumps; d->round + 1 < f->round && other;
	     other = other->next)
		if (other->trace && other->round == f->round &&
		    feed_same_process(other, d))
			return true;
	return false;
}

/* Add how the process has ended, unless it runs or has closed the group: then
 * it has removed the FIFO, or has exited with 0. */
static void add_gone(struct text *t, const struct watch *w,
                     const struct top_dump *d)
{
	const int status = thread_process_end(flight_of(d)->pid, d->pidfd);

	if (!status ||
	    (status < 0 && (!is_dead(d) || access(w->feed.fifo, F_OK))))
		return;
	text_add(t, "%sprocess %d ", *w->sample.gone ? ", " : "",
	         flight_of(d)->pid);
	thread_add_end(t, status);
}

/* ---- the end ----------------------------------------------------------- */

/* True if @d, a verdict, is of the group and a process of the sample. */
static bool is_of_sample(const struct watch *w, const struct top_dump *d)
{
	const struct top_dump *member;

	for (member = w->feed.dumps; member; member = member->next)
		if (member->is_member && feed_same_process(member, d) &&
		    strcmp(flight_of(member)->group, flight_of(d)->group) == 0)
			return flight_of(d)->generation >= w->sample.generation;
	return false;
}

/* Find the newest cause in the verdicts that came since the feed was opened. */
static void find_cause(struct watch *w)
{
	struct top_sample *s = &w->sample;
	uint64_t newest = 0;
	struct top_dump *d;

	for (d = w->feed.dumps; d; d = d->next) {
		if (!d->is_verdict)
			continue;
		d->trace = feed_read(&w->feed, d->file, 1);
		if (!d->trace || !d->trace->is_found || !is_of_sample(w, d) ||
		    flight_of(d)->cause.status == COHORT_OK ||
		    flight_of(d)->now_ns <= newest)
			continue;
		newest = flight_of(d)->now_ns;
		s->cause = flight_of(d)->cause;
		s->generation = flight_of(d)->generation;
	}
}

bool watch_find_end(struct watch *w)
{
	struct text t = { w->sample.gone, sizeof(w->sample.gone) };
	const struct top_dump *d;

	find_cause(w);
	if (w->sample.cause.status != COHORT_OK)
		return true;
	for (d = w->feed.dumps; d; d = d->next)
		if (d->is_member && is_here(d))
			add_gone(&t, w, d);
	return !*w->sample.gone;
}

/* ---- groups ------------------------------------------------------------ */

static bool belongs_to(const struct top_dump *d, const struct top_dump *group)
{
	const struct flight *f = flight_of(d), *g = flight_of(group);
	int r;

	if (strcmp(g->group, f->group) != 0 || strcmp(g->host, f->host) != 0 ||
	    g->generation != f->generation || g->world != f->world)
		return false;
	for (r = 0; r < f->size; r++)
		if (rank_set_has(group->ranks, f->ranks[r].rank))
			return false;
	return true;
}

/* True if the options leave the group open, or name it by this dump. */
static bool is_named(const struct top_options *o, const struct top_dump *d)
{
	return (!o->pid || o->pid == flight_of(d)->pid) &&
	       (!o->group || strcmp(o->group, flight_of(d)->group) == 0);
}

/* Put the dumps into groups: those of this round, and of members that may still
 * answer. */
static void find_groups(struct watch *w)
{
	struct feed *f = &w->feed;
	struct top_dump *d, *g;
	int r;

	for (d = f->dumps; d; d = d->next) {
		d->group = NULL;
		d->is_meant = false;
		memset(d->ranks, 0, sizeof(d->ranks));
		if (!d->trace ||
		    (d->round != f->round &&
		     (!d->is_member || is_closed(f, d) || is_dead(d))))
			continue;
		for (g = f->dumps; g != d; g = g->next)
			if (g->group == g && belongs_to(d, g))
				break;
		d->group = g;
		g->is_meant |=
			w->sample.n ? d->is_member : is_named(w->options, d);
		for (r = 0; r < flight_of(d)->size; r++)
			rank_set_add(g->ranks, flight_of(d)->ranks[r].rank);
	}
}

/* True if the group was split from one that is meant, too: then it has that
 * one's name, a dot and a color. */
static bool is_child(const struct watch *w, const struct top_dump *group)
{
	const struct top_dump *g;
	size_t n;

	for (g = w->feed.dumps; g; g = g->next) {
		if (!g->is_meant)
			continue;
		n = strlen(flight_of(g)->group);
		if (strncmp(flight_of(group)->group, flight_of(g)->group, n) ==
		            0 &&
		    flight_of(group)->group[n] == '.')
			return true;
	}
	return false;
}

/* The first group after @g that may be shown, from the start if that is NULL;
 * NULL if there is no more. */
static struct top_dump *next_group(const struct watch *w, struct top_dump *g)
{
	for (g = g ? g->next : w->feed.dumps; g; g = g->next)
		if (g->is_meant && (w->sample.n || !is_child(w, g)))
			break;
	return g;
}

void watch_list(const struct watch *w)
{
	struct top_dump *g = next_group(w, NULL), *d;
	char line[1000];
	struct text t;

	if (!g) {
		cli_complain("top", "no group that answers has this %s",
		             !w->options->pid    ? "name"
		             : w->options->group ? "name and process"
		                                 : "process");
		return;
	}
	cli_complain("top", "several groups: name one by --group or --pid");
	for (; g; g = next_group(w, g)) {
		t = (struct text){ line, sizeof(line) };
		text_add(&t, "  \"%s\", generation %d, %d ranks, process",
		         flight_of(g)->group, flight_of(g)->generation,
		         flight_of(g)->world);
		for (d = g; d; d = d->next)
			if (d->group == g)
				text_add(&t, " %d", flight_of(d)->pid);
		cli_complain("top", "%s", line);
	}
}

/* ---- rounds ------------------------------------------------------------ */

static enum watch_state fail(struct watch *w, const char *what)
{
	w->failed = what;
	w->error = errno;
	return WATCH_FAILED;
}

static void begin_round(struct watch *w, uint64_t now)
{
	w->is_asked = true;
	w->asked_ns = now;
	w->again_ns = 0; /* ask() writes */
	w->feed.round++;
	w->feed.problem[0] = '\0';
	if (!w->answered_ns)
		w->answered_ns = now;
}

/* Count this round's answers, and those that are awaited: of members or, in the
 * first round, of other processes of the groups. */
static void count(const struct watch *w, int *answers, int *awaited)
{
	const struct top_dump *d;

	*answers = *awaited = 0;
	for (d = w->feed.dumps; d; d = d->next) {
		if (!d->group)
			continue;
		if (d->round == w->feed.round)
			++*answers;
		else
			++*awaited;
		if (!w->sample.n && d->group == d)
			*awaited +=
				rank_set_count(d->ranks) < flight_of(d)->world;
	}
}

/* True if there are all answers, or the time for them is over. */
static bool is_complete(const struct watch *w, uint64_t now, int answers,
                        int awaited)
{
	if (!answers || (w->sample.n && awaited))
		return now - w->asked_ns >= DEADLINE_NS;
	return w->sample.n ||
	       now - w->first_ns >= (awaited ? OTHERS_NS : SETTLE_NS);
}

/* True if no process is left that could have the FIFO again. */
static bool is_over(const struct watch *w, uint64_t now)
{
	const struct top_dump *d;

	for (d = w->feed.dumps; d; d = d->next)
		if (d->is_member && !is_dead(d))
			return now - w->nobody_ns >= GONE_NS;
	return true;
}

/* Write to the FIFO, again after a while; soon if it is another process's
 * turn. */
static enum watch_state ask(struct watch *w, uint64_t now, bool is_turn)
{
	if (w->again_ns && now - w->again_ns < (is_turn ? TURN_NS : AGAIN_NS))
		return WATCH_WAITS;
	switch (feed_ask(&w->feed)) {
	case FEED_ASKED:
		w->again_ns = now;
		w->nobody_ns = 0;
		return WATCH_WAITS;
	case FEED_NOBODY:
		if (!w->nobody_ns)
			w->nobody_ns = now;
		if (!is_over(w, now))
			return WATCH_WAITS;
		/* What it wrote at its end may just have come. */
		feed_look(&w->feed);
		return WATCH_ENDED;
	case FEED_FAILED:
		break;
	}
	return fail(w, w->feed.fifo);
}

static enum watch_state take(struct watch *w, const struct top_dump *group)
{
	struct top_dump *members[COHORT_MAX_RANKS], *d;
	struct top_sample sample;
	int n = 0;

	for (d = w->feed.dumps; d; d = d->next) {
		d->is_member = d->group == group && n < COHORT_MAX_RANKS;
		if (!d->is_member)
			continue;
		members[n++] = d;
		/* It says later how the process has ended. */
		if (d->pidfd < 0 && is_here(d))
			d->pidfd = (int)syscall(SYS_pidfd_open,
			                        flight_of(d)->pid, 0);
	}
	if (!sample_take(&sample, members, n, w->feed.round,
	                 w->sample.n ? &w->sample : NULL))
		return fail(w, "a sample");
	sample_free(&w->sample);
	w->sample = sample;
	w->answered_ns = clock_now();
	return WATCH_ANSWERED;
}

/* The round is complete. */
static enum watch_state end_round(struct watch *w, int answers)
{
	struct top_dump *group = next_group(w, NULL), *other;

	w->is_asked = false;
	w->next_ns = w->asked_ns + w->options->interval_ns;
	if (w->sample.n && !group)
		return WATCH_ENDED;
	w->is_silent = !answers;
	if (!answers)
		return WATCH_SILENT;
	if (!group || (!w->sample.n && next_group(w, group)))
		return WATCH_MANY;
	for (other = group; other; other = next_group(w, other))
		if (flight_of(other)->generation > flight_of(group)->generation)
			group = other;
	return take(w, group);
}

enum watch_state watch_look(struct watch *w)
{
	const uint64_t now = clock_now();
	int answers, awaited;

	if (now < w->next_ns)
		return WATCH_WAITS;
	w->next_ns = now + LOOK_NS;
	if (!w->is_asked)
		begin_round(w, now);
	if (!feed_look(&w->feed))
		return fail(w, w->feed.directory);
	find_groups(w);
	count(w, &answers, &awaited);
	if (answers && !w->first_ns)
		w->first_ns = now;
	if (is_complete(w, now, answers, awaited))
		return end_round(w, answers);
	return ask(w, now, answers && awaited);
}

uint64_t watch_silence(const struct watch *w)
{
	return w->is_silent ? clock_now() - w->answered_ns : 0;
}
