/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that each tensor of a list gets the result of a separate call for the
 * tensor
 *
 * The lists are random and equal on all ranks: any types, counts from 0 to more
 * than the host platform processes as one share, and each tensor in place or
 * not. Every rank calls, waits, and compares its results with a plain
 * reference.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/expect.h"
#include "support/fill.h"
#include "support/random.h"
#include "support/ranks.h"
#include "support/reference.h"
#include "support/spread.h"

#define MAX_RANKS 4
#define MAX_TENSORS 200
/* Size of one rank's inputs, and of its results, in bytes */
#define ROOM ((size_t)3 << 20)
#define LISTS 60

enum kind { ALL_REDUCE, BROADCAST, KINDS };

static const char *const names[] = { "all_reduce_many", "broadcast_many" };

/* A tensor of a list, equal on all ranks */
struct part {
	size_t count;
	int type;
	bool in_place;
	size_t at; /* offset of the tensor in a rank's memory */
};

struct list {
	enum kind kind;
	int op;
	int root;
	bool in_batch;
	/* number of bytes that the list uses in a rank's memory */
	size_t bytes;
	size_t n;
	struct part parts[MAX_TENSORS];
};

struct scene {
	int ranks;
	unsigned seed;
	char *input[MAX_RANKS]; /* contents before the call */
	char *send[MAX_RANKS];  /* argument of the call */
	char *recv[MAX_RANKS];
	char *expected[MAX_RANKS];
	struct spread_barrier *all;
};

/* ---- lists ------------------------------------------------------------ */

static size_t random_count(uint64_t *state)
{
	switch (test_random(state) % 8) {
	case 0:
		return test_random(state) % 4;
	case 1:
	case 2:
	case 3:
		return test_random(state) % 70;
	case 4:
	case 5:
	case 6:
		return test_random(state) % 2100;
	}
	return test_random(state) % 40000;
}

static void list_make(struct list *l, int ranks, uint64_t seed)
{
	uint64_t state = seed * 7919 + 1;
	size_t i, most, at = 0;

	*l = (struct list){ .kind = test_random(&state) % KINDS,
		            .op = (int)(test_random(&state) % 5),
		            .root = (int)(test_random(&state) %
		                          (unsigned)ranks),
		            .in_batch = test_random(&state) % 4 == 0 };
	/* NVIDIA's NCCL refuses averages of 8-bit floats over one rank. */
	if (place_is_nvidia() && ranks == 1 && l->op == COHORT_AVG)
		l->op = COHORT_SUM;
	most = test_random(&state) % 3 ? 12 : MAX_TENSORS;
	most = 1 + test_random(&state) % most;
	for (i = 0; i < most; i++) {
		struct part *p = &l->parts[i];
		size_t bytes;

		p->count = random_count(&state);
		p->type = (int)(test_random(&state) % 12);
		p->in_place = test_random(&state) % 2;
		p->at = at;
		bytes = p->count * reference_size(p->type);
		at += (bytes + test_random(&state) % 3 * 8 + 7) & ~(size_t)7;
		if (at > ROOM)
			break;
		l->bytes = at;
	}
	l->n = i; /* at least 1, because any single tensor fits */
}

/* Return the tensor that @rank passes. */
static struct cohort_tensor tensor_of(const struct scene *s,
                                      const struct list *l, size_t i, int rank)
{
	const struct part *p = &l->parts[i];
	char *send = s->send[rank] + p->at, *recv = s->recv[rank] + p->at;

	if (p->in_place)
		recv = send;
	return (struct cohort_tensor){ p->count || i % 2 ? send : NULL,
		                       p->count || i % 2 ? recv : NULL,
		                       p->count, p->type };
}

/* ---- buffers ---------------------------------------------------------- */

static void fill(const struct scene *s, const struct list *l, int rank)
{
	size_t i;

	fill_guard(s->send[rank], l->bytes);
	fill_guard(s->recv[rank], l->bytes);
	for (i = 0; i < l->n; i++) {
		const struct part *p = &l->parts[i];
		char *input = s->input[rank] + p->at;

		fill_random(input, p->count, p->type,
		            s->seed + (unsigned)rank * 131 + i, false);
		if (!p->count)
			continue;
		memcpy(s->send[rank] + p->at, input,
		       p->count * reference_size(p->type));
	}
}

static void expect_part(const struct scene *s, const struct list *l, size_t i,
                        int rank)
{
	const struct part *p = &l->parts[i];
	char *out = s->expected[rank] + p->at;
	const void *in[MAX_RANKS];
	int r;

	for (r = 0; r < s->ranks; r++)
		in[r] = s->input[r] + p->at;
	switch (l->kind) {
	case ALL_REDUCE:
		reference_reduce(out, in, s->ranks, p->count, p->type, l->op);
		break;
	case BROADCAST:
		reference_broadcast(out, in, p->count, p->type, l->root);
		break;
	case KINDS:
		break;
	}
}

