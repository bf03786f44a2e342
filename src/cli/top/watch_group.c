/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: requests a dump from a group in each round, and collects the
 * answers
 *
 * All groups of a process that has the FIFO open answer a request. If several
 * processes share the FIFO, only one of them reads a request. So the request is
 * repeated until each process has answered.
 */

#include "cli/top/top.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"
#include "cli/common/cli.h"

/* Time to wait for the answers of other groups after the first answer */
#define SETTLE_NS (NS_PER_S * 3 / 10)

/* Time to wait for the answers of the other processes of a group */
#define OTHERS_NS (NS_PER_S * 3 / 2)

/* Longest duration of a round, and the times after which a request is
 * repeated */
#define DEADLINE_NS (2 * NS_PER_S)
#define AGAIN_NS NS_PER_S
#define TURN_NS (NS_PER_S / 10)

/* Interval at which the folder is checked for answers */
#define LOOK_NS (NS_PER_S / 50)

/* Time that a living process can be without its FIFO, for instance while its
 * group respawns */
#define GONE_NS (5 * NS_PER_S)

static const struct flight *flight_of(const struct top_dump *d)
{
	return &d->trace->flight;
}

/* Return whether the process that wrote @d is or was on this machine. */
static bool is_here(const struct top_dump *d)
{
	char host[sizeof(flight_of(d)->host)] = "";

	return flight_of(d)->pid > 0 && !gethostname(host, sizeof(host) - 1) &&
	       strcmp(host, flight_of(d)->host) == 0;
}

static bool is_dead(const struct top_dump *d)
{
	return is_here(d) && thread_process_is_gone(flight_of(d)->pid);
}

/* Return whether a group is closed: it has not answered in the last two rounds,
 * but its process has just answered for another group. */
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

/* Append how the process ended, unless it is running or has closed the group
 * (exited with 0, or removed the FIFO). */
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

/* Store the location of a thread: the innermost frame of the program, with
 * which the stack's text starts. */
static void find_frame(struct top_rank *r, const struct trace_stack *s)
{
	const size_t n = strcspn(s->text, " ");
	char place[PLACE_PATH + 32];
	struct trace_frame *f;

	for (f = s->frames; f < s->frames + s->n && !*r->frame; f++) {
		snprintf(place, sizeof(place), "%s+0x%" PRIx64,
		         basename(f->path), f->offset);
		if (strlen(place) != n || memcmp(place, s->text, n) != 0)
			continue;
		trace_name_frame(f);
		text_copy(r->frame, sizeof(r->frame),
		          *f->function ? f->function : place);
	}
}

/* Find what each thread that is outside the library does, from its stack or, if
 * the dump has none, from the kernel. */
static void find_threads(struct top_sample *sample, const struct top_dump *d)
{
	const struct trace_stacks *stacks = &d->trace->stacks;
	const struct trace_stack *s;
	struct top_rank *r;
	char state;

	for (r = sample->ranks; r < sample->ranks + sample->n; r++) {
		if (r->pid != flight_of(d)->pid || !r->tid ||
		    (r->state != TOP_OUTSIDE && r->state != TOP_WAITING))
			continue;
		for (s = stacks->at; s < stacks->at + stacks->n; s++)
			if (s->rank == r->rank && s->tid == r->tid)
				break;
		if (s < stacks->at + stacks->n) {
			text_copy(r->thread, sizeof(r->thread), s->state);
			find_frame(r, s);
			continue;
		}
		/* Leave the state empty if the thread has ended or is
		 * unknown. */
		state = is_here(d) ? thread_process_state(r->tid) : '\0';
		if (state && strchr("RSDTt", state))
			text_copy(r->thread, sizeof(r->thread),
			          thread_state_name(state));
	}
}

/* Return whether @d, a dump written after a verdict, belongs to the sample's
 * group and to one of its processes. */
