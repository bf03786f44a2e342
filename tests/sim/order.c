/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that calls and work do not wait unnecessarily: work after host
 * functions, groups on several communicators, and queries inside a group
 */

#include <criterion/criterion.h>
#include <pthread.h>

#include "support/native.h"
#include "support/place.h"

static const struct platform *p;

static void open_platform(void)
{
	p = native_open(NATIVE_RANKS);
}

TestSuite(order, .init = open_platform, .timeout = 60);

Test(order, host_function_blocks_only_its_own_stream)
{
	cudaStream_t x = native_stream(p, 0), y = native_stream(p, 1);
	struct native_gate first, second;
	cudaEvent_t event;

	p->cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
	native_gate_hold(p, &first, x);
	p->cudaEventRecord(event, x);
	native_gate_hold(p, &second, x);
	p->cudaStreamWaitEvent(y, event, 0);
	native_gate_reached(&first);
	native_gate_open(&first);
	cr_assert_eq(p->cudaStreamSynchronize(y), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(x), cudaErrorNotReady);
	native_gate_open(&second);
	cr_assert_eq(p->cudaStreamSynchronize(x), cudaSuccess);
	p->cudaEventDestroy(event);
	p->cudaStreamDestroy(x);
	p->cudaStreamDestroy(y);
}

/* Arguments of a rank's group of two all-reduces, on two communicators in
 * either order */
struct both {
	ncclComm_t comm[2];
	int32_t value[2];
	cudaStream_t stream;
};

static void *group_of_both(void *arg)
{
	struct both *b = arg;
	int i;

	p->ncclGroupStart();
	for (i = 0; i < 2; i++)
		p->ncclAllReduce(&b->value[i], &b->value[i], 1, ncclInt32,
		                 ncclSum, b->comm[i], b->stream);
	p->ncclGroupEnd();
	p->cudaStreamSynchronize(b->stream);
	return NULL;
}

Test(order, groups_on_two_communicators_do_not_deadlock)
{
	struct native_clique x, y;
	struct both b[2];
	pthread_t thread[2];
	int r;

	native_clique_open(&x, p, 2);
	native_clique_open(&y, p, 2);
	b[0] = (struct both){ { x.comm[0], y.comm[0] },
		              { 1, 10 },
		              x.stream[0] };
	b[1] = (struct both){ { y.comm[1], x.comm[1] },
		              { 20, 2 },
		              x.stream[1] };
	for (r = 0; r < 2; r++)
		pthread_create(&thread[r], NULL, group_of_both, &b[r]);
	for (r = 0; r < 2; r++)
		pthread_join(thread[r], NULL);
	cr_assert_eq(b[0].value[0], 3);
	cr_assert_eq(b[0].value[1], 30);
	cr_assert_eq(b[1].value[0], 30);
	cr_assert_eq(b[1].value[1], 3);
	native_clique_destroy(&x);
	native_clique_destroy(&y);
}

Test(order, failed_query_inside_a_group_does_not_drop_the_group)
{
	struct native_clique c;
	int n;

	native_clique_open(&c, p, 2);
	native_fill(&c);
	p->ncclGroupStart();
	cr_assert_eq(p->ncclCommCount(NULL, &n), ncclInvalidArgument);
	native_sum(&c, 0);
	native_sum(&c, 1);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	p->cudaStreamSynchronize(c.stream[0]);
	p->cudaStreamSynchronize(c.stream[1]);
	cr_assert_eq(native_wrong(&c, 0), 0);
	native_clique_destroy(&c);
}

Test(order, progress_stops_when_the_awaited_word_is_set)
{
	cudaStream_t s = native_stream(p, 0);
	struct native_gate gate;
	uint32_t *word;

	place_need_built_in("progress");
	p->cudaMallocHost((void **)&word, sizeof(*word));
	*word = 0;
	p->mark(s, word, 1);
	p->progress(0, s, word, 1, UINT64_MAX);
	cr_assert_eq(*word, 1);
	/* progress() must lose no work if the word is already set. */
	native_gate_hold(p, &gate, s);
	p->mark(s, word, 2);
	native_gate_open(&gate);
	p->progress(0, s, word, 1, 0);
	cr_assert_eq(p->cudaStreamSynchronize(s), cudaSuccess);
	cr_assert_eq(*word, 2);
	p->cudaFreeHost(word);
	p->cudaStreamDestroy(s);
}
