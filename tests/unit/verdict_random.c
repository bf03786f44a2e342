/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of many verdicts on random snapshots. Each verdict must obey these
 * rules:
 *
 *  A. The blamed rank has not done what most ranks have: if a majority has
 *     called, the blamed rank has not; if all have called, it is not done.
 *  B. The verdict and its text name a rank, or the text says that none can be
 *     named.
 *  C. The sets of joined and missing ranks contain only ranks that exist, and
 *     the blamed rank is in the set of missing ranks.
 *  D. The text is complete: it ends within its room, and the line has 1 to 200
 *     bytes.
 *
 * A failure prints the seed. If VERDICT_SEED is set, it is tried first.
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "watch/verdict.h"

#define ROUNDS 300000
#define MAX_SIZE 9
#define NOW (UINT64_C(1000) * 1000000000)

static struct rank_snapshot ranks[MAX_SIZE];
static struct snapshot s;
static struct verdict out;
static uint64_t state;

static unsigned below(unsigned n)
{
	return (unsigned)(random_next(&state) % n);
}

static bool maybe(unsigned percent)
{
	return below(100) < percent;
}

static uint64_t ago(void)
{
	return NOW - 1 - below(1000000) * UINT64_C(1000);
}

static struct record random_call(uint64_t ticket)
{
	return (struct record){
		.ticket = maybe(90) ? ticket : 0,
		.submitted_ns = ago(),
		.is_batch = maybe(10),
		.kind = (enum op_kind)below(OP_BATCH + 1),
		.type = (int)below(12),
		.redop = (int)below(6),
		.root = (int)below(MAX_SIZE),
		.n = below(3),
		.count = below(100000),
		.bytes = below(100000),
		.outcome = maybe(20) ? COHORT_TIMED_OUT : COHORT_OK,
	};
}

static void random_front_of(struct rank_snapshot *r, unsigned percent)
{
	r->joined = maybe(percent);
	if (!r->joined)
		return;
	r->in_call = maybe(10);
	r->started = !r->in_call && maybe(60);
	r->done = r->started && maybe(30);
	r->arrived_ns = ago();
	r->limits = (struct limits){ 1 + below(1000), 1 + below(1000) };
	r->call = random_call(7);
}

static void random_rank(struct rank_snapshot *r, int rank, unsigned percent)
{
	*r = (struct rank_snapshot){
		.rank = rank,
		.device = rank,
		.inside = maybe(20),
		.waiting = maybe(40),
		.native = maybe(5),
		.idle = maybe(50),
		.closed = maybe(5),
		.last = random_call(12),
		.bound = maybe(50),
		.tid = maybe(90) ? 4000 + rank : 0,
		.alive = maybe(80) ? 1 : (int)below(3) - 1,
		.captured = maybe(10),
	};
	r->staged = r->inside && !r->native && maybe(30);
	random_front_of(r, percent);
}

static void random_transfer(void)
{
	struct transfer_snapshot *x = &s.transfer;
	const struct rank_snapshot *r;

	*x = (struct transfer_snapshot){
		.number = 1 + below(9),
		.rank = ranks[below((unsigned)s.size)].rank,
		.peer = (int)below((unsigned)s.world),
		.sends = maybe(50),
		.count = below(1000),
		.type = (int)below(12),
		.since_ns = ago(),
		.allowed_ns = 1 + below(1000),
		.own = { maybe(20), maybe(60), false },
	};
	r = snapshot_rank(&s, x->peer);
	x->is_local = r;
	x->met = !r || maybe(50);
	if (r && x->met)
		x->other = (struct half){ maybe(20), maybe(60), maybe(20) };
}

static void random_crossing(void)
{
	struct crossing *c = &s.crossing;
	int first = (int)below((unsigned)s.size);
	int second = (int)below((unsigned)s.size);
	const struct rank_snapshot *b = &ranks[second];
	int i;

	*c = (struct crossing){ .group = "tp", .collective = 3 };
	for (i = 0; i < s.world; i++)
		rank_set_add(c->members, i);
	for (i = 0; i < s.size; i++)
		if (ranks[i].joined || maybe(50))
			rank_set_add(ranks[i].joined ? c->here_first
			                             : c->there_first,
			             ranks[i].rank);
	if (maybe(90) || first == second || !ranks[first].joined || b->done)
		return;
	c->exists = true;
	c->first = (struct crossing_side){ .rank = ranks[first].rank,
		                           .here_ns = ago() };
	c->second = (struct crossing_side){ .rank = b->rank,
		                            .here_ns = b->joined ? ago() : 0,
		                            .there_ns = ago() };
	if (maybe(10))
		snprintf(c->ended, sizeof(c->ended), "said there");
}

