/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of scripted faults of the paths between devices (sim.h)
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/native.h"
#include "support/place.h"
#include "support/ranks.h"

#define BYTES ((size_t)64)

/* A buffer on each device, filled with ones on device 0 and with zeros on all
 * others */
struct buffers {
	const struct platform *p;
	unsigned char *on[3];
};

static void make(struct buffers *b)
{
	int d;

	place_need_our_nccl("faults");
	b->p = native_open(3);
	for (d = 0; d < 3; d++) {
		native_must((int)b->p->cudaSetDevice(d), "cudaSetDevice");
		native_must((int)b->p->cudaMalloc((void **)&b->on[d], BYTES),
		            "cudaMalloc");
		native_must((int)b->p->cudaMemset(b->on[d], d == 0, BYTES),
		            "cudaMemset");
	}
}

static void end(struct buffers *b)
{
	int d;

	for (d = 0; d < 3; d++)
		b->p->cudaFree(b->on[d]);
}

static cudaError_t cross(const struct buffers *b, int to, int from,
                         cudaStream_t stream)
{
	return b->p->cudaMemcpyPeerAsync(b->on[to], to, b->on[from], from,
	                                 BYTES, stream);
}

/* Return the number of bytes on @device that are not 1. */
static int wrong(const struct buffers *b, int device)
{
	unsigned char bytes[BYTES];
	int n = 0;

	native_must((int)b->p->cudaMemcpy(bytes, b->on[device], BYTES,
	                                  cudaMemcpyDeviceToHost),
	            "cudaMemcpy");
	for (size_t i = 0; i < BYTES; i++)
		n += bytes[i] != 1;
	return n;
}

