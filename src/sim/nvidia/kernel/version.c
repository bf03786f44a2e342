/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nvidia/kernel/version.h"

#include "base/util.h"
#include "sim/nvidia/known.h"

static const struct nccl_version *const versions[] = {
#define ADDRESS(number, major, minor, patch)                                   \
	&version_##major##_##minor##_##patch,
	KNOWN_NCCL(ADDRESS)
#undef ADDRESS
};

const struct nccl_version *version_find(int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (versions[i]->number == number)
			return versions[i];
	return NULL;
}

const char *version_list(void)
{
#define TEXT(number, major, minor, patch) " " #major "." #minor "." #patch
	return &KNOWN_NCCL(TEXT)[1];
#undef TEXT
}
