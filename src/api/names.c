/* SPDX-License-Identifier: Apache-2.0 */

/* Looks up struct sizes by name, for bindings to other languages */

#include <string.h>

#include <cohort/bootstrap.h>
#include <cohort/cohort.h>
#include <cohort/reducer.h>
#include <cohort/sim.h>

#include "base/util.h"

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
