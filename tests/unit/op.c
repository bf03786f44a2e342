/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of op_check(): which calls it refuses, and with which message
 *
 * Suites in tests/api test all other arguments.
 */

#include <criterion/criterion.h>
#include <string.h>

#include <cohort/cohort.h>

#include "core/op.h"
#include "support/expect.h"

static int byte;

static int check(enum op_kind kind, struct cohort_tensor t, int rank)
{
	const struct op op = { .kind = kind, .tensors = &t, .n = 1, .root = 1 };

	return op_check(&op, rank, 4);
}

static struct cohort_tensor tensor(const void *send, void *recv)
{
	return (struct cohort_tensor){ send, recv, 1, COHORT_U8 };
}

Test(op, every_kind_of_operation_has_a_name)
{
	cr_assert_str_eq(op_name(OP_ALL_REDUCE), "all_reduce");
	cr_assert_str_eq(op_name(OP_BROADCAST), "broadcast");
	cr_assert_str_eq(op_name(OP_REDUCE), "reduce");
	cr_assert_str_eq(op_name(OP_ALL_GATHER), "all_gather");
	cr_assert_str_eq(op_name(OP_REDUCE_SCATTER), "reduce_scatter");
	cr_assert_str_eq(op_name(OP_BARRIER), "barrier");
	cr_assert_str_eq(op_name(OP_GATHER), "gather");
	cr_assert_str_eq(op_name(OP_SCATTER), "scatter");
	cr_assert_str_eq(op_name(OP_ALL_TO_ALL), "all_to_all");
	cr_assert_str_eq(op_name(OP_SEND), "send");
	cr_assert_str_eq(op_name(OP_RECV), "recv");
	cr_assert_str_eq(op_name(OP_COPY), "copy");
	cr_assert_str_eq(op_name(OP_BATCH), "batch");
}

static bool is_collective(enum op_kind kind)
{
	return op_is_collective(&(struct op){ .kind = kind });
}

Test(op, copies_sends_and_receives_are_not_collectives)
{
	cr_assert(is_collective(OP_ALL_REDUCE));
	cr_assert(is_collective(OP_ALL_TO_ALL));
	cr_assert(is_collective(OP_BARRIER));
	cr_assert_not(is_collective(OP_COPY));
	cr_assert_not(is_collective(OP_SEND));
	cr_assert_not(is_collective(OP_RECV));
}

Test(op, batch_is_a_collective_if_it_contains_one)
{
	const struct op calls[] = { { .kind = OP_SEND },
		                    { .kind = OP_REDUCE } };
	struct op batch = { .kind = OP_BATCH, .calls = calls, .n = 1 };

	cr_assert_not(op_is_collective(&batch));
	cr_assert(op_is_awaited(&batch));
	batch.n = 2;
	cr_assert(op_is_collective(&batch));
	batch.n = 0;
	cr_assert_not(op_is_collective(&batch));
	cr_assert_not(op_is_awaited(&batch));
}

Test(op, broadcast_needs_a_send_buffer_only_on_the_root)
{
	cr_assert_eq(check(OP_BROADCAST, tensor(NULL, &byte), 0), COHORT_OK);
	cr_assert_eq(check(OP_BROADCAST, tensor(NULL, &byte), 1),
	             COHORT_INVALID);
	cr_assert_eq(check(OP_BROADCAST, tensor(&byte, NULL), 1),
	             COHORT_INVALID);
}

Test(op, reduce_needs_a_recv_buffer_only_on_the_root)
{
	cr_assert_eq(check(OP_REDUCE, tensor(&byte, NULL), 0), COHORT_OK);
	cr_assert_eq(check(OP_REDUCE, tensor(&byte, NULL), 1), COHORT_INVALID);
	cr_assert_eq(check(OP_REDUCE, tensor(NULL, &byte), 0), COHORT_INVALID);
}

Test(op, gather_and_scatter_need_both_buffers_only_on_the_root)
{
	cr_assert_eq(check(OP_GATHER, tensor(&byte, NULL), 0), COHORT_OK);
	cr_assert_eq(check(OP_GATHER, tensor(&byte, NULL), 1), COHORT_INVALID);
	cr_assert_eq(check(OP_GATHER, tensor(NULL, &byte), 0), COHORT_INVALID);
	cr_assert_eq(check(OP_SCATTER, tensor(NULL, &byte), 0), COHORT_OK);
	cr_assert_eq(check(OP_SCATTER, tensor(NULL, &byte), 1), COHORT_INVALID);
	cr_assert_eq(check(OP_SCATTER, tensor(&byte, NULL), 0), COHORT_INVALID);
}

Test(op, send_needs_a_send_buffer_and_recv_a_recv_buffer)
{
	cr_assert_eq(check(OP_SEND, tensor(&byte, NULL), 0), COHORT_OK);
	cr_assert_eq(check(OP_SEND, tensor(NULL, &byte), 0), COHORT_INVALID);
	cr_assert_eq(check(OP_RECV, tensor(NULL, &byte), 0), COHORT_OK);
	cr_assert_eq(check(OP_RECV, tensor(&byte, NULL), 0), COHORT_INVALID);
	cr_assert_eq(check(OP_SEND, tensor(&byte, NULL), 1), COHORT_INVALID);
	expect_text(cohort_last_error(), "peer is 1, which is this rank");
}

