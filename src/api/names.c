/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The constants of all enums and the sizes of all structs by name, for bindings
 */

#include <string.h>

#include <cohort/bootstrap.h>
#include <cohort/cohort.h>
#include <cohort/reducer.h>
#include <cohort/sim.h>

#include "base/util.h"

/* clang-format off */
static const struct {
	const char *of, *name;
	int value;
} constants[] = {
#define STATUS(name, value, text)      { "cohort_status", #name, value },
#define TYPE(name, value, bytes, text) { "cohort_type", #name, value },
#define OP(name, value, text)          { "cohort_op", #name, value },
#define VERDICT(name, value, text)     { "cohort_verdict_kind", #name, value },
	COHORT_STATUS_LIST(STATUS)
	COHORT_TYPE_LIST(TYPE)
	COHORT_OP_LIST(OP)
	COHORT_VERDICT_LIST(VERDICT)
#define CONSTANT(of, name) { "cohort_" #of, #name, name }
	CONSTANT(bootstrap_kind, COHORT_BOOTSTRAP_TABLE),
	CONSTANT(bootstrap_kind, COHORT_BOOTSTRAP_ENV),
	CONSTANT(bootstrap_kind, COHORT_BOOTSTRAP_PMIX),
	CONSTANT(bootstrap_kind, COHORT_BOOTSTRAP_AUTO),
	CONSTANT(scalar, COHORT_SCALAR_DEVICE),
	CONSTANT(scalar, COHORT_SCALAR_HOST),
	CONSTANT(platform, COHORT_PLATFORM_AUTO),
	CONSTANT(platform, COHORT_PLATFORM_GPU),
	CONSTANT(platform, COHORT_PLATFORM_HOST),
	CONSTANT(policy, COHORT_POLICY_ABORT),
	CONSTANT(policy, COHORT_POLICY_REPORT),
	CONSTANT(policy, COHORT_POLICY_ASK),
	CONSTANT(stage, COHORT_STAGE_SLOW),
	CONSTANT(stage, COHORT_STAGE_WARNING),
	CONSTANT(stage, COHORT_STAGE_EXPIRED),
	CONSTANT(stage, COHORT_STAGE_ENDED),
	CONSTANT(stack, COHORT_STACK_ALL),
	CONSTANT(many, COHORT_MANY_AUTO),
	CONSTANT(many, COHORT_MANY_GROUP),
	CONSTANT(many, COHORT_MANY_FLAT),
	CONSTANT(many, COHORT_MANY_ALONE),
	CONSTANT(launch, COHORT_LAUNCH_DEFAULT),
	CONSTANT(launch, COHORT_LAUNCH_TOGETHER),
	CONSTANT(launch, COHORT_LAUNCH_AHEAD),
	CONSTANT(connect, COHORT_CONNECT_DEFAULT),
	CONSTANT(connect, COHORT_CONNECT_COLLECTIVES),
	CONSTANT(connect, COHORT_CONNECT_ALL),
	CONSTANT(connect, COHORT_CONNECT_NONE),
	CONSTANT(sim_sync, COHORT_SIM_SYNC_NONE),
	CONSTANT(sim_sync, COHORT_SIM_SYNC_DEVICE),
	CONSTANT(sim_sync, COHORT_SIM_SYNC_MEMORY),
	CONSTANT(fault_kind, COHORT_FAULT_NEVER),
	CONSTANT(fault_kind, COHORT_FAULT_DELAY),
	CONSTANT(fault_kind, COHORT_FAULT_ERROR),
	CONSTANT(fault_kind, COHORT_FAULT_STUCK),
	CONSTANT(fault_kind, COHORT_FAULT_DIE),
	CONSTANT(fault_kind, COHORT_FAULT_ASYNC),
	CONSTANT(fault_kind, COHORT_FAULT_HUNG),
	CONSTANT(fault_kind, COHORT_FAULT_INIT),
	CONSTANT(fault_kind, COHORT_FAULT_MEMORY),
	CONSTANT(fault_kind, COHORT_FAULT_ARGUMENT),
	CONSTANT(fault_kind, COHORT_FAULT_INIT_ERROR),
	CONSTANT(fault_kind, COHORT_FAULT_DEVICE),
	CONSTANT(fault_kind, COHORT_FAULT_PATH),
	CONSTANT(fault_kind, COHORT_FAULT_GARBLE),
};
/* clang-format on */

const char *cohort_enum_name(const char *of, int value)
{
	size_t i;

	for (i = 0; of && i < ARRAY_SIZE(constants); i++)
		if (constants[i].value == value &&
		    strcmp(constants[i].of, of) == 0)
			return constants[i].name;
	return NULL;
}

size_t cohort_struct_size(const char *name)
{
#define SIZE(name)                                                             \
	{                                                                      \
		"cohort_" #name, sizeof(struct cohort_##name)                  \
	}
	static const struct {
		const char *name;
		size_t size;
	} structs[] = {
		SIZE(bootstrap),       SIZE(cause),         SIZE(deadlines),
		SIZE(fault),           SIZE(group_options), SIZE(parameter),
		SIZE(platform_info),   SIZE(process),       SIZE(rank_report),
		SIZE(reducer_options), SIZE(stats),         SIZE(tensor),
		SIZE(unique_id),       SIZE(verdict),
	};
	size_t i;

	for (i = 0; name && i < ARRAY_SIZE(structs); i++)
		if (strcmp(structs[i].name, name) == 0)
			return structs[i].size;
	return 0;
}
