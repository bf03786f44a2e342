/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of NCCL's kernels on CPUs: messages, and kernels that are refused
 */

#include "sim/nvidia/kernel/kernel_run.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "platform/nccl_abi.h"
#include "support/nccl_world.h"

TestSuite(nvidia_messages, .timeout = 60);

/* ---- messages ---------------------------------------------------------- */

#define CHUNK 4096
#define LL_CHUNK 512

static struct p2p_work message(const struct nccl_world *w, int rank,
                               int distance, size_t bytes, char *send,
                               char *recv)
{
	return (struct p2p_work){
		.send = send,
		.recv = recv,
		.send_bytes = bytes,
		.recv_bytes = bytes,
		.send_rank = (rank + distance) % w->ranks,
		.recv_rank = (rank + w->ranks - distance) % w->ranks,
		.channels = w->channels,
		.first_channel = distance % w->channels,
		.send_parts = w->channels,
		.recv_parts = w->channels,
		.send_chunk = CHUNK,
		.recv_chunk = CHUNK,
	};
}

static char byte_of(int from, int to, size_t i)
{
	return (char)((size_t)(from * 16 + to) + i * 3);
}

/* Send @bytes from each rank to every rank, including itself. */
static void exchange(struct nccl_world *w, size_t bytes, bool ll,
                     bool registered)
{
	struct p2p_work works[WORLD_RANKS][WORLD_RANKS], *m;
	struct nccl_plan plans[WORLD_RANKS];
	const struct function function = { .collective = SEND_RECV,
		                           .algorithm = ALGORITHM_RING,
		                           .protocol = PROTOCOL_SIMPLE };

	for (int r = 0; r < w->ranks; r++) {
		for (int d = 0; d < w->ranks; d++) {
			m = &works[r][d];
			*m = message(w, r, d, bytes, malloc(bytes + 1),
			             calloc(bytes + 1, 1));
			m->send_ll = m->recv_ll = ll;
			if (ll)
				m->send_chunk = m->recv_chunk = LL_CHUNK;
			m->send_registered = m->recv_registered = registered;
			for (size_t i = 0; i < bytes; i++)
				m->send[i] = byte_of(r, m->send_rank, i);
		}
		nccl_plan_init(&plans[r], w, r, 1, false);
		nccl_plan_add(&plans[r], w, WORK_P2P, nccl_row(w, &function),
		              works[r], w->ranks);
	}
	nccl_world_run(w, plans);
	for (int r = 0; r < w->ranks; r++)
		for (int d = 0; d < w->ranks; d++) {
			m = &works[r][d];
			for (size_t i = 0; i < bytes; i++)
				cr_assert_eq(m->recv[i],
				             byte_of(m->recv_rank, r, i),
				             "%d bytes from %d to %d at %zu",
				             (int)bytes, m->recv_rank, r, i);
			free(m->send);
			free(m->recv);
		}
}

Test(nvidia_messages, nccl_messages_between_all_ranks_are_correct)
{
	static const size_t bytes[] = { 0, 1, 4096, 200001 };

	for (int ranks = 2; ranks <= WORLD_RANKS; ranks++) {
		struct nccl_world *w =
			nccl_world_new(ranks, WORLD_CHANNELS, 0, ranks == 3);

		for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
			exchange(w, bytes[i], false, false);
			exchange(w, bytes[i], true, false);
		}
		nccl_world_free(w);
	}
}

Test(nvidia_messages, nccl_kernel_copies_between_registered_buffers_directly)
{
	static const int ways[] = { CONNECTION_P2P_WRITE, CONNECTION_P2P_READ };

	for (int i = 0; i < 2; i++) {
		struct nccl_world *w =
			nccl_world_new(3, WORLD_CHANNELS, ways[i], false);

		exchange(w, 200001, false, true);
		exchange(w, 1, false, true);
		nccl_world_free(w);
	}
}

Test(nvidia_messages, nccl_messages_work_with_a_proxy_between_ranks)
{
	struct nccl_world *w = nccl_world_new_carried(3, PROTOCOL_SIMPLE, 1);

	exchange(w, 200001, false, false);
	nccl_world_free(w);
}

/* The second batch sends the data that the first batch has received. */
Test(nvidia_messages, nccl_kernel_runs_batches_of_messages_in_order)
{
	static char a[WORLD_RANKS][9999], b[WORLD_RANKS][9999],
		c[WORLD_RANKS][9999];
	struct nccl_world *w = nccl_world_new(3, WORLD_CHANNELS, 0, false);
	struct nccl_plan plans[WORLD_RANKS];
	struct p2p_work first, second;

	for (int r = 0; r < 3; r++) {
		memset(a[r], 'a' + r, sizeof(a[r]));
		first = message(w, r, 1, sizeof(a[r]), a[r], b[r]);
		second = message(w, r, 1, sizeof(a[r]), b[r], c[r]);
		nccl_plan_init(&plans[r], w, r, 2, false);
		nccl_plan_add(&plans[r], w, WORK_P2P, 0, &first, 1);
		nccl_plan_add(&plans[r], w, WORK_P2P, 0, &second, 1);
	}
	nccl_world_run(w, plans);
	for (int r = 0; r < 3; r++) {
		memset(a[r], 'a' + (r + 1) % 3, sizeof(a[r]));
		cr_assert_arr_eq(c[r], a[r], sizeof(a[r]));
	}
	nccl_world_free(w);
}

