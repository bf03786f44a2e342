/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/adaptive.h"

#include <stdlib.h>

#include "base/util.h"
#include "watch/describe.h"
#include "watch/expiry.h"

/* Size classes: 0 bytes, 1 byte, up to 2 bytes, up to 4, ... up to 2^63. */
#define SIZES 65
#define KINDS (OP_BATCH + 1)

/* Maximum number of operations to observe at one sample. */
#define MOST_AT_ONCE 64

/* ---- estimates -------------------------------------------------------- */

void estimate_add(struct estimate *e, uint64_t took_ns, uint64_t now_ns)
{
	if (!e->is_begun) {
		e->is_begun = true;
		e->began_ns = now_ns;
		return;
	}
	if (e->now.count >= WINDOW_COUNT && now_ns - e->began_ns >= WINDOW_NS) {
		e->before = e->now;
		e->now = (struct window){ .count = 0 };
		e->began_ns = now_ns;
	}
	e->seen++;
	e->now.count++;
	e->now.longest_ns = MAX(e->now.longest_ns, took_ns);
}

struct window estimate_window(const struct estimate *e)
{
	return (struct window){
		.count = e->now.count + e->before.count,
		.longest_ns = MAX(e->now.longest_ns, e->before.longest_ns),
	};
}

uint64_t estimate_limit(const struct estimate *e, const struct adaptive *a,
                        uint64_t most_ns)
{
	uint64_t longest = estimate_window(e).longest_ns, ns;

	if (!a->factor || !e->seen || e->seen < a->warmup)
		return most_ns;
	ns = longest > UINT64_MAX / a->factor ? UINT64_MAX
	                                      : longest * a->factor;
	ns = MAX(ns, a->floor_ns);
	return MIN(ns, most_ns);
}

/* Return how long the process ran between two times, or 0 if the second is not
 * later than the first. */
static uint64_t span(const struct stops *stops, uint64_t from_ns,
                     uint64_t to_ns)
{
	return to_ns > from_ns
	               ? stops_shift(stops, to_ns) - stops_shift(stops, from_ns)
	               : 0;
}

/* ---- comparable operations -------------------------------------------- */

static int size_class(uint64_t bytes)
{
	int log = bytes > 1 ? 64 - __builtin_clzll(bytes - 1) : 0;

	return !bytes ? 0 : log < SIZES - 1 ? log + 1 : SIZES - 1;
}

/* Return the kind and size class of an operation as one number, or -1 if the
 * operation must not be observed. */
static int op_class(const struct record *r)
{
	enum op_kind kind = r->is_batch ? OP_BATCH : r->kind;

	if (r->captured || kind == OP_SPLIT)
		return -1;
	return (int)kind * SIZES + size_class(r->bytes);
}

static enum op_kind kind_of(int op_class)
{
	return (enum op_kind)(op_class / SIZES);
}

/* ---- completed operations --------------------------------------------- */

/* Data about a collective that all ranks of this process have completed. */
struct sample {
	int op_class;
	uint64_t first_ns, last_ns; /* first and last call by a rank */
	/* Latest time at which the collective can have ended. */
	uint64_t done_ns;
};

/* Add one rank's part of a collective to @x.  Return false if the collective is
 * no longer on record, or must not be observed. */
static bool add_part(struct sample *x, const struct cohort_comm *c,
                     uint64_t number, uint64_t now_ns)
{
	const struct agree_slot *slot = agree_slot(c, number);
	struct record r;
	uint64_t arrived;
	int like;

	if (!agree_has(c, number))
		return false;
	arrived = atomic_load(&slot->arrived_ns);
	if (!recorder_read(&c->recorder, atomic_load(&slot->ticket), &r) ||
	    !agree_has(c, number))
		return false;
	/* COHORT_TIMED_OUT stands for a call that has not returned; its
	 * operation is done nevertheless. */
	if (r.outcome != COHORT_OK && r.outcome != COHORT_TIMED_OUT)
		return false;
	like = op_class(&r);
	if (like < 0 || (x->last_ns && like != x->op_class))
		return false;
	x->op_class = like;
	if (!x->last_ns || arrived < x->first_ns)
		x->first_ns = arrived;
	x->last_ns = MAX(x->last_ns, arrived);
	x->done_ns = MAX(x->done_ns, r.finished_ns ? r.finished_ns : now_ns);
	return true;
}

