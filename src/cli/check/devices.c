/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Devices and the paths between them, tried for real
 *
 * Each device by itself, then each pair: a copy each way, and an all-reduce of two ranks.
 * Pairs without a device in common are tried at the same time.
 *
 *	pair ----> the copies, the all-reduce --------------------> told
 *	             |                  |                            ^
 *	             | they fail        | fails, on a direct path    |
 *	             v                  v                            |
 *	           the all-reduce    the all-reduce with ------------+
 *	           alone             NCCL_P2P_DISABLE=1
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/check/check.h"
#include "cli/check/try.h"

/* ---- one pair ------------------------------------------------ */

#define SUMS "all-reduce"
#define COPIES "peer-copy"

static const struct pair_plan all_of_it = { .copies = true, .sums = true },
			      only_copies = { .copies = true },
			      only_sum = { .sums = true },
			      not_direct = { .sums = true,
	                                     .avoids_path = true };

/* Where a pair is tried. */
struct slot {
	bool is_used;
	size_t pair;
	const struct pair_plan *plan;
	struct pair_facts facts;
	bool copy_fails, copy_hangs, sum_fails;
	bool has_sum; /* tried it */
	char copy_text[TRIAL_TEXT + 256], sum_text[TRIAL_TEXT + 256];
};

struct paths {
	struct check *c;
	const int *devices;
	int n;
	bool *is_bad;       /* by index: the device has failed by itself */
	bool *is_busy;      /* by index */
	bool *is_started;   /* by pair */
	size_t pairs, next; /* before which all pairs have started */
	uint64_t until_ns;

	struct slot slots[TRIALS];
	struct trial trials[TRIALS];
	unsigned slot_count;

	/* The library opens no group, whatever the devices. */
	bool is_refused;
	size_t copied, summed, bad_copies, bad_sums, indirect;
};

/* The indexes of the devices of pair @k: all pairs in rounds, as those of a tournament,
 * so that pairs that follow each other have no device in common. */
static void pair_at(int n, size_t k, int *a, int *b)
{
	const int even = n + (n & 1), round = (int)(k / (size_t)(even / 2)),
		  i = (int)(k % (size_t)(even / 2));
	int x = (round + i) % (even - 1),
	    y = (round + even - 1 - i) % (even - 1);

	if (i == 0)
		y = even - 1;
	*a = x < y ? x : y;
	*b = x < y ? y : x;
}

static size_t pair_slots(int n)
{
	const size_t even = (size_t)(n + (n & 1));

	return (even - 1) * (even / 2);
}

/* Why a trial has not succeeded. */
static void explain(const struct trial *t, char *text, size_t size)
{
	char copy[64];
	const bool is_there = t->step == try_there;

	if (t->end != TRIAL_HUNG) {
		text_copy(text, size, t->text);
		return;
	}
	snprintf(copy, sizeof(copy), "a copy from device %d to device %d",
	         is_there ? t->a : t->b, is_there ? t->b : t->a);
	snprintf(text, size, "%s does not finish within %.3g s%s",
	         is_there || t->step == try_back ? copy : t->step,
	         (double)t->step_ns / 1e9,
	         t->is_left ? "; its process is inside the driver, and cannot "
	                      "be ended"
	                    : "");
}

static void tell_copies(struct paths *p, const struct slot *s,
                        const char *subject)
{
	if (!s->copy_fails)
		return;
	p->bad_copies++;
	if (s->facts.is_direct)
		check_tell(p->c, CHECK_ERROR, COPIES, subject,
		           "Turn off access control (ACS) in the PCI bridges "
		           "and the IOMMU, update the driver, and see "
		           "nvidia-smi topo -p2p p.  Until then set "
		           "NCCL_P2P_DISABLE=1.",
		           "%s, although CUDA says that the devices reach each "
		           "other: the path is advertised and %s.",
		           s->copy_text, s->copy_hangs ? "dead" : "broken");
	else
		check_tell(p->c, CHECK_ERROR, COPIES, subject,
		           "See what the kernel's log (dmesg) says of NVRM.",
		           "%s", s->copy_text);
}

