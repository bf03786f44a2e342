/* SPDX-License-Identifier: Apache-2.0 */

/*
 * op_check(): what is refused, and by which name; the rest is in tests/api
 */

#include <criterion/criterion.h>
#include <string.h>

#include <cohort/cohort.h>

#include "core/op.h"

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

Test(op, every_kind_has_a_name)
{
	cr_assert_str_eq(op_name(OP_ALL_REDUCE), "all_reduce");
	cr_assert_str_eq(op_name(OP_BROADCAST), "broadcast");
	cr_assert_str_eq(op_name(OP_REDUCE), "reduce");
	cr_assert_str_eq(op_name(OP_ALL_GATHER), "all_gather");
	cr_assert_str_eq(op_name(OP_REDUCE_SCATTER), "reduce_scatter");
	cr_assert_str_eq(op_name(OP_BARRIER), "barrier");
	cr_assert_str_eq(op_name(OP_COPY), "copy");
}

Test(op, only_a_copy_is_no_collective)
{
	cr_assert(op_is_collective(OP_ALL_REDUCE));
	cr_assert(op_is_collective(OP_BARRIER));
	cr_assert_not(op_is_collective(OP_COPY));
}

Test(op, a_broadcast_needs_send_on_its_root_only)
{
	cr_assert_eq(check(OP_BROADCAST, tensor(NULL, &byte), 0), COHORT_OK);
	cr_assert_eq(check(OP_BROADCAST, tensor(NULL, &byte), 1),
	             COHORT_INVALID);
	cr_assert_eq(check(OP_BROADCAST, tensor(&byte, NULL), 1),
	             COHORT_INVALID);
}

Test(op, a_reduce_needs_recv_on_its_root_only)
{
	cr_assert_eq(check(OP_REDUCE, tensor(&byte, NULL), 0), COHORT_OK);
	cr_assert_eq(check(OP_REDUCE, tensor(&byte, NULL), 1), COHORT_INVALID);
	cr_assert_eq(check(OP_REDUCE, tensor(NULL, &byte), 0), COHORT_INVALID);
}

Test(op, counts_are_limited_by_what_can_be_addressed)
{
	struct cohort_tensor t = { &byte, &byte, PTRDIFF_MAX, COHORT_U8 };

	cr_assert_eq(check(OP_ALL_REDUCE, t, 0), COHORT_OK);
	t.count = (size_t)PTRDIFF_MAX + 1;
	cr_assert_eq(check(OP_ALL_REDUCE, t, 0), COHORT_INVALID);
	t.count = PTRDIFF_MAX / 4; /* of four ranks together */
	cr_assert_eq(check(OP_ALL_GATHER, t, 0), COHORT_OK);
	t.count++;
	cr_assert_eq(check(OP_ALL_GATHER, t, 0), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(), "all_gather: count is"));
	t.type = COHORT_F64;
	t.count = PTRDIFF_MAX / 8;
	cr_assert_eq(check(OP_ALL_REDUCE, t, 0), COHORT_OK);
	t.count++;
	cr_assert_eq(check(OP_ALL_REDUCE, t, 0), COHORT_INVALID);
}

Test(op, bytes_add_up_over_a_list)
{
	const struct cohort_tensor list[] = { { NULL, NULL, 3, COHORT_F64 },
		                              { NULL, NULL, 5, COHORT_I8 } };
	const struct op op = { .kind = OP_ALL_REDUCE, .tensors = list, .n = 2 };

	cr_assert_eq(op_bytes(&op), 29);
}

/* They are the library's, and gone after close, when who was left behind is told
 * other things than that. */
Test(op, the_buffers_of_a_barrier_are_not_looked_at)
{
	cr_assert_eq(check(OP_BARRIER, tensor(NULL, NULL), 0), COHORT_OK);
}