/* Each of the four blocks has 3 elements, so each buffer has 12 bytes. */
Test(op, all_to_all_buffers_must_not_overlap)
{
	static char memory[24];
	struct cohort_tensor t = { memory, memory + 12, 3, COHORT_U8 };

	cr_assert_eq(check(OP_ALL_TO_ALL, t, 0), COHORT_OK);
	t.recv = memory + 11;
	cr_assert_eq(check(OP_ALL_TO_ALL, t, 0), COHORT_INVALID);
	expect_text(cohort_last_error(), "overlap");
	t = (struct cohort_tensor){ memory + 11, memory, 3, COHORT_U8 };
	cr_assert_eq(check(OP_ALL_TO_ALL, t, 0), COHORT_INVALID);
	t = (struct cohort_tensor){ memory, memory, 0, COHORT_U8 };
	cr_assert_eq(check(OP_ALL_TO_ALL, t, 0), COHORT_OK);
}

/* Return a send or receive of @count bytes from rank 1 to itself. */
static struct op self_transfer(enum op_kind kind, struct cohort_tensor *t,
                               size_t count)
{
	*t = (struct cohort_tensor){ &byte, &byte, count, COHORT_U8 };
	return (struct op){ .kind = kind, .root = 1, .tensors = t, .n = 1 };
}

static int check_batch(size_t n, const struct op *calls)
{
	const struct op batch = { .kind = OP_BATCH, .calls = calls, .n = n };

	return op_check(&batch, 1, 4);
}

Test(op, batch_must_receive_what_a_rank_sends_to_itself)
{
	struct cohort_tensor t[4];
	struct op calls[] = { self_transfer(OP_SEND, &t[0], 1),
		              self_transfer(OP_SEND, &t[1], 2),
		              self_transfer(OP_RECV, &t[2], 1),
		              self_transfer(OP_RECV, &t[3], 2) };

	cr_assert_eq(check_batch(4, calls), COHORT_OK);
	cr_assert_eq(check_batch(3, calls), COHORT_INVALID);
	expect_text(cohort_last_error(), "has no matching recv");
	cr_assert_eq(check_batch(2, calls + 2), COHORT_INVALID);
	expect_text(cohort_last_error(), "has no matching send");
	t[3].count = 3;
	cr_assert_eq(check_batch(4, calls), COHORT_INVALID);
	expect_text(cohort_last_error(),
	            "rank 1 sends itself 2 uint8, but receives 3 "
	            "uint8");
	t[3] = (struct cohort_tensor){ &byte, &byte, 2, COHORT_I8 };
	cr_assert_eq(check_batch(4, calls), COHORT_INVALID);
	expect_text(cohort_last_error(),
	            "rank 1 sends itself 2 uint8, but receives 2 "
	            "int8");
	cr_assert_eq(check_batch(0, NULL), COHORT_OK);
}

Test(op, count_beyond_the_address_space_is_refused)
{
	struct cohort_tensor t = { &byte, &byte, PTRDIFF_MAX, COHORT_U8 };

	cr_assert_eq(check(OP_ALL_REDUCE, t, 0), COHORT_OK);
	t.count = (size_t)PTRDIFF_MAX + 1;
	cr_assert_eq(check(OP_ALL_REDUCE, t, 0), COHORT_INVALID);
	t.count = PTRDIFF_MAX / 4; /* four ranks gather into one buffer */
	cr_assert_eq(check(OP_ALL_GATHER, t, 0), COHORT_OK);
	t.count++;
	cr_assert_eq(check(OP_ALL_GATHER, t, 0), COHORT_INVALID);
	expect_text(cohort_last_error(), "all_gather: count is");
	t.type = COHORT_F64;
	t.count = PTRDIFF_MAX / 8;
	cr_assert_eq(check(OP_ALL_REDUCE, t, 0), COHORT_OK);
	t.count++;
	cr_assert_eq(check(OP_ALL_REDUCE, t, 0), COHORT_INVALID);
}

Test(op, bytes_of_a_list_are_the_sum_over_its_tensors)
{
	const struct cohort_tensor list[] = { { NULL, NULL, 3, COHORT_F64 },
		                              { NULL, NULL, 5, COHORT_I8 } };
	const struct op op = { .kind = OP_ALL_REDUCE, .tensors = list, .n = 2 };

	cr_assert_eq(op_bytes(&op), 29);
}

/*
 * A barrier's buffers belong to the library, and a close frees them. So a rank
 * that calls after the close must not get an error about buffers.
 */
Test(op, buffers_of_a_barrier_are_not_checked)
{
	cr_assert_eq(check(OP_BARRIER, tensor(NULL, NULL), 0), COHORT_OK);
}
