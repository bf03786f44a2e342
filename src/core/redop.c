/* SPDX-License-Identifier: Apache-2.0 */

#include "core/redop.h"

#include <stdatomic.h>

#include "base/status.h"
#include "core/clique.h"
#include "core/native.h"

/* Return the table entry of a number.  Numbers that are MAX_REDOPS apart have
 * the same entry. */
static struct redop *place_of(struct cohort_comm *c, int number)
{
	return &c->redops[number % MAX_REDOPS];
}

static const struct redop *find(const struct cohort_comm *c, int number)
{
	const struct redop *r = &c->redops[number % MAX_REDOPS];

	return r->number == number ? r : NULL;
}

static bool is_full(const struct cohort_comm *c)
{
	int i;

	for (i = 0; i < MAX_REDOPS; i++)
		if (!c->redops[i].number)
			return false;
	return true;
}

/* Return a new number whose table entry is free.  It is unique among all
 * communicators. */
static int new_number(struct cohort_comm *c)
{
	/* Relaxed, because it orders nothing. */
	static _Atomic unsigned numbers;
	int number;

	do
		number = REDOP_FIRST_NUMBER +
		         (int)(atomic_fetch_add_explicit(&numbers, 1,
		                                         memory_order_relaxed) %
		               (1u << 30));
	while (place_of(c, number)->number);
	return number;
}

/* Return true if NCCL has no kernel that multiplies elements of @type.  In a
 * group of one rank, it has none for 8-bit floats. */
static bool cannot_multiply(const struct cohort_comm *c, int type)
{
	return c->clique->world_size == 1 &&
	       (type == COHORT_F8E4M3 || type == COHORT_F8E5M2);
}

int redop_create(struct cohort_comm *c, const void *scalar, int type,
                 int residence, int *out)
{
	const struct platform *p = c->clique->platform;
	void *value = (void *)(uintptr_t)scalar; /* NCCL only reads it */
	ncclRedOp_t native;
	int number, rc;

	if (cannot_multiply(c, type))
		return error_set(COHORT_UNSUPPORTED,
		                 "premul_sum_create: type is %s, which NCCL "
		                 "cannot multiply in a group of one rank",
		                 type_name(type));
	if (is_full(c))
		return error_set(COHORT_NO_MEMORY,
		                 "rank %d has %d premultiplied sums already: "
		                 "destroy one first",
		                 c->rank, MAX_REDOPS);
	rc = NATIVE_NCCL(p, c->native, ncclRedOpCreatePreMulSum,
	                 (&native, value, (ncclDataType_t)type,
	                  residence == COHORT_SCALAR_HOST
	                          ? ncclScalarHostImmediate
	                          : ncclScalarDevice,
	                  c->native));
	if (rc != COHORT_OK)
		return rc;
	number = new_number(c);
	*place_of(c, number) = (struct redop){ number, type, native };
	*out = number;
	return COHORT_OK;
}

int redop_destroy(struct cohort_comm *c, int number, bool has_ended)
{
	const struct platform *p = c->clique->platform;
	const struct redop *r = number > 0 ? find(c, number) : NULL;
	ncclRedOp_t native;

	if (!r)
		return error_set(COHORT_INVALID,
		                 "op is %d, not a premultiplied sum of rank %d",
		                 number, c->rank);
	native = r->native;
	place_of(c, number)->number = 0;
	if (has_ended)
		return COHORT_OK;
	return NATIVE_NCCL(p, c->native, ncclRedOpDestroy, (native, c->native));
}

static int call_check(const struct cohort_comm *c, const struct op *op)
{
	const struct redop *r;
	size_t k;

	if (!op_has_redop(op->kind) || op->redop <= COHORT_AVG)
		return COHORT_OK;
	r = find(c, op->redop);
	if (!r)
		return error_set(COHORT_INVALID,
		                 "%s: op is %d, not a value of enum cohort_op "
		                 "nor a premultiplied sum of rank %d",
		                 op_name_of(op), op->redop, c->rank);
	for (k = 0; k < op->n; k++)
		if (op->tensors[k].type != r->type)
			return error_set(COHORT_INVALID,
			                 "%s: op is %d, a premultiplied sum of "
			                 "%s, but type is %s",
			                 op_name_of(op), op->redop,
			                 type_name(r->type),
			                 type_name(op->tensors[k].type));
	return COHORT_OK;
}

int redop_check(const struct cohort_comm *c, const struct op *op)
{
	const struct op *calls;
	size_t i, n;
	int rc = COHORT_OK;

	calls = op_calls(op, &n);
	for (i = 0; i < n && rc == COHORT_OK; i++)
		rc = call_check(c, &calls[i]);
	return rc;
}

ncclRedOp_t redop_native(const struct cohort_comm *c, int number)
{
	return c->redops[number % MAX_REDOPS].native;
}
