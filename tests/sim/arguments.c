/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of NCCL's functions with an invalid communicator, and of which one of
 * several invalid arguments of an init is reported
 */

#include <criterion/criterion.h>

#include "platform/platform.h"
#include "support/native.h"
#include "support/place.h"

TestSuite(arguments, .timeout = 10);

/* More zeros than a communicator has bytes. They are not a communicator,
 * because the magic number is missing. */
static _Alignas(16) char zeros[1 << 16];

/* Expect @call to return ncclInvalidArgument, both alone and in a group. The
 * end of the group must return @of_group. */
#define REFUSES(p, of_group, call)                                             \
	do {                                                                   \
		cr_expect_eq(p->call, ncclInvalidArgument, #call);             \
		cr_assert_eq(p->ncclGroupStart(), ncclSuccess);                \
		cr_expect_eq(p->call, ncclInvalidArgument, #call);             \
		cr_expect_eq(p->ncclGroupEnd(), of_group, #call);              \
		cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,              \
		             "no group may be left open");                     \
	} while (0)

static void refuse_questions(const struct platform *p, ncclComm_t comm)
{
	ncclResult_t state;
	int value;

	REFUSES(p, ncclSuccess, ncclCommCount(comm, &value));
	REFUSES(p, ncclSuccess, ncclCommCuDevice(comm, &value));
	REFUSES(p, ncclSuccess, ncclCommUserRank(comm, &value));
	REFUSES(p, ncclSuccess, ncclCommGetAsyncError(comm, &state));
}

static void refuse_handles(const struct platform *p, ncclComm_t comm)
{
	int32_t memory = 1;
	ncclRedOp_t op;
	void *handle;

	REFUSES(p, ncclSuccess, ncclCommRegister(comm, &memory, 4, &handle));
	REFUSES(p, ncclSuccess, ncclCommDeregister(comm, &memory));
	REFUSES(p, ncclSuccess,
	        ncclCommWindowDeregister(comm, (ncclWindow_t)&memory));
	REFUSES(p, ncclSuccess,
	        ncclRedOpCreatePreMulSum(&op, &memory, ncclInt32,
	                                 ncclScalarHostImmediate, comm));
	REFUSES(p, ncclSuccess, ncclRedOpDestroy((ncclRedOp_t)70000, comm));
}

static void refuse_groups(const struct platform *p, ncclComm_t comm)
{
	int32_t memory = 1;
	ncclWindow_t window;
	ncclComm_t child;
	int list[] = { 1 };

	REFUSES(p, ncclInvalidArgument,
	        ncclAllReduce(&memory, &memory, 1, ncclInt32, ncclSum, comm,
	                      NULL));
	REFUSES(p, ncclInvalidArgument,
	        ncclSend(&memory, 1, ncclInt32, 0, comm, NULL));
	REFUSES(p, ncclInvalidArgument,
	        ncclCommSplit(comm, 0, 0, &child, NULL));
	REFUSES(p, ncclInvalidArgument,
	        ncclCommShrink(comm, list, 1, &child, NULL, 0));
	REFUSES(p, ncclInvalidArgument,
	        ncclCommWindowRegister(comm, &memory, 4, &window, 0));
}

Test(arguments, nccl_functions_refuse_a_null_communicator)
{
	const struct platform *p = native_open(2);

	place_need_our_nccl("what NCCL checks before it uses a communicator");
	refuse_questions(p, NULL);
	refuse_handles(p, NULL);
	refuse_groups(p, NULL);
}

Test(arguments, nccl_functions_refuse_memory_that_is_no_communicator)
{
	const struct platform *p = native_open(2);
	const ncclComm_t none = (ncclComm_t)zeros;

	place_need_our_nccl("memory that is smaller than NCCL's communicators");
	refuse_questions(p, none);
	refuse_handles(p, none);
	refuse_groups(p, none);
	REFUSES(p, ncclInvalidArgument, ncclCommFinalize(none));
	REFUSES(p, ncclInvalidArgument, ncclCommDestroy(none));
	REFUSES(p, ncclInvalidArgument, ncclCommAbort(none));
	REFUSES(p, ncclInvalidArgument, ncclCommRevoke(none, 0));
}

/* Each init has a second invalid argument, which is checked later and, if
 * possible, would give another result. */
Test(arguments, init_arguments_are_checked_in_order)
{
	const struct platform *p = native_open(2);
	ncclConfig_t good = NCCL_CONFIG_INITIALIZER, bad = good;
	const ncclUniqueId none = { { 0 } };
	ncclComm_t comm;

	place_need_our_nccl("ids and numbers of ranks that this one refuses");
	bad.blocking = 2;
	REFUSES(p, ncclInvalidArgument,
	        ncclCommInitRankConfig(NULL, 3, none, 3, &bad));
	REFUSES(p, ncclInvalidArgument,
	        ncclCommInitRankConfig(&comm, 3, none, 3, &good));
	REFUSES(p, ncclInvalidArgument,
	        ncclCommInitRankConfig(&comm, 3, none, 0, &bad));
	cr_expect_eq(p->ncclCommInitRankConfig(&comm, 3, none, 0, &good),
	             ncclInvalidUsage);
	cr_expect_null(comm);
	cr_expect_eq(p->ncclCommInitRankConfig(&comm, 2, none, 0, &good),
	             ncclInvalidUsage);
	cr_expect_null(comm);
}