static void random_snapshot(void)
{
	unsigned percent = below(5) * 25;
	int i, gap = maybe(20); /* if 1, odd world ranks are remote */

	s = (struct snapshot){
		.group = "dp",
		.generation = 1,
		.size = 1 + (int)below(MAX_SIZE),
		.abort_ns = 1000,
		.starts_are_marked = maybe(80),
		.now_ns = NOW,
		.front = 7,
		.all_joined = true,
		.reaping_rank = -1,
		.probing = -1,
		.ranks = ranks,
	};
	s.world = s.size * (1 + gap);
	for (i = 0; i < s.size; i++) {
		random_rank(&ranks[i], i * (1 + gap), percent);
		s.all_joined &= ranks[i].joined;
	}
	random_transfer();
	random_crossing();
}

/* ---- properties ------------------------------------------------------- */

static const char *wrong; /* NULL if nothing is wrong */

static void must(bool holds, const char *what)
{
	if (!holds && !wrong)
		wrong = what;
}

static void check_set(const uint64_t *set)
{
	int r;

	for (r = 0; r < COHORT_MAX_RANKS; r++)
		must(!rank_set_has(set, r) || r < s.world,
		     "a set has a rank that does not exist");
}

static void check_text(void)
{
	char ranks_of[256] = "", blamed[16];

	must(memchr(out.text, '\0', sizeof(out.text)), "the text has no end");
	must(*out.line && strlen(out.line) <= 200, "the line has no end");
	rank_set_format(&(struct text){ ranks_of, sizeof(ranks_of) },
	                out.v.missing);
	snprintf(blamed, sizeof(blamed), "rank %d ", out.v.rank);
	if (out.v.rank < 0)
		must(strstr(out.text, "no single rank can be blamed"),
		     "no rank is blamed, and the text does not say so");
	else if (out.v.kind != COHORT_VERDICT_ORDER)
		must(strstr(out.text, ranks_of) || strstr(out.text, blamed),
		     "the ranks are not in the text");
}

static void check_front(void)
{
	const struct rank_snapshot *blamed = snapshot_rank(&s, out.v.rank);
	int i, joined = 0;

	for (i = 0; i < s.size; i++) {
		joined += ranks[i].joined;
		must(rank_set_has(out.v.joined, ranks[i].rank) ==
		             ranks[i].joined,
		     "the set of joined ranks is wrong");
	}
	if (out.v.rank < 0)
		return;
	must(blamed, "a rank of another process is blamed for a collective");
	if (!blamed)
		return;
	must(rank_set_has(out.v.missing, blamed->rank),
	     "the blamed rank is not missing");
	if (s.all_joined)
		must(!blamed->done, "the blamed rank is done");
	else if (2 * joined > s.size)
		must(!blamed->joined,
		     "the blamed rank has called with the majority");
}

static void check_transfer(void)
{
	const struct transfer_snapshot *x = &s.transfer;

	if (out.v.rank < 0)
		return;
	must(out.v.rank == x->rank || out.v.rank == x->peer,
	     "the blamed rank has no part in the transfer");
	must(rank_set_has(out.v.missing, out.v.rank),
	     "the blamed rank is not missing");
	if (!x->met)
		must(out.v.rank == x->peer, "a rank that has called is blamed");
}

static void check(bool is_transfer)
{
	const struct expiry due = {
		.is_transfer = is_transfer,
		.what = EXPIRY_VERDICT,
		.since_ns = NOW - 10,
		.deadline_ns = 10,
	};

	verdict_stalled(&s, &due, &out);
	check_set(out.v.joined);
	check_set(out.v.missing);
	check_text();
	if (is_transfer)
		check_transfer();
	else
		check_front();
}

/* Return whether some ranks have called the collective and not all have
 * finished it. */
static bool is_stalled(void)
{
	bool any = false, all_done = true;
	int i;

	for (i = 0; i < s.size; i++) {
		any |= ranks[i].joined;
		all_done &= ranks[i].done;
	}
	return any && !all_done;
}

/* Make the snapshot consistent: no rank has finished the collective if not all
 * ranks have called it. */
static void undo(void)
{
	int i;

	for (i = 0; i < s.size && !s.all_joined; i++)
		ranks[i].done = false;
}

static void try_seed(uint64_t seed)
{
	state = seed;
	random_snapshot();
	undo();
	check(true);
	if (is_stalled())
		check(false);
	cr_assert_null(wrong, "VERDICT_SEED=%llu: %s: %s",
	               (unsigned long long)seed, wrong, out.text);
}

Test(verdict_random, verdicts_on_random_snapshots_obey_the_rules,
     .timeout = 120)
{
	const char *seed = getenv("VERDICT_SEED");
	uint64_t i;

	cr_assert(verdict_init(&out, MAX_SIZE));
	if (seed)
		try_seed(strtoull(seed, NULL, 10));
	for (i = 0; i < ROUNDS; i++)
		try_seed(random_of(i));
	verdict_fini(&out);
}
