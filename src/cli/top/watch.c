/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: rounds, in each of which a group is asked for a dump and answers
 *
 * All groups of a process that have the FIFO answer what is written to it.  Processes that
 * share it take turns: one of them reads what was written, so it is written again until
 * each has answered.
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

#define NS_PER_MS UINT64_C(1000000)

/* How long other groups have to answer after the first one, and other processes. */
#define SETTLE_NS (300 * NS_PER_MS)
#define OTHERS_NS (1500 * NS_PER_MS)

/* How long a round may take, and when it asks again. */
#define DEADLINE_NS (2000 * NS_PER_MS)
#define AGAIN_NS (1000 * NS_PER_MS)
#define TURN_NS (100 * NS_PER_MS)

/* How long a living process may be without its FIFO, as while its group respawns. */
#define GONE_NS (5000 * NS_PER_MS)

/* Groups that are told apart. */
#define GROUPS 64

/* Dumps that have the same name, generation and size, and ranks of their own. */
struct found {
	int n; /* groups */
	struct found_group {
		const struct flight *flight; /* of the first dump */
		uint64_t ranks[COHORT_RANK_WORDS];
		bool is_child; /* was split from another one */
	} groups[GROUPS];
};

static const struct flight *flight_of(const struct top_dump *d)
{
	return &d->trace->flight;
}

/* ---- processes --------------------------------------------------------- */

/* True if the process does not exist, or its parent has yet to hear of its end. */
static bool has_ended(int pid)
{
	char state;

	if (kill(pid, 0) && errno == ESRCH)
		return true;
	state = thread_process_state(pid);
	return state == 'Z' || state == 'X';
}

static bool is_here(const char *its_host)
{
	char host[sizeof(((struct flight *)NULL)->host)] = "";

	return !gethostname(host, sizeof(host) - 1) &&
	       strcmp(host, its_host) == 0;
}

static bool is_dead(const struct flight *f)
{
	return f->pid > 0 && is_here(f->host) && has_ended(f->pid);
}

/* The process of that number among those that have answered; NULL if it has not. */
static const struct top_process *find_process(const struct watch *w, int pid)
{
	const struct top_process *p = w->processes;
	const struct top_process *end = p + w->n_processes;

	while (p < end && p->pid != pid)
		p++;
	return p < end ? p : NULL;
}

/* Open a pidfd, by which it can be seen later how the process has ended. */
static void hold_process(struct watch *w, const struct flight *f)
{
	if (f->pid <= 0 || w->n_processes == COHORT_MAX_RANKS ||
	    !is_here(f->host) || find_process(w, f->pid))
		return;
	w->processes[w->n_processes++] =
		(struct top_process){ f->pid,
		                      (int)syscall(SYS_pidfd_open, f->pid, 0) };
}

/* Add how process @p has ended, unless it runs or has closed the group: then it has removed
 * the FIFO, or has exited with 0. */
static void add_gone(struct text *t, const struct watch *w,
                     const struct top_process *p)
{
	const int status = thread_process_end(p->pid, p->pidfd);

	if (!status ||
	    (status < 0 && (!has_ended(p->pid) || access(w->feed.fifo, F_OK))))
		return;
	text_add(t, "%sprocess %d ", *w->sample.gone ? ", " : "", p->pid);
	thread_add_end(t, status);
}

bool watch_find_gone(struct watch *w)
{
	struct top_sample *s = &w->sample;
	struct text t = { s->gone, sizeof(s->gone) };
	const struct top_process *p;
	int i, pid = 0;

	for (i = 0; i < s->n; i++) {
		p = s->ranks[i].pid == pid ? NULL
		                           : find_process(w, s->ranks[i].pid);
		pid = s->ranks[i].pid;
		if (p)
			add_gone(&t, w, p);
	}
	return *s->gone;
}

void watch_close(struct watch *w)
{
	while (w->n_processes--)
		if (w->processes[w->n_processes].pidfd >= 0)
			close(w->processes[w->n_processes].pidfd);
}

static bool is_same_process(const struct flight *a, const struct flight *b)
{
	return a->pid == b->pid && strcmp(a->host, b->host) == 0;
}

/* True if a later generation of its group has answered. */
static bool is_replaced(const struct feed *f, const struct top_dump *d)
{
	const struct flight *other;
	int i;

	for (i = 0; i < f->n; i++) {
		if (!f->dumps[i].trace || f->dumps[i].round != f->round)
			continue;
		other = flight_of(&f->dumps[i]);
		if (is_same_process(other, flight_of(d)) &&
		    strcmp(other->group, flight_of(d)->group) == 0 &&
		    other->generation > flight_of(d)->generation)
			return true;
	}
	return false;
}

/* True if a group has missed a round and this one, while its process has answered for
 * another group. */
