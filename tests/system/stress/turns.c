/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races an abort with launches that alternate between two streams
 *
 * A held stream delays the first launch of a communicator. The second launch,
 * on another stream, waits for the first. The communicator is aborted just when
 * the first launch continues. Each launch must end, in either order.
 */

#include <stdio.h>

#include "support/native.h"
#include "support/stress.h"

static const struct platform *p;

static void sum_on(struct native_clique *c, cudaStream_t stream)
{
	native_must(p->ncclAllReduce(c->send[0], c->recv[0], NATIVE_COUNT,
	                             ncclInt32, ncclSum, c->comm[0], stream),
	            "ncclAllReduce");
}

static void run_round(cudaStream_t other, uint64_t *seed)
{
	struct native_clique c;
	struct native_gate gate;

	native_clique_open(&c, p, 2);
	native_gate_hold(p, &gate, c.stream[0]);
	sum_on(&c, c.stream[0]);
	sum_on(&c, other);
	native_gate_reached(&gate);
	native_gate_open(&gate);
	stress_spin(stress_random(seed) % 5000);
	native_clique_abort(&c);
	native_must((int)p->cudaStreamSynchronize(other), "other stream");
}

/* Load the kernel in advance, because loading would wait for a held stream. */
static void warm_up(void)
{
	struct native_clique c;

	native_clique_open(&c, p, 2);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

int main(int argc, char **argv)
{
	unsigned long rounds = 0;
	cudaStream_t other;
	uint64_t seed = 1;

	p = native_open(2);
	warm_up();
	other = native_stream(p, 0);
	for (; stress_continue(argc, argv); rounds++)
		run_round(other, &seed);
	printf("%lu rounds\n", rounds);
	return 0;
}