static void *run_alone(void *arg)
{
	struct nccl_plan *p = arg;

	p->result = nvidia_kernel_run(&p->launch);
	return NULL;
}

Test(nvidia_messages, abort_flag_ends_an_nccl_message_that_waits)
{
	struct nccl_world *w = nccl_world_new(2, WORLD_CHANNELS, 0, false);
	const struct timespec while_it_waits = { .tv_nsec = 5000000 };
	static char sent[99999], received[99999], zero[99999];
	const struct p2p_work m =
		message(w, 0, 1, sizeof(sent), sent, received);
	struct nccl_plan p;
	pthread_t thread;

	nccl_plan_init(&p, w, 0, 1, false);
	nccl_plan_add(&p, w, WORK_P2P, 0, &m, 1);
	pthread_create(&thread, NULL, run_alone, &p);
	nanosleep(&while_it_waits, NULL);
	__atomic_store_n(&w->abort_flag[0], 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	cr_assert_eq(p.result, NVIDIA_ABORTED);
	cr_assert_arr_eq(received, zero, sizeof(zero));
	nccl_world_free(w);
}

/* ---- the program's buffers ---------------------------------------------- */

/* End of the memory that may_use_limited() allows */
static const char *limit;

static bool may_use_limited(const void *p, size_t bytes, bool write)
{
	return write || (const char *)p + bytes <= limit;
}

Test(nvidia_messages, nccl_kernel_sends_nothing_from_a_forbidden_buffer)
{
	struct nccl_world *w = nccl_world_new(2, WORLD_CHANNELS, 0, false);
	static char sent[9999], received[9999];

	w->abort_flag[0] = 1;
	for (int distance = 0; distance < 2; distance++) {
		const struct p2p_work m =
			message(w, 0, distance, sizeof(sent), sent, received);
		struct nccl_plan p;

		nccl_plan_init(&p, w, 0, 1, false);
		nccl_plan_add(&p, w, WORK_P2P, 0, &m, 1);
		p.launch.may_use = may_use_limited;
		limit = sent + sizeof(sent) - 1;
		cr_assert_eq(nvidia_kernel_run(&p.launch),
		             NVIDIA_ILLEGAL_ADDRESS);
		limit++;
		cr_assert_neq(nvidia_kernel_run(&p.launch),
		              NVIDIA_ILLEGAL_ADDRESS);
	}
	nccl_world_free(w);
}

/* ---- refused kernels, and single ranks --------------------------------- */

Test(nvidia_messages, unsupported_nccl_kernel_is_refused_by_name)
{
	struct nccl_world *w = nccl_world_new(2, 1, 0, false);
	struct coll_work work = { 0 };
	struct function f = { .collective = ALL_GATHER,
		              .algorithm = ALGORITHM_PAT,
		              .protocol = PROTOCOL_SIMPLE };
	struct nccl_plan p;
	char why[64];

	nccl_plan_init(&p, w, 0, 1, false);
	nccl_plan_add(&p, w, WORK_COLL, nccl_row(w, &f), &work, 1);
	cr_assert_not(nvidia_kernel_check(&p.launch, why, sizeof(why)));
	cr_assert_str_eq(why, "AllGather by PAT");
	p.launch.name = "ncclSymkDevKernel_AllGather_LL";
	cr_assert_not(nvidia_kernel_check(&p.launch, why, sizeof(why)));
	cr_assert_str_eq(why, "the kernel ncclSymkDevKernel_AllGather_LL");
	nccl_world_free(w);
}

static const void *nothing(void *context, const char *symbol)
{
	(void)context;
	(void)symbol;
	return NULL;
}

Test(nvidia_messages, unknown_nccl_version_is_refused)
{
	cr_assert_null(nvidia_kernels_open(22808, nothing, NULL));
	cr_assert_null(nvidia_kernels_open(22809, nothing, NULL));
}

Test(nvidia_messages, nccl_one_rank_kernel_multiplies_by_the_scalar)
{
	const char *name = "_ZN43_GLOBAL__N__b4148644_10_onerank_cu_fdf47990"
			   "13oneRankReduceI13FuncPreMulSumI6__halfEEEv";
	int32_t x[] = { 1, -2, 3 }, y[3];
	const int32_t by = 5;

	cr_assert_eq(nvidia_one_rank_type(name), ncclFloat16);
	cr_assert_eq(nvidia_one_rank_type("ncclDevKernel_Generic"), -1);
	nvidia_one_rank_reduce(ncclInt32, y, x, 3, (uintptr_t)&by, true);
	cr_assert_eq(y[1], -10);
	nvidia_one_rank_reduce(ncclInt32, x, x, 3, 7, false);
	cr_assert_eq(x[2], 21);
}