static void tell_sums(struct paths *p, const struct slot *s,
                      const char *subject, bool is_relieved)
{
	if (!s->sum_fails)
		return;
	p->bad_sums++;
	check_tell(p->c, CHECK_ERROR, SUMS, subject,
	           is_relieved
	                   ? "Set NCCL_P2P_DISABLE=1 until the path is mended."
	                   : "NCCL_DEBUG=INFO shows which way NCCL takes.",
	           "%s%s", s->sum_text,
	           is_relieved ? "; with NCCL_P2P_DISABLE=1 it works"
	           : s->plan == &not_direct
	                   ? "; nor does it work with NCCL_P2P_DISABLE=1"
	                   : "");
}

static void tell_pair(struct paths *p, const struct slot *s, bool is_relieved)
{
	char subject[64];
	int a, b;

	pair_at(p->n, s->pair, &a, &b);
	snprintf(subject, sizeof(subject), "%d-%d", p->devices[a],
	         p->devices[b]);
	p->indirect += !s->facts.is_direct && s->facts.has_copied;
	p->copied++;
	p->summed += s->has_sum;
	tell_copies(p, s, subject);
	tell_sums(p, s, subject, is_relieved);
}

/* ---- all pairs ------------------------------------------------ */

static bool begin(struct paths *p, unsigned slot, const struct pair_plan *plan)
{
	struct slot *s = &p->slots[slot];
	int a, b;

	pair_at(p->n, s->pair, &a, &b);
	p->trials[slot] = (struct trial){
		.check = p->c,
		.run = try_pair,
		.user = plan,
		.a = p->devices[a],
		.b = p->devices[b],
		.size = sizeof(struct pair_facts),
	};
	if (!trial_start(&p->trials[slot]))
		return false;
	s->plan = plan;
	return true;
}

static void leave(struct paths *p, struct slot *s)
{
	int a, b;

	pair_at(p->n, s->pair, &a, &b);
	p->is_busy[a] = p->is_busy[b] = false;
	s->is_used = false;
}

static bool disables_p2p(void)
{
	const char *value = getenv("NCCL_P2P_DISABLE");

	return value && strcmp(value, "1") == 0;
}

/* Settings that the library refuses are no fault of the pair's: told once, and no other
 * pair is asked. */
static void refuse(struct paths *p, struct slot *s, const struct trial *t)
{
	if (!p->is_refused)
		check_tell(p->c, CHECK_ERROR, SUMS, NULL,
		           "Correct the setting.", "No group opens: %s.",
		           t->text);
	p->is_refused = true;
	s->has_sum = false;
}

/* Note how a trial of the slot has ended; what is to be tried then, or NULL. */
static const struct pair_plan *note(struct paths *p, struct slot *s,
                                    const struct trial *t)
{
	const struct pair_facts *facts =
		t->shared ? (struct pair_facts *)t->shared->data : NULL;

	if (s->plan->copies && facts)
		s->facts = *facts;
	if (t->end == TRIAL_DONE)
		return NULL;
	if (s->plan->copies && !s->facts.has_copied) {
		s->copy_fails = true;
		s->copy_hangs = t->end == TRIAL_HUNG;
		explain(t, s->copy_text, sizeof(s->copy_text));
		return s->plan->sums && !p->is_refused ? &only_sum : NULL;
	}
	s->has_sum = true;
	if (facts && facts->is_refused) {
		refuse(p, s, t);
	} else if (!s->plan->avoids_path) {
		s->sum_fails = true;
		explain(t, s->sum_text, sizeof(s->sum_text));
		return s->facts.is_direct && !disables_p2p() ? &not_direct
		                                             : NULL;
	}
	return NULL;
}