Test(path, dead_path_between_devices_is_still_advertised, .timeout = 10)
{
	struct buffers b;
	int can = 0;

	make(&b);
	ranks_fault(0, 1, COHORT_FAULT_PATH, 0);
	cr_assert_eq(b.p->cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
	cr_assert_eq(can, 1);
	b.p->cudaSetDevice(0);
	cr_assert_eq(b.p->cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
	end(&b);
}

Test(path, dead_path_blocks_a_copy_until_the_faults_are_cleared, .timeout = 10)
{
	struct buffers b;
	cudaStream_t stream;

	make(&b);
	stream = native_stream(b.p, 1);
	ranks_fault(1, 0, COHORT_FAULT_PATH, 0);
	cr_assert_eq(cross(&b, 1, 0, stream), cudaSuccess);
	cr_assert_eq(b.p->cudaStreamQuery(stream), cudaErrorNotReady);
	cr_assert_eq(cross(&b, 2, 0, NULL), cudaSuccess,
	             "other paths still work");
	cr_assert_eq(wrong(&b, 2), 0);
	cr_assert_eq(b.p->cudaStreamQuery(stream), cudaErrorNotReady);
	cohort_sim_faults_clear();
	cr_assert_eq(b.p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(wrong(&b, 1), 0);
	b.p->cudaStreamDestroy(stream);
	end(&b);
}

Test(path, garbling_path_flips_a_bit_of_a_copy, .timeout = 10)
{
	struct buffers b;

	make(&b);
	ranks_fault(0, 1, COHORT_FAULT_GARBLE, 0);
	cr_assert_eq(cross(&b, 1, 0, NULL), cudaSuccess);
	cr_assert_eq(wrong(&b, 1), 1);
	cr_assert_eq(cross(&b, 2, 0, NULL), cudaSuccess);
	cr_assert_eq(wrong(&b, 2), 0);
	end(&b);
}

Test(path, failing_path_makes_copies_return_its_error, .timeout = 10)
{
	struct buffers b;

	make(&b);
	ranks_fault(0, 1, COHORT_FAULT_PATH, cudaErrorPeerAccessUnsupported);
	cr_assert_eq(cross(&b, 1, 0, NULL), cudaErrorPeerAccessUnsupported);
	cr_assert_eq(cross(&b, 0, 1, NULL), cudaErrorPeerAccessUnsupported);
	cr_assert_eq(cross(&b, 2, 0, NULL), cudaSuccess);
	cr_assert_eq(wrong(&b, 2), 0);
	end(&b);
}

Test(path, sticky_error_within_a_device_loses_the_device, .timeout = 10)
{
	struct buffers b;

	make(&b);
	ranks_fault(2, 2, COHORT_FAULT_PATH, cudaErrorLaunchFailure);
	cr_assert_eq(cross(&b, 1, 0, NULL), cudaSuccess);
	b.p->cudaSetDevice(2);
	cr_assert_eq(b.p->cudaMemcpy(b.on[2], "", 1, cudaMemcpyHostToDevice),
	             cudaErrorLaunchFailure);
	cr_assert_eq(b.p->cudaDeviceSynchronize(), cudaErrorLaunchFailure);
	b.p->cudaSetDevice(1);
	cr_assert_eq(b.p->cudaDeviceSynchronize(), cudaSuccess);
	cohort_sim_faults_clear();
	end(&b);
}

/* Make an all-reduce of the ranks on devices 0 to @n - 1, in one group. Return
 * false if it is not done after many queries of the streams. */
static bool sums(struct native_clique *c, int n)
{
	double until = native_now_ms() + 50;
	int r;

	native_fill(c);
	c->p->ncclGroupStart();
	for (r = 0; r < n; r++)
		cr_assert_eq(native_sum(c, r), ncclSuccess);
	cr_assert_eq(c->p->ncclGroupEnd(), ncclSuccess);
	for (r = 0; r < n; r++)
		while (c->p->cudaStreamQuery(c->stream[r]) == cudaErrorNotReady)
			if (native_now_ms() > until)
				return false;
	return true;
}

Test(path, dead_path_stalls_only_the_ranks_that_use_it, .timeout = 10)
{
	struct native_clique two, three;
	const struct platform *p;

	place_need_our_nccl("faults");
	p = native_open(3);
	native_clique_open(&two, p, 2);
	native_clique_open(&three, p, 3);
	ranks_fault(0, 2, COHORT_FAULT_PATH, 0);
	native_sum_all(&two);
	native_sum_all(&two);
	cr_assert_not(sums(&three, 3));
	native_clique_abort(&three);
	native_sum_all(&two);
	native_clique_destroy(&two);
}

Test(path, NCCL_P2P_DISABLE_avoids_a_dead_path, .timeout = 10)
{
	struct native_clique c;

	place_need_our_nccl("faults");
	setenv("NCCL_P2P_DISABLE", "1", 1);
	native_clique_open(&c, native_open(2), 2);
	ranks_fault(0, 1, COHORT_FAULT_PATH, 0);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(path, path_that_garbles_data_makes_sums_wrong, .timeout = 10)
{
	struct native_clique c;
	int r;

	place_need_our_nccl("faults");
	native_clique_open(&c, native_open(2), 2);
	ranks_fault(1, 0, COHORT_FAULT_GARBLE, 0);
	cr_assert(sums(&c, 2));
	for (r = 0; r < 2; r++)
		cr_assert_eq(native_wrong(&c, r), 1);
	native_clique_destroy(&c);
}

Test(path, sticky_error_of_a_path_loses_a_device, .timeout = 10)
{
	struct native_clique c;
	const struct platform *p;

	place_need_our_nccl("faults");
	p = native_open(2);
	native_clique_open(&c, p, 2);
	ranks_fault(0, 1, COHORT_FAULT_PATH, cudaErrorLaunchFailure);
	p->ncclGroupStart();
	native_sum(&c, 0);
	native_sum(&c, 1);
	p->ncclGroupEnd();
	cr_assert_eq(p->cudaStreamQuery(c.stream[1]), cudaErrorLaunchFailure);
	cohort_sim_faults_clear();
	native_clique_abort(&c);
}

Test(path, path_faults_can_be_scripted_in_the_environment, .timeout = 10)
{
	struct buffers b;

	setenv("COHORT_FAULTS", "0@1:garble,1@2:path=217,0@2:path", 1);
	make(&b);
	cr_assert_eq(cross(&b, 1, 0, NULL), cudaSuccess);
	cr_assert_eq(wrong(&b, 1), 1);
	cr_assert_eq(cross(&b, 2, 1, NULL), cudaErrorPeerAccessUnsupported);
	cr_assert_eq(cross(&b, 2, 0, NULL), cudaSuccess);
	cr_assert_eq(b.p->cudaStreamQuery(NULL), cudaErrorNotReady);
	cohort_sim_faults_clear();
	/* Wait for the copy: a free would wait only on the current device. */
	cr_assert_eq(b.p->cudaStreamSynchronize(NULL), cudaSuccess);
	end(&b);
}

Test(path, path_fault_needs_two_valid_devices)
{
	struct cohort_fault fault = { .rank = -1, .kind = COHORT_FAULT_PATH };

	place_need_our_nccl("faults");
	cr_assert_eq(cohort_sim_fault_add(&fault), COHORT_INVALID);
	expect_text(cohort_last_error(), "fault->rank is -1");
	fault.rank = 0;
	fault.operation = COHORT_SIM_MAX_DEVICES;
	cr_assert_eq(cohort_sim_fault_add(&fault), COHORT_INVALID);
	expect_text(cohort_last_error(), "fault->operation is 1024");
	fault.operation = 1;
	fault.value = 1000001;
	cr_assert_eq(cohort_sim_fault_add(&fault), COHORT_INVALID);
	expect_text(cohort_last_error(), "fault->value is 1000001");
}
