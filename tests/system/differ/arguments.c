/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scenes that test single arguments, which NCCL refuses or accepts
 *
 * Each call is made alone and then inside a group, on a communicator of two
 * ranks that this thread has created. Afterwards, the communicator must still
 * work.
 */

#include <string.h>

#include "differ.h"

/* Communicators and other objects that the calls below use */
struct props {
	/* rank 0's communicator, and one that a call creates */
	ncclComm_t c, out;
	ncclComm_t dead; /* memory that is not a communicator */
	ncclUniqueId id;
	ncclConfig_t config;
	cudaStream_t t;
	float *s, *r;
	void *p, *handle;
	ncclWindow_t window;
	ncclRedOp_t op;
	ncclResult_t state;
	ncclSimInfo_t info;
	int number, list[2], twice[2], none[2];
	ncclComm_t both[2];
	float scalar;
};

#define F ncclFloat
#define BAD ((ncclDataType_t)12)
#define NO ((ncclDataType_t)-1)
#define NO_OP ((ncclRedOp_t)-1)
#define FREE_OP ((ncclRedOp_t)5)
#define FAR_OP ((ncclRedOp_t)123456)

/* The calls that each collective refuses, as X(name, call) */
#define EACH_COLLECTIVE(X, name, ...)                                          \
	X(name##_no_comm, CALL_##name(F, ncclSum, 0, NULL, 4))                 \
	X(name##_dead_comm, CALL_##name(F, ncclSum, 0, x.dead, 4))             \
	X(name##_type_12, CALL_##name(BAD, ncclSum, 0, x.c, 4))                \
	X(name##_type_minus_1, CALL_##name(NO, ncclSum, 0, x.c, 4))            \
	X(name##_nothing, CALL_##name(F, ncclSum, 0, x.c, 0))                  \
	X(name##_nothing_of_type_12, CALL_##name(BAD, ncclSum, 0, x.c, 0))

#define EACH_REDUCTION(X, name)                                                \
	X(name##_op_minus_1, CALL_##name(F, NO_OP, 0, x.c, 4))                 \
	X(name##_op_5, CALL_##name(F, FREE_OP, 0, x.c, 4))                     \
	X(name##_op_far, CALL_##name(F, FAR_OP, 0, x.c, 4))                    \
	X(name##_nothing_with_op_far, CALL_##name(F, FAR_OP, 0, x.c, 0))

#define EACH_ROOT(X, name)                                                     \
	X(name##_root_minus_1, CALL_##name(F, ncclSum, -1, x.c, 4))            \
	X(name##_root_2, CALL_##name(F, ncclSum, 2, x.c, 4))                   \
	X(name##_nothing_to_root_2, CALL_##name(F, ncclSum, 2, x.c, 0))

#define CALL_all_reduce(type, op, root, comm, n)                               \
	ncclAllReduce(x.s, x.r, n, type, op, comm, x.t)
#define CALL_reduce(type, op, root, comm, n)                                   \
	ncclReduce(x.s, x.r, n, type, op, root, comm, x.t)
#define CALL_reduce_scatter(type, op, root, comm, n)                           \
	ncclReduceScatter(x.s, x.r, n, type, op, comm, x.t)
#define CALL_broadcast(type, op, root, comm, n)                                \
	ncclBroadcast(x.s, x.r, n, type, root, comm, x.t)
#define CALL_bcast(type, op, root, comm, n)                                    \
	ncclBcast(x.s, n, type, root, comm, x.t)
#define CALL_all_gather(type, op, root, comm, n)                               \
	ncclAllGather(x.s, x.r, n, type, comm, x.t)
#define CALL_all_to_all(type, op, root, comm, n)                               \
	ncclAlltoAll(x.s, x.r, n, type, comm, x.t)
#define CALL_gather(type, op, root, comm, n)                                   \
	ncclGather(x.s, x.r, n, type, root, comm, x.t)
#define CALL_scatter(type, op, root, comm, n)                                  \
	ncclScatter(x.s, x.r, n, type, root, comm, x.t)

#define CALL_send(type, op, root, comm, n)                                     \
	ncclSend(x.s, n, type, root, comm, x.t)
#define CALL_recv(type, op, root, comm, n)                                     \
	ncclRecv(x.r, n, type, root, comm, x.t)

#define EACH_MESSAGE(X, name)                                                  \
	X(name##_no_comm, CALL_##name(F, ncclSum, 1, NULL, 4))                 \
	X(name##_dead_comm, CALL_##name(F, ncclSum, 1, x.dead, 4))             \
	X(name##_type_12, CALL_##name(BAD, ncclSum, 1, x.c, 4))                \
	X(name##_type_minus_1, CALL_##name(NO, ncclSum, 1, x.c, 4))            \
	X(name##_peer_minus_1, CALL_##name(F, ncclSum, -1, x.c, 4))            \
	X(name##_peer_2, CALL_##name(F, ncclSum, 2, x.c, 4))                   \
	X(name##_itself, CALL_##name(F, ncclSum, 0, x.c, 4))                   \
	X(name##_itself_nothing, CALL_##name(F, ncclSum, 0, x.c, 0))

#define COLLECTIVES(X)                                                         \
	EACH_COLLECTIVE(X, all_reduce)                                         \
	EACH_REDUCTION(X, all_reduce)                                          \
	EACH_COLLECTIVE(X, reduce)                                             \
	EACH_REDUCTION(X, reduce)                                              \
	EACH_ROOT(X, reduce)                                                   \
	EACH_COLLECTIVE(X, reduce_scatter)                                     \
	EACH_REDUCTION(X, reduce_scatter)                                      \
	EACH_COLLECTIVE(X, broadcast)                                          \
	EACH_ROOT(X, broadcast)                                                \
	EACH_COLLECTIVE(X, bcast)                                              \
	EACH_ROOT(X, bcast)                                                    \
	EACH_COLLECTIVE(X, all_gather)                                         \
	EACH_COLLECTIVE(X, all_to_all)                                         \
	EACH_COLLECTIVE(X, gather)                                             \
	EACH_ROOT(X, gather)                                                   \
	EACH_COLLECTIVE(X, scatter)                                            \
	EACH_ROOT(X, scatter)                                                  \
	EACH_MESSAGE(X, send)                                                  \
	EACH_MESSAGE(X, recv)

#define CONFIG(X, name, set)                                                   \
	X(config_##name,                                                       \
	  ((set), ncclCommInitRankConfig(&x.out, 2, x.id, 0, &x.config)))      \
	X(split_config_##name,                                                 \
	  ((set), ncclCommSplit(x.c, 0, 0, &x.out, &x.config)))

#define INITS(X)                                                               \
	X(version_null, ncclGetVersion(NULL))                                  \
	X(id_null, ncclGetUniqueId(NULL))                                      \
	X(init_no_comm, ncclCommInitRank(NULL, 2, x.id, 0))                    \
	X(init_of_0, ncclCommInitRank(&x.out, 0, x.id, 0))                     \
	X(init_of_minus_1, ncclCommInitRank(&x.out, -1, x.id, 0))              \
	X(init_rank_minus_1, ncclCommInitRank(&x.out, 2, x.id, -1))            \
	X(init_rank_2, ncclCommInitRank(&x.out, 2, x.id, 2))                   \
	X(init_config_no_comm,                                                 \
	  ncclCommInitRankConfig(NULL, 2, x.id, 0, &x.config))                 \
	X(init_config_of_0,                                                    \
	  ncclCommInitRankConfig(&x.out, 0, x.id, 0, &x.config))               \
	X(init_config_rank_2,                                                  \
	  ncclCommInitRankConfig(&x.out, 2, x.id, 2, &x.config))               \
	X(scalable_no_ids,                                                     \
	  ncclCommInitRankScalable(&x.out, 2, 0, 0, &x.id, &x.config))         \
	X(scalable_3_ids,                                                      \
	  ncclCommInitRankScalable(&x.out, 2, 0, 3, &x.id, &x.config))         \
	X(scalable_no_comm,                                                    \
	  ncclCommInitRankScalable(NULL, 2, 0, 1, &x.id, &x.config))           \
	X(scalable_of_0,                                                       \
	  ncclCommInitRankScalable(&x.out, 0, 0, 1, &x.id, &x.config))         \
	X(init_all_no_comms, ncclCommInitAll(NULL, 2, NULL))                   \
	X(init_all_of_minus_1, ncclCommInitAll(x.both, -1, NULL))              \
	X(init_all_of_0, ncclCommInitAll(x.both, 0, NULL))                     \
	X(init_all_no_device, ncclCommInitAll(x.both, 2, x.none))              \
	X(init_all_twice, ncclCommInitAll(x.both, 2, x.twice))                 \
	CONFIG(X, magic, x.config.magic = 1)                                   \
	CONFIG(X, size_0, x.config.size = 0)                                   \
	CONFIG(X, blocking_2, x.config.blocking = 2)                           \
	CONFIG(X, cluster_minus_1, x.config.cgaClusterSize = -1)               \
	CONFIG(X, ctas_0, x.config.minCTAs = 0)                                \
	CONFIG(X, ctas_turned, (x.config.minCTAs = 4, x.config.maxCTAs = 2))   \
	CONFIG(X, max_ctas_0, x.config.maxCTAs = 0)                            \
	CONFIG(X, split_share_2, x.config.splitShare = 2)                      \
	CONFIG(X, shrink_share_2, x.config.shrinkShare = 2)                    \
	CONFIG(X, collnet_2, x.config.collnetEnable = 2)                       \
	CONFIG(X, policy_99, x.config.CTAPolicy = 99)                          \
	CONFIG(X, traffic_class_minus_2, x.config.trafficClass = -2)           \
	CONFIG(X, nvls_0, x.config.nvlsCTAs = 0)                               \
	CONFIG(X, peer_channels_0, x.config.nChannelsPerNetPeer = 0)           \
	CONFIG(X, centric_2, x.config.nvlinkCentricSched = 2)

#define OTHERS(X)                                                              \
	X(finalize_null, ncclCommFinalize(NULL))                               \
	X(finalize_dead, ncclCommFinalize(x.dead))                             \
	X(destroy_null, ncclCommDestroy(NULL))                                 \
	X(destroy_dead, ncclCommDestroy(x.dead))                               \
	X(abort_null, ncclCommAbort(NULL))                                     \
	X(revoke_null, ncclCommRevoke(NULL, 0))                                \
	X(revoke_null_with_flags, ncclCommRevoke(NULL, 1))                     \
	X(revoke_flags, ncclCommRevoke(x.c, 1))                                \
	X(revoke_dead, ncclCommRevoke(x.dead, 0))                              \
	X(async_no_comm, ncclCommGetAsyncError(NULL, &x.state))                \
	X(async_dead, ncclCommGetAsyncError(x.dead, &x.state))                 \
	X(async_no_state, ncclCommGetAsyncError(x.c, NULL))                    \
	X(count_no_comm, ncclCommCount(NULL, &x.number))                       \
	X(count_dead, ncclCommCount(x.dead, &x.number))                        \
	X(count_nowhere, ncclCommCount(x.c, NULL))                             \
	X(device_no_comm, ncclCommCuDevice(NULL, &x.number))                   \
	X(device_dead, ncclCommCuDevice(x.dead, &x.number))                    \
	X(device_nowhere, ncclCommCuDevice(x.c, NULL))                         \
	X(rank_no_comm, ncclCommUserRank(NULL, &x.number))                     \
	X(rank_dead, ncclCommUserRank(x.dead, &x.number))                      \
	X(rank_nowhere, ncclCommUserRank(x.c, NULL))                           \
	X(split_no_comm, ncclCommSplit(NULL, 0, 0, &x.out, NULL))              \
	X(split_dead, ncclCommSplit(x.dead, 0, 0, &x.out, NULL))               \
	X(split_nowhere, ncclCommSplit(x.c, 0, 0, NULL, NULL))                 \
	X(shrink_no_list, ncclCommShrink(x.c, NULL, 1, &x.out, NULL, 0))       \
	X(shrink_empty_list, ncclCommShrink(x.c, x.list, 0, &x.out, NULL, 0))  \
	X(shrink_of_less, ncclCommShrink(x.c, x.list, -1, &x.out, NULL, 0))    \
	X(shrink_itself, ncclCommShrink(x.c, x.list, 1, &x.out, NULL, 0))      \
	X(shrink_nowhere, ncclCommShrink(x.c, x.list, 1, NULL, NULL, 0))       \
	X(shrink_no_comm, ncclCommShrink(NULL, x.list, 1, &x.out, NULL, 0))    \
	X(shrink_dead, ncclCommShrink(x.dead, x.list, 1, &x.out, NULL, 0))     \
	X(op_no_comm, ncclRedOpCreatePreMulSum(&x.op, &x.scalar, F,            \
	                                       ncclScalarHostImmediate, NULL)) \
	X(op_dead, ncclRedOpCreatePreMulSum(&x.op, &x.scalar, F,               \
	                                    ncclScalarHostImmediate, x.dead))  \
	X(op_nowhere, ncclRedOpCreatePreMulSum(NULL, &x.scalar, F,             \
	                                       ncclScalarHostImmediate, x.c))  \
	X(op_no_scalar, ncclRedOpCreatePreMulSum(                              \
				&x.op, NULL, F, ncclScalarHostImmediate, x.c)) \
	X(op_type_12, ncclRedOpCreatePreMulSum(&x.op, &x.scalar, BAD,          \
	                                       ncclScalarHostImmediate, x.c))  \
	X(op_type_12_on_device,                                                \
	  ncclRedOpCreatePreMulSum(&x.op, x.s, BAD, ncclScalarDevice, x.c))    \
	X(op_residence_7,                                                      \
	  ncclRedOpCreatePreMulSum(&x.op, &x.scalar, F,                        \
	                           (ncclScalarResidence_t)7, x.c))             \
	X(op_destroy_sum, ncclRedOpDestroy(ncclSum, x.c))                      \
	X(op_destroy_minus_1, ncclRedOpDestroy(NO_OP, x.c))                    \
	X(op_destroy_unknown, ncclRedOpDestroy(FREE_OP, x.c))                  \
	X(op_destroy_far, ncclRedOpDestroy(FAR_OP, x.c))                       \
	X(op_destroy_no_comm, ncclRedOpDestroy(FREE_OP, NULL))                 \
	X(op_destroy_sum_no_comm, ncclRedOpDestroy(ncclSum, NULL))             \
	X(alloc_nowhere, ncclMemAlloc(NULL, 4096))                             \
	X(alloc_nothing, ncclMemAlloc(&x.p, 0))                                \
	X(free_null, ncclMemFree(NULL))                                        \
	X(free_stack, ncclMemFree(&x))                                         \
	X(register_no_comm, ncclCommRegister(NULL, x.s, 4096, &x.handle))      \
	X(register_dead, ncclCommRegister(x.dead, x.s, 4096, &x.handle))       \
	X(deregister_no_comm, ncclCommDeregister(NULL, x.s))                   \
	X(deregister_dead, ncclCommDeregister(x.dead, x.s))                    \
	X(deregister_null, ncclCommDeregister(x.c, NULL))                      \
	X(deregister_unknown, ncclCommDeregister(x.c, x.s))                    \
	X(window_dead,                                                         \
	  ncclCommWindowRegister(x.dead, x.s, 4096, &x.window, 0))             \
	X(window_no_comm,                                                      \
	  ncclCommWindowRegister(NULL, x.s, 4096, &x.window, 0))               \
	X(window_deregister_null, ncclCommWindowDeregister(x.c, NULL))         \
	X(window_deregister_no_comm, ncclCommWindowDeregister(NULL, NULL))     \
	X(simulate_magic, (x.info.magic = 1, ncclGroupSimulateEnd(&x.info)))   \
	X(simulate_null, ncclGroupSimulateEnd(NULL))                           \
	X(group_end, ncclGroupEnd())

#define ARGUMENTS(X) INITS(X) OTHERS(X) COLLECTIVES(X)

static void set_props(struct props *x, struct stage *g)
{
	static const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	static long long nothing[4096];

	memset(x, 0, sizeof(*x));
	x->c = g->actors[0].comm;
	x->t = g->actors[0].stream;
	x->s = g->actors[0].send;
	x->r = g->actors[0].recv;
	x->dead = (ncclComm_t)(void *)nothing;
	x->config = config;
	x->scalar = 2;
	x->none[1] = 99;
	x->list[1] = 1;
	x->info.size = sizeof(x->info);
	x->info.version = NCCL_VERSION_CODE;
	ncclGetUniqueId(&x->id);
}

static void make(struct stage *g, int (*call)(struct props *))
{
	struct actor *a = &g->main;
	ncclResult_t state = ncclSuccess;
	struct props x;

	connect_all(g);
	set_props(&x, g);
	enter(a, "alone(");
	leave(a, call(&x));
	set_props(&x, g);
	CALL(a, ncclGroupStart());
	enter(a, "grouped(");
	leave(a, call(&x));
	CALL(a, ncclGroupEnd());
	CALL(a, ncclCommGetAsyncError(g->actors[0].comm, &state));
	note(a, " state=%d", (int)state);
	sum_all(g);
	destroy_all(g);
}

#define FUNCTION(name, call)                                                   \
	static int call_##name(struct props *props)                            \
	{                                                                      \
		struct props x = *props;                                       \
		int result = (int)(call);                                      \
                                                                               \
		(void)x;                                                       \
		return result;                                                 \
	}                                                                      \
                                                                               \
	static void run_##name(struct stage *g)                                \
	{                                                                      \
		make(g, call_##name);                                          \
	}

ARGUMENTS(FUNCTION)

#define SCENE(name, call) { #name, 2, HANGS + 4, run_##name },

const struct scene argument_scenes[] = { ARGUMENTS(SCENE){ .name = NULL } };
