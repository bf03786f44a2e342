/* SPDX-License-Identifier: Apache-2.0 */

#include "ways.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/communicator.h"
#include "base/clock.h"
#include "core/agree_words.h"
#include "core/comm_lock.h"
#include "core/native.h"

/* Size of a cache line, because two ranks' words must not share one. */
#define WORDS_BYTES 64

enum { WORD_DONE, WORD_STARTED };

void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "%s: %d: %s\n", what, failed, cohort_last_error());
	exit(1);
}

void runner_init(struct runner *r, struct cohort_comm *comm, float *data)
{
	void *words;

	must((int)comm->clique->platform->cudaHostAlloc(&words, WORDS_BYTES,
	                                                cudaHostAllocMapped),
	     "cudaHostAlloc");
	*r = (struct runner){
		.comm = comm,
		.tensor = { data, data, 1, COHORT_F32 },
		.op = { .kind = OP_ALL_REDUCE,
		        .redop = COHORT_MAX,
		        .n = 1,
		        .stream = comm->stream },
		.words = words,
	};
	r->op.tensors = &r->tensor;
	r->words[WORD_DONE] = 0;
}

void runner_fini(struct runner *r)
{
	const struct platform *p = r->comm->clique->platform;

	must((int)p->cudaStreamSynchronize(r->op.stream), "synchronize");
	p->cudaFreeHost(r->words);
}

/* ---- whole calls ------------------------------------------------------ */

static void nothing(struct runner *r)
{
	(void)r;
}

static void native_call(struct runner *r)
{
	const struct cohort_tensor *t = &r->tensor;

	must((int)r->comm->clique->platform->ncclAllReduce(
		     t->send, t->recv, t->count, (ncclDataType_t)t->type,
		     (ncclRedOp_t)r->op.redop, r->comm->native, r->op.stream),
	     "ncclAllReduce");
}

static void native_mark(struct runner *r, int word)
{
	must((int)r->comm->clique->platform->mark(r->op.stream, &r->words[word],
	                                          r->value),
	     "mark");
}

static void bare(struct runner *r)
{
	native_call(r);
	r->value++;
	native_mark(r, WORD_DONE);
}

static void marked_twice(struct runner *r)
{
	r->value++;
	native_mark(r, WORD_STARTED);
	native_call(r);
	native_mark(r, WORD_DONE);
}

static void cohort(struct runner *r)
{
	const struct cohort_tensor *t = &r->tensor;

	must(cohort_all_reduce(r->comm, t->send, t->recv, t->count, t->type,
	                       r->op.redop, r->op.stream, &r->ticket),
	     "cohort_all_reduce");
}

static void bare_wait(struct runner *r)
{
	const uint32_t *word = &r->words[WORD_DONE];

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != r->value) {
		r->comm->clique->platform->progress(r->comm->device,
		                                    r->op.stream, word,
		                                    r->value, UINT64_MAX);
		sched_yield();
	}
}

/* Wait for a call of cohort_all_reduce() in the same way as bare_wait(). */
static void cohort_wait_bare(struct runner *r)
{
	while (!comm_ticket_done(r->comm, r->ticket)) {
		comm_ticket_progress(r->comm, r->ticket, UINT64_MAX);
		sched_yield();
	}
}

/* ---- parts of the walk ------------------------------------------------ */

static void part_comm_check(struct runner *r)
{
	must(comm_check(r->comm), "comm_check");
}

static void part_op_check(struct runner *r)
{
	must(op_check(&r->op, r->comm->rank, r->comm->clique->size),
	     "op_check");
}

static void part_gate(struct runner *r)
{
	must(comm_enter(r->comm, false), "comm_enter");
	comm_leave(r->comm);
}

static void part_device(struct runner *r)
{
	struct device_scope scope;

	must(device_enter(&scope, r->comm->clique->platform, r->comm->device),
	     "device_enter");
	device_leave(&scope);
}

static void part_slot(struct runner *r)
{
	comm_ticket_done(r->comm, r->own_ticket++);
}

static void part_clock(struct runner *r)
{
	(void)r;
	clock_now();
}

static void part_recorder(struct runner *r)
{
	recorder_begin(&r->comm->recorder, ++r->own_ticket, &r->op, 0, 1, 0);
	recorder_end(&r->comm->recorder, r->own_ticket, COHORT_OK);
}

static void part_mark_start(struct runner *r)
{
	native_mark(r, WORD_STARTED);
}

static void part_agree(struct runner *r)
{
	bool arrives_last;

	must(agree(r->comm, &r->op, agree_digest(&r->op), r->ticket, 0,
	           &arrives_last),
	     "agree");
}

const struct way ways[] = {
	[WAY_NOTHING] = { "nothing", nothing, NULL, false },
	[WAY_BARE] = { "call, mark", bare, bare_wait, false },
	[WAY_MARKED_TWICE] = { "mark, call, mark", marked_twice, bare_wait,
	                       false },
	[WAY_COHORT] = { "cohort_all_reduce", cohort, cohort_wait_bare, false },
	{ "comm_check", part_comm_check, NULL, false },
	{ "op_check", part_op_check, NULL, false },
	{ "comm_enter, _leave", part_gate, NULL, false },
	{ "device_enter, _leave", part_device, NULL, false },
	{ "comm_ticket_done", part_slot, NULL, false },
	{ "clock_now", part_clock, NULL, false },
	{ "recorder_begin, _end", part_recorder, NULL, false },
	{ "agree", part_agree, NULL, true },
	{ "mark of the start", part_mark_start, NULL, false },
};

const int way_count = sizeof(ways) / sizeof(ways[0]);