static bool is_of_sample(const struct watch *w, const struct top_dump *d)
{
	const struct top_dump *member;

	for (member = w->feed.dumps; member; member = member->next)
		if (member->is_member && feed_same_process(member, d) &&
		    strcmp(flight_of(member)->group, flight_of(d)->group) == 0)
			return flight_of(d)->generation >= w->sample.generation;
	return false;
}

/* Find the newest cause in the verdicts' dumps that have arrived since the feed
 * was opened. */
static void find_cause(struct watch *w)
{
	struct top_sample *s = &w->sample;
	uint64_t newest = 0;

	for (struct top_dump *d = w->feed.dumps; d; d = d->next) {
		if (!d->is_verdict)
			continue;
		d->trace = feed_read(&w->feed, d->file, 1);
		if (!d->trace->is_found || !is_of_sample(w, d) ||
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

	find_cause(w);
	if (w->sample.cause.status != COHORT_OK)
		return true;
	for (const struct top_dump *d = w->feed.dumps; d; d = d->next)
		if (d->is_member && is_here(d))
			add_gone(&t, w, d);
	return !*w->sample.gone;
}

static bool belongs_to(const struct top_dump *d, const struct top_dump *group)
{
	const struct flight *f = flight_of(d), *g = flight_of(group);

	if (strcmp(g->group, f->group) != 0 || strcmp(g->host, f->host) != 0 ||
	    g->generation != f->generation || g->world != f->world)
		return false;
	for (int r = 0; r < f->size; r++)
		if (rank_set_has(group->ranks, f->ranks[r].rank))
			return false;
	return true;
}

/* Return whether the options select the group of this dump. */
static bool is_named(const struct top_options *o, const struct top_dump *d)
{
	return (!o->pid || o->pid == flight_of(d)->pid) &&
	       (!o->group || strcmp(o->group, flight_of(d)->group) == 0);
}

/* Group the dumps of this round and the older dumps of members that can still
 * answer. */
static void find_groups(struct watch *w)
{
	struct feed *f = &w->feed;
	struct top_dump *d, *g;

	for (d = f->dumps; d; d = d->next) {
		d->group = NULL;
		d->is_shown = false;
		memset(d->ranks, 0, sizeof(d->ranks));
		if (!d->trace ||
		    (d->round != f->round &&
		     (!d->is_member || is_closed(f, d) || is_dead(d))))
			continue;
		for (g = f->dumps; g != d; g = g->next)
			if (g->group == g && belongs_to(d, g))
				break;
		d->group = g;
		g->is_shown |=
			w->sample.n ? d->is_member : is_named(w->options, d);
		for (int r = 0; r < flight_of(d)->size; r++)
			rank_set_add(g->ranks, flight_of(d)->ranks[r].rank);
	}
}

/* Return whether the group was split from another matching group. Its name is
 * then the other group's name, a dot and a color. */
static bool is_child(const struct watch *w, const struct top_dump *group)
{
	size_t n;

	for (const struct top_dump *g = w->feed.dumps; g; g = g->next) {
		if (!g->is_shown)
			continue;
		n = strlen(flight_of(g)->group);
		if (strncmp(flight_of(group)->group, flight_of(g)->group, n) ==
		            0 &&
		    flight_of(group)->group[n] == '.')
			return true;
	}
	return false;
}

/* Return the first group after @g that can be shown, or NULL if there is none.
 * Search from the start if @g is NULL. */
static struct top_dump *next_group(const struct watch *w, struct top_dump *g)
{
	for (g = g ? g->next : w->feed.dumps; g; g = g->next)
		if (g->is_shown && (w->sample.n || !is_child(w, g)))
			break;
	return g;
}

void watch_list(const struct watch *w)
{
	struct top_dump *g = next_group(w, NULL), *d;
	char line[1000];
	struct text t;

	if (!g) {
		cli_error("no group that has answered has this %s",
		          !w->options->pid    ? "name"
		          : w->options->group ? "name and process"
		                              : "process");
		return;
	}
	cli_error("several groups have answered: choose one with --group or "
	          "--pid");
	for (; g; g = next_group(w, g)) {
		t = (struct text){ line, sizeof(line) };
		text_add(&t, "  \"%s\", generation %d, %d ranks, process",
		         flight_of(g)->group, flight_of(g)->generation,
		         flight_of(g)->world);
		for (d = g; d; d = d->next)
			if (d->group == g)
				text_add(&t, " %d", flight_of(d)->pid);
		cli_error("%s", line);
	}
}

static enum watch_state fail(struct watch *w, const char *what)
{
	w->failed = what;
	w->error = errno;
	return WATCH_FAILED;
}

/* Count this round's answers and the answers that are still missing: from
 * members or, in the first round, from other processes of the groups. */
static void count(const struct watch *w, int *answers, int *awaited)
{
	*answers = *awaited = 0;
	for (const struct top_dump *d = w->feed.dumps; d; d = d->next) {
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

/* Return whether the round is over: all answers have arrived, or it is too late
 * for more. */
static bool is_complete(const struct watch *w, uint64_t now, int answers,
                        int awaited)
{
	if (!answers || (w->sample.n && awaited))
		return now - w->asked_ns >= DEADLINE_NS;
	return w->sample.n ||
	       now - w->first_ns >= (awaited ? OTHERS_NS : SETTLE_NS);
}

/* Return true if all processes of the group have ended, or if no process has
 * had the FIFO open for GONE_NS. */
static bool is_over(const struct watch *w, uint64_t now)
{
	for (const struct top_dump *d = w->feed.dumps; d; d = d->next)
		if (d->is_member && !is_dead(d))
			return now - w->nobody_ns >= GONE_NS;
	return true;
}

/* Write to the FIFO, unless the last write was too recent. If @is_turn is true,
 * another process must read the request, and the required interval is
 * shorter. */
static enum watch_state request_dump(struct watch *w, uint64_t now,
                                     bool is_turn)
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
		/* The last process may have written a dump as it ended. */
		feed_poll(&w->feed);
		return WATCH_ENDED;
	case FEED_FAILED:
		break;
	}
	return fail(w, w->feed.fifo);
}

static enum watch_state take_sample(struct watch *w,
                                    const struct top_dump *group)
{
	struct top_dump *members[COHORT_MAX_RANKS] = { NULL }, *d;
	struct top_sample sample;
	int n = 0;

	for (d = w->feed.dumps; d; d = d->next) {
		d->is_member = d->group == group && n < COHORT_MAX_RANKS;
		if (!d->is_member)
			continue;
		members[n++] = d;
		/* Later, the pidfd shows how the process ended. */
		if (d->pidfd < 0 && is_here(d))
			d->pidfd = (int)syscall(SYS_pidfd_open,
			                        flight_of(d)->pid, 0);
	}
	sample_take(&sample, members, n, w->feed.round,
	            w->sample.n ? &w->sample : NULL);
	while (n > 0)
		find_threads(&sample, members[--n]);
	sample_free(&w->sample);
	w->sample = sample;
	w->answered_ns = clock_now();
	return WATCH_ANSWERED;
}

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
	return take_sample(w, group);
}

enum watch_state watch_poll(struct watch *w)
{
	const uint64_t now = clock_now();
	int answers, awaited;

	if (now < w->next_ns)
		return WATCH_WAITS;
	w->next_ns = now + LOOK_NS;
	if (!w->is_asked) {
		w->is_asked = true;
		w->asked_ns = now;
		w->again_ns = 0; /* makes request_dump() write immediately */
		w->feed.round++;
		w->feed.problem[0] = '\0';
		if (!w->answered_ns)
			w->answered_ns = now;
	}
	if (!feed_poll(&w->feed))
		return fail(w, w->feed.directory);
	find_groups(w);
	count(w, &answers, &awaited);
	if (answers && !w->first_ns)
		w->first_ns = now;
	if (is_complete(w, now, answers, awaited))
		return end_round(w, answers);
	return request_dump(w, now, answers && awaited);
}

uint64_t watch_silence(const struct watch *w)
{
	return w->is_silent ? clock_now() - w->answered_ns : 0;
}