static void die(const struct scene *s, const struct list *l, size_t i, int rank,
                const char *what)
{
	fprintf(stderr,
	        "%s of %zu tensors, seed %u, op %d, root %d%s: rank %d of %d: "
	        "tensors[%zu], %zu of type %d%s: %s: %s\n",
	        names[l->kind], l->n, s->seed, l->op, l->root,
	        l->in_batch ? ", in a batch" : "", rank, s->ranks, i,
	        l->parts[i].count, l->parts[i].type,
	        l->parts[i].in_place ? " in place" : "", what,
	        cohort_last_error());
	_exit(1);
}

static void compare(const struct scene *s, const struct list *l, int rank)
{
	size_t i, count, bytes;

	for (i = 0; i < l->n; i++) {
		const struct part *p = &l->parts[i];
		struct cohort_tensor t = tensor_of(s, l, i, rank);

		count = p->count;
		bytes = count * reference_size(p->type);
		expect_part(s, l, i, rank);
		if (!count)
			continue;
		if (reference_compare(t.recv, s->expected[rank] + p->at, count,
		                      p->type) != count)
			die(s, l, i, rank, "not what the reference says");
		/*
		 * Check that the memory up to the next tensor is unchanged.
		 */
		if (!p->in_place && i + 1 < l->n &&
		    !fill_guard_intact((const char *)t.recv + bytes,
		                       l->parts[i + 1].at - p->at - bytes))
			die(s, l, i, rank, "written behind its end");
		if (!p->in_place &&
		    memcmp(s->send[rank] + p->at, s->input[rank] + p->at,
		           p->count * reference_size(p->type)) != 0)
			die(s, l, i, rank, "send was written");
	}
}

/* ---- the ranks -------------------------------------------------------- */

static int call(const struct list *l, struct cohort_comm *c,
                const struct cohort_tensor *t, void *stream, uint64_t *ticket)
{
	return l->kind == BROADCAST ? cohort_broadcast_many(c, t, l->n, l->root,
	                                                    stream, ticket)
	                            : cohort_all_reduce_many(c, t, l->n, l->op,
	                                                     stream, ticket);
}

static int call_in_batch(const struct list *l, struct cohort_comm *c,
                         const struct cohort_tensor *t, uint64_t *ticket)
{
	int rc = cohort_batch_begin(c);

	if (rc == COHORT_OK)
		rc = cohort_barrier(c, NULL, NULL);
	if (rc == COHORT_OK)
		rc = call(l, c, t, NULL, NULL);
	return rc == COHORT_OK
	               ? cohort_batch_end(c, cohort_comm_stream(c), ticket)
	               : rc;
}

static int worker(struct cohort_comm *c, void *user)
{
	struct cohort_tensor tensors[MAX_TENSORS];
	struct scene *s = user;
	struct list l;
	int k, rc, rank = cohort_comm_rank(c);
	uint64_t ticket;
	size_t i;

	for (k = 0; k < LISTS; k++) {
		list_make(&l, s->ranks, s->seed + (unsigned)k);
		fill(s, &l, rank);
		for (i = 0; i < l.n; i++)
			tensors[i] = tensor_of(s, &l, i, rank);
		spread_wait(s->all, s->ranks);
		rc = l.in_batch ? call_in_batch(&l, c, tensors, &ticket)
		                : call(&l, c, tensors, cohort_comm_stream(c),
		                       &ticket);
		if (rc == COHORT_OK)
			rc = cohort_wait(c, ticket, RANKS_SOON);
		if (rc != COHORT_OK)
			die(s, &l, 0, rank, "failed");
		compare(s, &l, rank);
		spread_wait(s->all, s->ranks);
	}
	return 0;
}

static void run_lists(int ranks, const struct cohort_group_options *options,
                      unsigned seed)
{
	struct scene s = { .ranks = ranks, .seed = seed };
	struct cohort_group *group = ranks_open(ranks, options);
	int r;

	reference_begin();
	s.all = spread_alloc(sizeof(*s.all));
	for (r = 0; r < ranks; r++) {
		s.input[r] = spread_alloc(ROOM);
		s.send[r] = spread_alloc(ROOM);
		s.recv[r] = spread_alloc(ROOM);
		s.expected[r] = spread_alloc(ROOM);
		cr_assert(s.input[r] && s.send[r] && s.recv[r] &&
		          s.expected[r]);
	}
	expect_run_in(group, worker, &s);
	expect_close(group);
	for (r = 0; r < ranks; r++) {
		spread_free(s.input[r]);
		spread_free(s.send[r]);
		spread_free(s.recv[r]);
		spread_free(s.expected[r]);
	}
	spread_free(s.all);
}

