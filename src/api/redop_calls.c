/* SPDX-License-Identifier: Apache-2.0 */

/* Implements cohort_premul_sum_create() and cohort_op_destroy(), for sums whose
 * inputs are multiplied by a scalar first */

#include "api/communicator.h"
#include "base/status.h"
#include "core/comm_lock.h"
#include "core/native.h"

static int sum_check(const void *scalar, int type, int residence, const int *op)
{
	if (!scalar || !op)
		return error_set(COHORT_INVALID,
		                 "premul_sum_create: %s is NULL",
		                 scalar ? "op" : "scalar");
	if (!cohort_type_size(type))
		return error_set(COHORT_INVALID,
		                 "premul_sum_create: type is %d, not a value "
		                 "of enum cohort_type",
		                 type);
	if (!type_has_arithmetic(type))
		return error_set(COHORT_INVALID,
		                 "premul_sum_create: type is %s, which cannot "
		                 "be reduced, only moved",
		                 cohort_type_name(type));
	if (residence != COHORT_SCALAR_DEVICE &&
	    residence != COHORT_SCALAR_HOST)
		return error_set(COHORT_INVALID,
		                 "premul_sum_create: residence is %d, not a "
		                 "value of enum cohort_scalar",
		                 residence);
	return COHORT_OK;
}

int cohort_premul_sum_create(struct cohort_comm *comm, const void *scalar,
                             int type, int residence, int *op)
{
	struct device_scope scope;
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = sum_check(scalar, type, residence, op);
	if (rc == COHORT_OK)
		rc = comm_enter_on_device(comm, false, &scope);
	if (rc != COHORT_OK)
		return rc;
	rc = redop_create(comm, scalar, type, residence, op);
	comm_leave_on_device(comm, &scope);
	return rc;
}

int cohort_op_destroy(struct cohort_comm *comm, int op)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = comm_enter(comm, true);
	if (rc != COHORT_OK)
		return rc;
	rc = comm_await_detached(comm);
	/* The lock keeps the reaper from freeing the native communicator. */
	if (rc != COHORT_STATE)
		rc = redop_destroy(comm, op,
		                   cause_or_closing(comm->clique->end));
	comm_leave(comm);
	return rc;
}
