/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/observed.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/common/cli.h"
#include "dump/dump.h"

/* Assign numbers to the collectives, from the last one down. */
static void take_numbers(struct flight_rank *r, const struct shared_rank *e)
{
	struct flight_op *op = r->ops + r->n;
	uint64_t number = shared_called(e);

	r->last_enqueued = number;
	while (op-- > r->ops && number) {
		if (!op_is_common(op->r.kind))
			continue;
		op->number = number--;
		if (!r->last_completed && op->state == FLIGHT_COMPLETED)
			r->last_completed = op->number;
	}
	r->last_started = r->last_completed;
}

/* Store the states of the operations, and the numbers of the transfers. */
static void take_operations(const struct watch *w, struct flight_rank *r,
                            const struct shared_rank *e)
{
	const uint64_t last = atomic_load(&e->last);
	const uint64_t done = shared_last_done(w->shared, e);
	/* oldest ticket that may be on record */
	uint64_t ticket = last > SHARED_SLOTS ? last - SHARED_SLOTS + 1 : 1;
	struct flight_op *op;

	r->lost = ticket - 1;
	/* Do not compare ticket with @last, which is untrusted and may be the
	 * largest number. */
	for (; last - ticket < SHARED_SLOTS; ticket++) {
		op = &r->ops[r->n];
		*op = (struct flight_op){
			.r = shared_record(e, ticket),
			.timeout_ns = w->deadline_ns,
			.state = ticket <= done ? FLIGHT_COMPLETED
			                        : FLIGHT_SCHEDULED,
		};
		if (!op->r.ticket) {
			r->lost++;
			continue;
		}
		r->n++;
		if (op_has_peer(op->r.kind))
			op->pair = op->transfer = shared_transfer(e, ticket);
	}
}

static void take_rank(const struct watch *w, const struct observed *o,
                      struct flight *f, int place, int rank)
{
	const struct shared_rank *e = observed_entry(w, o, rank);
	struct flight_rank *r = &f->ranks[place];
	struct rank_snapshot now;

	f->nccl_version = atomic_load(&e->nccl);
	observed_rank(w, o, rank, &now);
	snapshot_thread(&now);
	*r = (struct flight_rank){
		.rank = rank,
		.device = now.device,
		.inside = now.inside,
		.tid = now.tid,
		.alive = now.alive,
		.ops = r->ops,
	};
	memcpy(r->thread, now.thread, sizeof(r->thread));
	take_operations(w, r, e);
	take_numbers(r, e);
}

static void take_facts(struct flight *f, const struct observed *o)
{
	snprintf(f->group, sizeof(f->group), "%s", o->name);
	f->generation = 1;
	f->world = o->ranks;
	f->platform = "nccl";
	if (gethostname(f->host, sizeof(f->host) - 1))
		snprintf(f->host, sizeof(f->host), "unknown");
	f->pid = getpid();
	f->serial = (unsigned)o->number;
	f->trigger = "verdict";
	f->verdict_number = o->dumps;
	f->now_ns = clock_now();
	f->wall_ns = clock_read(CLOCK_REALTIME);
	f->cause.rank = f->cause.world_rank = -1;
	f->has_verdict = true;
	f->verdict = o->verdict.v;
	snprintf(f->text, sizeof(f->text), "%s", o->verdict.text);
}

bool observed_dump(const struct watch *w, struct observed *o,
                   const char *directory)
{
	struct flight f = { .size = 0 };
	char what[512];
	int seen = 0, n = 0, error;

	for (int r = 0; r < o->ranks; r++)
		seen += o->entries[r] != 0;
	if (!flight_init(&f, seen, SHARED_SLOTS)) {
		cli_error("no memory for a dump of \"%s\"", o->name);
		return false;
	}
	o->dumps++;
	take_facts(&f, o);
	for (int r = 0; r < o->ranks; r++)
		if (o->entries[r])
			take_rank(w, o, &f, n++, r);
	flight_compute_meetings(&f);
	error = dump_write(&f, directory, what, sizeof(what));
	flight_fini(&f);
	if (error)
		cli_error("--dumps: %s: %s", what, strerror(error));
	return !error;
}