static bool take_sample(struct sample *x, const struct clique *q,
                        uint64_t number, uint64_t now_ns)
{
	int r;

	*x = (struct sample){ .op_class = -1 };
	for (r = 0; r < q->size; r++)
		if (!add_part(x, &q->comms[r], number, now_ns))
			return false;
	return true;
}

/* Observe an operation that was not the front collective before @began_ns. */
static void add_sample(struct observer *o, const struct snapshot *s,
                       const struct sample *x, uint64_t began_ns)
{
	struct comparable *c = &o->all[x->op_class];
	const uint64_t first = MAX(x->first_ns, began_ns);
	const uint64_t last = MAX(x->last_ns, began_ns);

	estimate_add(&c->join, span(&s->stops, first, x->last_ns), s->now_ns);
	estimate_add(&c->exec, span(&s->stops, last, x->done_ns), s->now_ns);
}

/* Observe the previous sample's front collective, which is now done.  Estimate
 * its times from that sample, because its record has been overwritten. */
static void observe_overwritten(struct observer *o, const struct snapshot *s)
{
	const struct front *f = &o->front;
	struct comparable *c = &o->all[f->op_class];
	const uint64_t first = MAX(f->first_ns, f->moved_ns);
	const uint64_t last =
		f->all_joined ? MAX(f->last_ns, f->moved_ns) : o->sampled_ns;

	estimate_add(&c->join,
	             span(&s->stops, first,
	                  f->all_joined ? f->last_ns : s->now_ns),
	             s->now_ns);
	estimate_add(&c->exec, span(&s->stops, last, s->now_ns), s->now_ns);
}

static void observe_front(struct observer *o, const struct snapshot *s,
                          const struct clique *q)
{
	struct sample x;

	if (take_sample(&x, q, o->front.number, s->now_ns))
		add_sample(o, s, &x, o->front.moved_ns);
	else if (o->front.op_class >= 0)
		observe_overwritten(o, s);
}

static uint64_t done_everywhere(const struct snapshot *s)
{
	uint64_t next = UINT64_MAX;
	int i;

	for (i = 0; i < s->size; i++)
		next = MIN(next, s->next[i]);
	return next - 1;
}

/* Observe the operations that ended since the last sample.  If there are many,
 * observe only the newest. */
static void observe_ended(struct observer *o, const struct snapshot *s,
                          const struct clique *q, uint64_t excused)
{
	const uint64_t done = done_everywhere(s), front = o->front.number;
	uint64_t n = MAX(o->done, excused) + 1;
	struct sample x;

	if (front && front > excused && front <= done)
		observe_front(o, s, q);
	if (done > MOST_AT_ONCE)
		n = MAX(n, done - MOST_AT_ONCE + 1);
	for (; n <= done; n++)
		if (n != front && take_sample(&x, q, n, s->now_ns))
			/* The front collective was not done at sampled_ns, so
			 * these operations waited at least until then. */
			add_sample(o, s, &x, front ? o->sampled_ns : 0);
}

/* ---- the front -------------------------------------------------------- */

/* Return the kind and size class of the front collective, from the records of
 * the ranks that have called it, or -1 if they differ. */
static int op_class_of_front(const struct snapshot *s)
{
	const struct rank_snapshot *r;
	int like = -1;

	for (r = s->ranks; r < s->ranks + s->size; r++) {
		if (!r->joined || !r->call.ticket)
			continue;
		if (like >= 0 && op_class(&r->call) != like)
			return -1;
		like = op_class(&r->call);
		if (like < 0)
			return -1;
	}
	return like;
}

