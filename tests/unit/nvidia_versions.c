/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of NCCL's kernels on the structures of each supported version of NCCL
 */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "platform/nccl_abi.h"
#include "sim/nvidia/kernel/kernel_run.h"
#include "sim/nvidia/kernel/layout_read.h"
#include "support/nccl_world.h"

TestSuite(nvidia_versions, .timeout = 60);

static const int versions[] = { 22809, 23102, 23203 };

#define VERSIONS (sizeof(versions) / sizeof(versions[0]))
#define COUNT 5000

/* ---- one collective ----------------------------------------------------- */

static int32_t sent[WORLD_RANKS][COUNT], got[WORLD_RANKS][COUNT];

static void fill(int ranks)
{
	for (int r = 0; r < ranks; r++)
		for (int i = 0; i < COUNT; i++) {
			sent[r][i] = (r + 1) * 1000 + i;
			got[r][i] = -1;
		}
}

static void all_reduce(struct nccl_world *w, enum algorithm algorithm,
                       enum protocol protocol)
{
	const struct function f = {
		.collective = ALL_REDUCE,
		.type = ncclInt32,
		.algorithm = algorithm,
		.protocol = protocol,
	};
	struct nccl_plan plans[WORLD_RANKS];

	fill(w->ranks);
	for (int r = 0; r < w->ranks; r++) {
		struct coll_work work = { .send = (char *)sent[r],
			                  .recv = (char *)got[r] };

		nccl_split(w, &work, &f, COUNT);
		nccl_plan_init(&plans[r], w, r, 1, protocol == PROTOCOL_LL);
		nccl_plan_add(&plans[r], w, WORK_COLL, nccl_row(w, &f), &work,
		              1);
	}
	nccl_world_run(w, plans);
	for (int r = 0; r < w->ranks; r++) {
		cr_assert_eq(plans[r].result, NVIDIA_DONE);
		for (int i = 0; i < COUNT; i++)
			cr_assert_eq(got[r][i], 6000 + 3 * i);
	}
}

Test(nvidia_versions, all_reduce_is_correct_with_each_nccl_version)
{
	for (size_t v = 0; v < VERSIONS; v++) {
		nccl_world_version = versions[v];
		for (int slots = 0; slots < 2; slots++) {
			struct nccl_world *w =
				nccl_world_new(3, WORLD_CHANNELS, 0, slots);

			for (int p = 0; p < PROTOCOLS; p++) {
				all_reduce(w, ALGORITHM_RING, p);
				all_reduce(w, ALGORITHM_TREE, p);
			}
			nccl_world_free(w);
		}
	}
}

Test(nvidia_versions, proxy_between_ranks_works_with_each_nccl_version)
{
	for (size_t v = 0; v < VERSIONS; v++)
		for (int p = 0; p < PROTOCOLS; p++) {
			struct nccl_world *w;

			nccl_world_version = versions[v];
			w = nccl_world_new_carried(
				3, p, p == PROTOCOL_SIMPLE ? 2 : 1);
			all_reduce(w, ALGORITHM_RING, p);
			nccl_world_free(w);
		}
}

/* ---- several broadcasts ------------------------------------------------- */

/* Broadcast data of a different length from each rank, starting after the first
 * element. */
static void broadcasts(struct nccl_world *w, enum protocol protocol)
{
	const struct function f = { .collective = BROADCASTS,
		                    .algorithm = ALGORITHM_RING,
		                    .protocol = protocol };
	static int32_t all[WORLD_RANKS][WORLD_RANKS][COUNT];
	struct nccl_plan plans[WORLD_RANKS];
	const int n = w->ranks;

	fill(n);
	memset(all, 0, sizeof(all));
	for (int r = 0; r < n; r++) {
		struct broadcast_work works[WORLD_RANKS];

		for (int root = 0; root < n; root++)
			works[root] = (struct broadcast_work){
				.depth = (r + n - root) % n,
				.chunk = 512,
				.bytes = (size_t)(COUNT - 1 - root * 1500) * 4,
				.begin = 4,
				.send = (char *)sent[r],
				.recv = (char *)all[r][root],
			};
		nccl_plan_init(&plans[r], w, r, 1, false);
		nccl_plan_add(&plans[r], w, WORK_BROADCAST, nccl_row(w, &f),
		              works, n);
	}
	nccl_world_run(w, plans);
	for (int r = 0; r < n; r++)
		for (int root = 0; root < n; root++)
			for (int i = 0; i < COUNT; i++)
				cr_assert_eq(all[r][root][i],
				             i && i < COUNT - root * 1500
				                     ? sent[root][i]
				                     : 0,
				             "rank %d, root %d, at %d", r, root,
				             i);
}

Test(nvidia_versions, grouped_broadcasts_are_correct_with_each_nccl_version)
{
	for (size_t v = 1; v < VERSIONS; v++) {
		struct nccl_world *w;

		nccl_world_version = versions[v];
		w = nccl_world_new(3, 1, 0, false);
		for (int p = 0; p < PROTOCOLS; p++)
			broadcasts(w, p);
		nccl_world_free(w);
	}
}

/* ---- tables ------------------------------------------------------------- */

Test(nvidia_versions, function_table_of_each_nccl_version_is_complete)
{
	for (size_t v = 0; v < VERSIONS; v++) {
		const struct nccl_version *version = version_find(versions[v]);
		const int rows = read_row_count(&version->layout);

		/* NCCL's own table has one more row. */
		cr_assert_eq((rows + 1) * sizeof(int), version->table_bytes[0]);
		cr_assert(strstr(version_list(), version->text));
	}
}