/* A trial of the slot has ended: go on with the pair, or tell what was found. */
static void go_on(struct paths *p, unsigned slot)
{
	struct slot *s = &p->slots[slot];
	struct trial *t = &p->trials[slot];
	const bool is_done = t->end == TRIAL_DONE;
	const struct pair_plan *plan = s->plan, *next = note(p, s, t);

	if (is_done && plan->sums)
		s->has_sum = true;
	trial_free(t);
	if (next && clock_now() < p->until_ns && begin(p, slot, next))
		return;
	tell_pair(p, s, plan == &not_direct && is_done);
	leave(p, s);
}

/* The next pair whose devices are idle, of those from @p->next on. */
static bool find_pair(struct paths *p, size_t *pair)
{
	size_t k;
	int a, b;

	while (p->next < p->pairs && p->is_started[p->next])
		p->next++;
	for (k = p->next; k < p->pairs; k++) {
		if (p->is_started[k])
			continue;
		pair_at(p->n, k, &a, &b);
		/* An odd number of devices: one has no partner in a round. */
		if (b >= p->n || p->is_bad[a] || p->is_bad[b]) {
			p->is_started[k] = true;
			continue;
		}
		if (p->is_busy[a] || p->is_busy[b])
			continue;
		*pair = k;
		return true;
	}
	return false;
}

static void fill_slots(struct paths *p)
{
	size_t pair;
	unsigned i;
	int a, b;

	for (i = 0; i < p->slot_count; i++) {
		if (p->slots[i].is_used || clock_now() >= p->until_ns ||
		    !find_pair(p, &pair))
			continue;
		pair_at(p->n, pair, &a, &b);
		p->slots[i] = (struct slot){
			.is_used = true,
			.pair = pair,
			.plan = p->is_refused ? &only_copies : &all_of_it,
		};
		p->is_started[pair] = true;
		p->is_busy[a] = p->is_busy[b] = true;
		if (!begin(p, i, p->slots[i].plan))
			go_on(p, i);
	}
}

static void run_pairs(struct paths *p)
{
	struct trial *t;
	size_t pair;

	/* None runs if none could be started. */
	do {
		fill_slots(p);
		t = trial_wait(p->trials, p->slot_count);
		if (t)
			go_on(p, (unsigned)(t - p->trials));
	} while (t || (clock_now() < p->until_ns && find_pair(p, &pair)));
}

static size_t pairs_of(size_t n)
{
	return n < 2 ? 0 : n * (n - 1) / 2;
}

static void tell_rest(struct paths *p, size_t good)
{
	const size_t wanted = pairs_of(good), left = wanted - p->copied;

	if (p->copied > p->bad_copies)
		check_tell(p->c, CHECK_OK, COPIES, NULL, NULL,
		           "%zu of %zu pairs: %zu MiB each way arrive%s",
		           p->copied - p->bad_copies, p->copied,
		           TRY_BYTES >> 20,
		           p->indirect ? ", some through the host: see "
		                         "peer-access"
		                       : "");
	if (p->summed > p->bad_sums)
		check_tell(p->c, CHECK_OK, SUMS, NULL, NULL,
		           "%zu of %zu pairs: correct sums of 4 B and of %zu "
		           "MiB",
		           p->summed - p->bad_sums, p->summed, TRY_BYTES >> 20);
	if (p->indirect)
		check_tell(
			p->c, CHECK_SKIPPED, "peer-access", NULL, NULL,
			"%zu of %zu pairs have no direct path, as CUDA says, "
			"and go through the host.",
			p->indirect, p->copied);
	if (left)
		check_tell(p->c, CHECK_WARNING, SUMS, "not tried",
		           "Name fewer devices (--devices), or give it more "
		           "time (--limit).",
		           "%zu of %zu pairs were not tried within %.3g s.",
		           left, wanted, (double)p->c->limit_ns / 1e9);
}

/* ---- devices ------------------------------------------------------------------ */

#define DEVICE "device"