static bool is_closed(const struct feed *f, const struct top_dump *d)
{
	int i;

	for (i = 0; d->round + 1 < f->round && i < f->n; i++)
		if (f->dumps[i].trace && f->dumps[i].round == f->round &&
		    is_same_process(flight_of(&f->dumps[i]), flight_of(d)))
			return true;
	return false;
}

/* True if a dump that is not of this round is still what there is to show. */
static bool lasts(const struct feed *f, const struct top_dump *d)
{
	return d->is_member && !is_replaced(f, d) && !is_closed(f, d) &&
	       !is_dead(flight_of(d));
}

/* ---- groups ------------------------------------------------------------ */

static bool belongs_to(const struct found_group *g, const struct flight *f)
{
	int r;

	if (strcmp(g->flight->group, f->group) != 0 ||
	    strcmp(g->flight->host, f->host) != 0 ||
	    g->flight->generation != f->generation ||
	    g->flight->world != f->world)
		return false;
	for (r = 0; r < f->size; r++)
		if (rank_set_has(g->ranks, f->ranks[r].rank))
			return false;
	return true;
}

/* Tell the groups of this round's dumps apart; the dumps get the group's number. */
static void find_groups(struct feed *f, struct found *found)
{
	struct top_dump *d;
	int g, r;

	found->n = 0;
	for (d = f->dumps; d < f->dumps + f->n; d++) {
		d->group = -1;
		if (!d->trace || is_replaced(f, d) ||
		    (d->round != f->round && !lasts(f, d)))
			continue;
		for (g = 0; g < found->n; g++)
			if (belongs_to(&found->groups[g], flight_of(d)))
				break;
		if (g == GROUPS)
			continue;
		if (g == found->n)
			found->groups[found->n++] = (struct found_group){
				.flight = flight_of(d),
			};
		d->group = g;
		for (r = 0; r < flight_of(d)->size; r++)
			rank_set_add(found->groups[g].ranks,
			             flight_of(d)->ranks[r].rank);
	}
}

/* A communicator that was split from another one has its name, a dot and a color. */
static void find_children(struct found *found)
{
	const char *name, *parent;
	size_t n;
	int i, j;

	for (i = 0; i < found->n; i++)
		for (j = 0; j < found->n; j++) {
			name = found->groups[i].flight->group;
			parent = found->groups[j].flight->group;
			n = strlen(parent);
			if (strncmp(name, parent, n) == 0 && name[n] == '.')
				found->groups[i].is_child = true;
		}
}

static bool is_whole(const struct found_group *g)
{
	int r;

	for (r = 0; r < g->flight->world; r++)
		if (!rank_set_has(g->ranks, r))
			return false;
	return true;
}

static bool has_pid(const struct feed *f, int group, int pid)
{
	int i;

	for (i = 0; i < f->n; i++)
		if (f->dumps[i].group == group &&
		    flight_of(&f->dumps[i])->pid == pid)
			return true;
	return false;
}

/* True if the options name the group, or leave it open. */
static bool is_named(const struct watch *w, const struct found *found, int g)
{
	const struct top_options *o = w->options;

	return (!o->group ||
	        strcmp(o->group, found->groups[g].flight->group) == 0) &&
	       (!o->pid || has_pid(&w->feed, g, o->pid));
}

/* True if it is the group of the last sample, or its next generation. */
static bool goes_on(const struct watch *w, const struct found *found, int g)
{
	int i;

	if (strcmp(w->sample.group, found->groups[g].flight->group) != 0)
		return false;
	for (i = 0; i < w->sample.n; i++)
		if (has_pid(&w->feed, g, w->sample.ranks[i].pid))
			return true;
	return false;
}

/* Groups with one name in one process: the one with members goes on. */
static bool has_member(const struct feed *f, int group)
{
	int i;

	for (i = 0; i < f->n; i++)
		if (f->dumps[i].group == group && f->dumps[i].is_member)
			return true;
	return false;
}

static void list(struct watch *w, const struct found *found)
{
	struct text t = { w->problem, sizeof(w->problem) };
	int g, i;

	text_add(&t, "several groups: name one by --group or --pid");
	for (g = 0; g < found->n; g++) {
		if (!is_named(w, found, g))
			continue;
		text_add(&t, "\n  \"%s\", generation %d, %d ranks, process",
		         found->groups[g].flight->group,
		         found->groups[g].flight->generation,
		         found->groups[g].flight->world);
		for (i = 0; i < w->feed.n; i++)
			if (w->feed.dumps[i].group == g)
				text_add(&t, " %d",
				         flight_of(&w->feed.dumps[i])->pid);
	}
}

/* Choose the group to show: its number, -1 for none, -2 for several. */
static int choose(const struct watch *w, const struct found *found)
{
	int chosen = -1, g;
	bool with_children;

	for (g = 0; w->sample.n && g < found->n; g++)
		if (goes_on(w, found, g) &&
		    (chosen < 0 || has_member(&w->feed, g)))
			chosen = g;
	if (w->sample.n)
		return chosen;
	for (with_children = false; chosen == -1; with_children = true) {
		for (g = 0; g < found->n; g++)
			if (is_named(w, found, g) &&
			    found->groups[g].is_child == with_children)
				chosen = chosen == -1 ? g : -2;
		if (with_children)
			break;
	}
	return chosen;
}