static struct front sample_front(const struct observer *o,
                                 const struct snapshot *s)
{
	const struct rank_snapshot *r;
	struct front f = {
		.number = s->front,
		.op_class = op_class_of_front(s),
		.seen_ns = s->front == o->front.number ? o->front.seen_ns
		                                       : s->now_ns,
		.moved_ns = s->moved_ns,
		.first_ns = UINT64_MAX,
		.all_joined = s->all_joined,
	};

	for (r = s->ranks; r < s->ranks + s->size; r++) {
		if (!r->joined)
			continue;
		f.first_ns = MIN(f.first_ns, r->arrived_ns);
		f.last_ns = MAX(f.last_ns, r->arrived_ns);
	}
	return f;
}

/* Return the adaptive limit, or 0 if none applies. */
static uint64_t limit_of(const struct estimate *e, const struct adaptive *asked)
{
	uint64_t ns = estimate_limit(e, asked, UINT64_MAX);

	return ns == UINT64_MAX ? 0 : ns;
}

static void adapt(const struct observer *o, struct snapshot *s)
{
	const struct comparable *c = &o->all[o->front.op_class];

	s->adapted = (struct adapted){
		.limits = { limit_of(&c->join, &o->asked),
		            limit_of(&c->exec, &o->asked) },
		.since_ns = o->front.seen_ns,
		.asked = o->asked,
		.join = estimate_window(&c->join),
		.exec = estimate_window(&c->exec),
		.op_class = o->front.op_class,
	};
}

/* ---- the observer ----------------------------------------------------- */

bool observer_init(struct observer *o, const struct adaptive *asked)
{
	*o = (struct observer){ .asked = *asked };
	if (!asked->factor)
		return true;
	o->all = calloc(KINDS * SIZES, sizeof(*o->all));
	return o->all;
}

void observer_fini(struct observer *o)
{
	free(o->all);
}

/* Return the number of the last excused collective (adaptive.h, G). */
static uint64_t excused_by(const struct clique *q)
{
	uint64_t number = 1, excused;
	int r;

	for (r = 0; r < q->size; r++) {
		excused = atomic_load(&q->comms[r].deadlines.excused);
		number = MAX(number, excused);
	}
	return number;
}

void observer_update(struct observer *o, struct snapshot *s,
                     const struct clique *q)
{
	bool is_excused;
	uint64_t excused;

	s->adapted = (struct adapted){ .since_ns = 0 };
	if (!o->all)
		return;
	/* Loaded in this order, so that a collective stays excused if a pop or
	 * a resume happens between the loads. */
	is_excused = atomic_load(&q->pushed) > 0 || s->paused ||
	             atomic_load(&q->paused) > 0;
	excused = excused_by(q);
	if (!is_excused && !cause_or_closing(q->end))
		observe_ended(o, s, q, excused);
	o->front = sample_front(o, s);
	o->done = done_everywhere(s);
	o->sampled_ns = s->now_ns;
	if (!is_excused && s->front > excused && o->front.op_class >= 0)
		adapt(o, s);
}

/* ---- texts ------------------------------------------------------------ */

/* Add a time, with three digits if it is shorter than 10 ms. */
static void add_span(struct text *t, uint64_t ns)
{
	if (ns < 10000000)
		text_add(t, "%.3g ms", (double)ns / 1e6);
	else
		describe_time(t, ns);
}

static void add_size(struct text *t, int size)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB",
		                             "TiB",   "PiB", "EiB" };

	if (size > 0)
		text_add(t, " of up to %d %s", 1 << (size - 1) % 10,
		         size == 1 ? "byte" : units[(size - 1) / 10]);
}

void adaptive_add(struct text *t, const struct snapshot *s,
                  const struct expiry *due)
{
	const struct adapted *a = &s->adapted;
	const struct window *w = s->all_joined ? &a->exec : &a->join;

	if (!due->is_adapted)
		return;
	text_add(t, " (%u x ", a->asked.factor);
	add_span(t, w->longest_ns);
	text_add(t, ", observed over %llu %s operation%s",
	         (unsigned long long)w->count, op_name(kind_of(a->op_class)),
	         w->count == 1 ? "" : "s");
	add_size(t, a->op_class % SIZES);
	text_add(t, "; at least ");
	describe_time(t, a->asked.floor_ns);
	text_add(t, ", at most ");
	describe_time(t, due->most_ns);
	text_add(t, ")");
}
