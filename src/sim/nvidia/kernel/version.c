/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nvidia/kernel/version.h"

/* The text lists them, too. */
static const struct nccl_version *const versions[] = {
	&version_2_28_9, &version_2_29_7, &version_2_30_7,
	&version_2_31_2, &version_2_32_3,
};

const struct nccl_version *version_find(int number)
{
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		if (versions[i]->number == number)
			return versions[i];
	return NULL;
}

const char *version_list(void)
{
	return "2.28.9, 2.29.7, 2.30.7, 2.31.2 and 2.32.3";
}