/* ---- rounds ------------------------------------------------------------ */

static enum watch_state fail(struct watch *w, const char *what, int err)
{
	snprintf(w->problem, sizeof(w->problem), "%.1900s: %s", what,
	         strerror(err));
	return WATCH_FAILED;
}

void watch_ask(struct watch *w)
{
	w->asked_ns = clock_now();
	w->again_ns = 0; /* watch_look() writes */
	w->feed.round++;
	w->feed.problem[0] = '\0';
	if (!w->answered_ns)
		w->answered_ns = w->asked_ns;
}

/* Count this round's answers, and the members that have not answered yet. */
static void count(const struct feed *f, int *answers, int *awaited)
{
	const struct top_dump *d;

	*answers = *awaited = 0;
	for (d = f->dumps; d < f->dumps + f->n; d++) {
		if (!d->trace)
			continue;
		if (d->round == f->round)
			++*answers;
		else if (lasts(f, d))
			++*awaited;
	}
}

static bool is_every_group_whole(const struct found *found)
{
	int g;

	for (g = 0; g < found->n; g++)
		if (!is_whole(&found->groups[g]))
			return false;
	return true;
}

/* True if no process is left that could have the FIFO again. */
static bool is_over(const struct watch *w, uint64_t now)
{
	const struct top_dump *d;

	for (d = w->feed.dumps; d < w->feed.dumps + w->feed.n; d++)
		if (d->is_member && !is_dead(flight_of(d)))
			return now - w->nobody_ns >= GONE_NS;
	return true;
}

/* Write to the FIFO, again after a while; soon if it is another process's turn. */
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
	return fail(w, w->feed.fifo, errno);
}

static enum watch_state take(struct watch *w, int group)
{
	struct top_dump *members[COHORT_MAX_RANKS], *d;
	struct top_sample sample;
	int n = 0;

	for (d = w->feed.dumps; d < w->feed.dumps + w->feed.n; d++) {
		d->is_member = d->trace && d->group == group;
		if (!d->is_member || n == COHORT_MAX_RANKS)
			continue;
		members[n++] = d;
		hold_process(w, flight_of(d));
	}
	if (!sample_take(&sample, members, n, w->feed.round,
	                 w->sample.n ? &w->sample : NULL))
		return fail(w, "a sample", ENOMEM);
	sample_free(&w->sample);
	w->sample = sample;
	w->answered_ns = clock_now();
	return WATCH_ANSWERED;
}

/* The first round: all groups must have had the time to answer. */
static enum watch_state begin(struct watch *w, uint64_t now)
{
	struct found found;
	int group;

	find_groups(&w->feed, &found);
	if (!found.n && now - w->asked_ns < DEADLINE_NS)
		return WATCH_WAITS;
	if (!found.n)
		return WATCH_SILENT;
	if (!w->first_ns)
		w->first_ns = now;
	w->is_part = !is_every_group_whole(&found);
	if (now - w->first_ns < (w->is_part ? OTHERS_NS : SETTLE_NS))
		return WATCH_WAITS;
	find_children(&found);
	group = choose(w, &found);
	if (group >= 0) {
		w->is_part = false;
		return take(w, group);
	}
	if (group == -2) {
		list(w, &found);
		return WATCH_MANY;
	}
	snprintf(w->problem, sizeof(w->problem),
	         "no group that answers has this %s",
	         !w->options->pid    ? "name"
	         : w->options->group ? "name and process"
	                             : "process");
	return WATCH_MANY;
}

/* A later round. */
static enum watch_state go_on(struct watch *w, uint64_t now, int answers,
                              int awaited)
{
	struct found found;
	int group;

	if ((awaited || !answers) && now - w->asked_ns < DEADLINE_NS)
		return WATCH_WAITS;
	find_groups(&w->feed, &found);
	group = choose(w, &found);
	if (group < 0)
		return WATCH_ENDED;
	return answers ? take(w, group) : WATCH_SILENT;
}

enum watch_state watch_look(struct watch *w)
{
	const uint64_t now = clock_now();
	enum watch_state state;
	int answers, awaited;

	if (!feed_look(&w->feed))
		return fail(w, w->feed.directory, errno);
	count(&w->feed, &answers, &awaited);
	state = w->sample.n ? go_on(w, now, answers, awaited) : begin(w, now);
	if (state != WATCH_WAITS)
		return state;
	return ask(w, now, answers && (awaited || w->is_part));
}

uint64_t watch_silence(const struct watch *w, enum watch_state state)
{
	return state == WATCH_SILENT ? clock_now() - w->answered_ns : 0;
}