TestSuite(list, .timeout = 240);

static void run_all_lists(int ranks)
{
	place_need(ranks);
	if (ranks > 1)
		place_need_host("arithmetic that is the same everywhere");
	run_lists(ranks, NULL, (unsigned)ranks * 1000);
}

Test(list, tensor_list_equals_the_reference_on_one_rank)
{
	run_all_lists(1);
}

Test(list, tensor_list_equals_the_reference_on_two_ranks)
{
	run_all_lists(2);
}

Test(list, tensor_list_equals_the_reference_on_three_ranks)
{
	run_all_lists(3);
}

Test(list, tensor_list_equals_the_reference_on_four_ranks)
{
	run_all_lists(4);
}

/* Check the results for each way to launch lists. */
static void run_lists_in_all_ways(int ranks)
{
	static const struct {
		int way;
		struct list_limits limits;
	} ways[] = {
		{ COHORT_MANY_GROUP, { 0 } },
		{ COHORT_MANY_FLAT,
		  { .group_most = SIZE_MAX, .flat_most = 1 << 20 } },
		{ COHORT_MANY_AUTO,
		  { .group_most = 7, .flat_from = SIZE_MAX } },
		{ COHORT_MANY_AUTO,
		  { .group_most = 3,
		    .flat_below = 2000,
		    .flat_from = 2,
		    .flat_most = 1 << 20 } },
	};
	static struct platform table;
	struct cohort_group_options o;
	size_t i;

	place_need(ranks);
	place_need_host("arithmetic that is the same everywhere");
	table = *place_table();
	platform_override(&table);
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		table.lists = ways[i].limits;
		cohort_group_options_init(&o);
		o.many = ways[i].way;
		run_lists(ranks, &o, 100 * (unsigned)(i + 1));
	}
}

Test(list, list_launched_in_any_way_is_correct_on_one_rank)
{
	run_lists_in_all_ways(1);
}

Test(list, list_launched_in_any_way_is_correct_on_three_ranks)
{
	run_lists_in_all_ways(3);
}

/* ---- refused lists ---------------------------------------------------- */

Test(list, error_names_the_invalid_tensor_of_any_list_call)
{
	struct cohort_comm *c[2];
	struct cohort_group *group = ranks_ahead(2, NULL, c);
	int32_t x[8] = { 0 };
	struct cohort_tensor list[] = { { x, x, 1, COHORT_I32 },
		                        { x + 1, x + 1, 1, COHORT_I32 },
		                        { x + 2, NULL, 1, COHORT_I32 } };

	expect(cohort_broadcast_many(c[0], list, 3, 0, NULL, NULL),
	       COHORT_INVALID, "broadcast: tensors[2].recv is NULL");
	expect(cohort_broadcast_many(c[0], list, 2, 2, NULL, NULL),
	       COHORT_INVALID, "broadcast: root is 2");
	expect(cohort_all_reduce_many(c[0], list, 2, -1, NULL, NULL),
	       COHORT_INVALID, "all_reduce: op is -1");
	list[1].recv = (char *)(x + 1) + 3;
	expect(cohort_all_reduce_many(c[0], list, 2, COHORT_SUM, NULL, NULL),
	       COHORT_INVALID, "all_reduce: tensors[1].recv is ");
	expect(cohort_all_reduce_many(c[0], list, 2, COHORT_SUM, NULL, NULL),
	       COHORT_INVALID, "not aligned to the 4 bytes of int32");
	list[1].recv = x + 1;
	list[1].type = 77;
	expect(cohort_broadcast_many(c[0], list, 2, 0, NULL, NULL),
	       COHORT_INVALID, "broadcast: tensors[1].type is 77");
	expect(cohort_broadcast_many(c[0], list, 0, 0, NULL, NULL),
	       COHORT_INVALID, "n is 0");
	expect(cohort_broadcast_many(c[0], NULL, 2, 0, NULL, NULL),
	       COHORT_INVALID, "tensors is NULL");
	/* A broadcast reads only the root's send buffer. */
	list[0].send = NULL;
	expect(cohort_broadcast_many(c[0], list, 1, 0, NULL, NULL),
	       COHORT_INVALID, "send is NULL");
	cr_assert_eq(cohort_broadcast_many(c[1], list, 1, 0, NULL, NULL),
	             COHORT_OK);
	list[0].send = x;
	cr_assert_eq(cohort_broadcast_many(c[0], list, 1, 0, NULL, NULL),
	             COHORT_OK);
	cr_assert_eq(cohort_synchronize(c[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(c[1], RANKS_SOON), COHORT_OK);
	expect_close(group);
}