static void tell_device(struct paths *p, int i, const struct trial *t)
{
	char subject[16], text[TRIAL_TEXT + 256];

	if (t->end == TRIAL_DONE)
		return;
	p->is_bad[i] = true;
	explain(t, text, sizeof(text));
	snprintf(subject, sizeof(subject), "%d", p->devices[i]);
	check_tell(p->c, CHECK_ERROR, DEVICE, subject,
	           "End what else runs on it, leave it out "
	           "(CUDA_VISIBLE_DEVICES), or reset it (nvidia-smi -r), and "
	           "see what the kernel's log says of NVRM.",
	           "%s%s", t->end == TRIAL_HUNG ? "On the device " : "", text);
}

/* Try each device; returns how many are well. */
static int run_devices(struct paths *p)
{
	int started = 0, good = 0, of[TRIALS];
	unsigned i;
	struct trial *t;

	for (;;) {
		for (i = 0; i < p->slot_count && started < p->n &&
		            clock_now() < p->until_ns;
		     i++) {
			if (p->trials[i].shared)
				continue;
			of[i] = started;
			p->trials[i] = (struct trial){
				.check = p->c,
				.run = try_device,
				.a = p->devices[started++],
			};
			if (!trial_start(&p->trials[i]))
				tell_device(p, of[i], &p->trials[i]);
		}
		t = trial_wait(p->trials, p->slot_count);
		/* None runs if none could be started. */
		if (!t && started < p->n && clock_now() < p->until_ns)
			continue;
		if (!t)
			break;
		tell_device(p, of[t - p->trials], t);
		good += t->end == TRIAL_DONE;
		trial_free(t);
	}
	for (int k = started; k < p->n; k++)
		p->is_bad[k] = true;
	if (good)
		check_tell(p->c, CHECK_OK, DEVICE, NULL, NULL,
		           "%d of %d: memory, and copies of %zu MiB", good,
		           p->n, TRY_BYTES >> 20);
	if (started < p->n)
		check_tell(p->c, CHECK_WARNING, DEVICE, "not tried",
		           "Name fewer devices (--devices), or give it more "
		           "time (--limit).",
		           "%d of %d devices were not tried within %.3g s.",
		           p->n - started, p->n, (double)p->c->limit_ns / 1e9);
	return good;
}

static void run_all(struct paths *p)
{
	const int good = run_devices(p);

	if (good < 2) {
		check_tell(p->c, CHECK_SKIPPED, SUMS, NULL, NULL, "%s",
		           p->n < 2 ? "There is one device, so there are no "
		                      "pairs."
		                    : "Pairs need two devices that are well.");
		return;
	}
	run_pairs(p);
	tell_rest(p, (size_t)good);
}

void check_devices_work(struct check *c)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	const int n = check_devices(c);
	struct paths *p;
	int *every;

	if (!c->is_probed || c->probed.info.status != COHORT_OK) {
		check_tell(c, CHECK_SKIPPED, DEVICE, NULL, NULL,
		           "The platform cannot be used.");
		return;
	}
	p = calloc(1, sizeof(*p));
	every = calloc((size_t)n, sizeof(*every));
	if (p && every) {
		for (int i = 0; i < n; i++)
			every[i] = i;
		p->c = c;
		p->devices = c->devices ? c->devices : every;
		p->n = n;
		p->pairs = pair_slots(n);
		p->until_ns = clock_deadline(c->limit_ns);
		p->slot_count = cores < 2        ? 2
		                : cores > TRIALS ? TRIALS
		                                 : (unsigned)cores;
		p->is_bad = calloc((size_t)n + 2, 1);
		p->is_busy = calloc((size_t)n + 2, 1);
		p->is_started = calloc(p->pairs + 1, 1);
	}
	if (p && every && p->is_bad && p->is_busy && p->is_started)
		run_all(p);
	else
		check_tell(c, CHECK_SKIPPED, DEVICE, NULL, NULL,
		           "out of memory");
	if (p) {
		free(p->is_bad);
		free(p->is_busy);
		free(p->is_started);
	}
	free(every);
	free(p);
}
