/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collectives of the host platform that are made to work with other memory before all
 * ranks have called them
 */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support/native.h"

#define RANKS 3 /* and fewer: with a core for each they go other ways */
#define MOST 20000
#define UNTOUCHED (-77)

static struct native_clique q;
static const struct platform *p;
static uint32_t *words; /* started, done */
static uint32_t value;  /* that they were last to be set to */

/* The collective: how many ranks make it, of how many elements, and what they pass. */
struct shape {
	int ranks;
	size_t count;
	bool in_place;
	bool is_broadcast; /* from rank 0 */
};

static void open_ranks(int n)
{
	p = native_open_host(n);
	native_clique_open(&q, p, n);
	native_must(p->cudaHostAlloc((void **)&words, 2 * sizeof(*words),
	                             cudaHostAllocPortable),
	            "cudaHostAlloc");
	words[0] = words[1] = 0;
}

static void close_ranks(void)
{
	native_clique_destroy(&q);
	native_must(p->cudaFreeHost(words), "cudaFreeHost");
}

static int32_t *memory(size_t count, int32_t what)
{
	int32_t *m = malloc(count * sizeof(*m));
	size_t i;

	cr_assert(m);
	for (i = 0; i < count; i++)
		m[i] = what;
	return m;
}

static void is_all(const int32_t *m, size_t count, int32_t what)
{
	size_t i;

	for (i = 0; i < count; i++)
		cr_assert_eq(m[i], what, "element %zu is %d, not %d", i, m[i],
		             what);
}

static void call(const struct shape *s, int r, const int32_t *send,
                 int32_t *recv)
{
	cr_assert_eq(s->is_broadcast
	                     ? p->ncclBroadcast(send, recv, s->count, ncclInt32,
	                                        0, q.comm[r], q.stream[r])
	                     : p->ncclAllReduce(send, recv, s->count, ncclInt32,
	                                        ncclSum, q.comm[r],
	                                        q.stream[r]),
	             ncclSuccess);
}

static void sync_all(int ranks)
{
	int r;

	for (r = 0; r < ranks; r++)
		cr_assert_eq(p->cudaStreamSynchronize(q.stream[r]),
		             cudaSuccess);
}

/* Rank 0 calls with memory that is gone before the last rank comes. */
static void expect_other_memory(const struct shape *s)
{
	const int32_t result =
		s->is_broadcast ? 1 : s->ranks * (s->ranks + 1) / 2;
	int32_t *send[RANKS], *recv[RANKS], *gone, *gone_too;
	int r;

	for (r = 0; r < s->ranks; r++) {
		send[r] = memory(s->count, r + 1);
		recv[r] = s->in_place ? send[r] : memory(s->count, UNTOUCHED);
	}
	gone = memory(s->count, 1);
	gone_too = s->in_place ? gone : memory(s->count, UNTOUCHED);
	p->ends_ahead(q.stream[0], &words[0], &words[1], ++value);
	call(s, 0, gone, gone_too);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	for (r = 1; r < s->ranks - 1; r++)
		call(s, r, send[r], recv[r]);
	p->progress(0, q.stream[0], &words[1], value, 0);
	p->redirect(q.stream[0], &words[1], value, send[0], recv[0]);
	memset(gone, 0x55, s->count * sizeof(*gone));
	memset(gone_too, 0x55, s->count * sizeof(*gone));
	call(s, r, send[r], recv[r]);
	sync_all(s->ranks);
	is_all(gone, s->count, 0x55555555);
	is_all(gone_too, s->count, 0x55555555);
	for (r = 0; r < s->ranks; r++)
		is_all(recv[r], s->count, result);
	for (r = 0; r < s->ranks; r++) {
		if (recv[r] != send[r])
			free(recv[r]);
		free(send[r]);
	}
	if (gone_too != gone)
		free(gone_too);
	free(gone);
}

static void expect_all_shapes(int ranks)
{
	static const size_t counts[] = { 1, 9, 100, 2000, MOST };
	struct shape s = { .ranks = ranks };
	size_t i, k;

	open_ranks(ranks);
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (k = 0; k < 4; k++) {
			s.count = counts[i];
			s.in_place = k % 2;
			s.is_broadcast = k / 2;
			expect_other_memory(&s);
		}
	close_ranks();
}

TestSuite(redirect, .timeout = 60);

Test(redirect, two_ranks_work_with_the_other_memory)
{
	expect_all_shapes(2);
}

Test(redirect, so_do_three)
{
	expect_all_shapes(3);
}

/* Its stream has not come to it yet. */
Test(redirect, what_waits_behind_another_works_with_it)
{
	static int32_t send[2][MOST], recv[2][MOST], gone[MOST];
	const struct shape s = { .ranks = 2, .count = MOST };
	size_t i;

	open_ranks(2);
	for (i = 0; i < MOST; i++)
		send[0][i] = 1, send[1][i] = 2;
	call(&s, 0, send[0], recv[0]);
	p->ends_ahead(q.stream[0], &words[0], &words[1], 1);
	call(&s, 0, gone, gone);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	p->redirect(q.stream[0], &words[1], 1, send[0], send[0]);
	memset(gone, 0x55, sizeof(gone));
	call(&s, 1, send[1], recv[1]);
	call(&s, 1, send[1], send[1]);
	sync_all(2);
	is_all(gone, MOST, 0x55555555);
	is_all(recv[0], MOST, 3);
	is_all(send[0], MOST, 3);
	is_all(send[1], MOST, 3);
	close_ranks();
}

/* To ask for that is no question to CUDA, which would leave its answer behind. */
Test(redirect, a_stream_is_idle_while_it_has_nothing_to_do)
{
	static int32_t send[2], recv[2];
	const struct shape s = { .ranks = 2, .count = 1 };

	open_ranks(2);
	cr_assert(p->is_idle(q.stream[0]));
	call(&s, 0, &send[0], &recv[0]);
	cr_assert_not(p->is_idle(q.stream[0]));
	cr_assert_eq(p->cudaGetLastError(), cudaSuccess);
	call(&s, 1, &send[1], &recv[1]);
	sync_all(2);
	cr_assert(p->is_idle(q.stream[0]));
	close_ranks();
}

/* Of the words that it will set, no other launch's. */
Test(redirect, another_launch_is_left_alone)
{
	static int32_t send[2], recv[2] = { 1, 2 }, other;
	const struct shape s = { .ranks = 2, .count = 1 };

	open_ranks(2);
	send[0] = 1, send[1] = 2;
	p->ends_ahead(q.stream[0], &words[0], &words[1], 2);
	call(&s, 0, &send[0], &recv[0]);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	p->redirect(q.stream[0], &words[1], 3, &other, &other);
	p->redirect(q.stream[0], &words[0], 2, &other, &other);
	p->redirect(q.stream[1], &words[1], 2, &other, &other);
	call(&s, 1, &send[1], &recv[1]);
	sync_all(2);
	cr_assert_eq(recv[0], 3);
	cr_assert_eq(other, 0);
	p->redirect(q.stream[0], &words[1], 2, &other, &other); /* it is over */
	close_ranks();
}
