/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the project's ABI headers with the real ones
 *
 * The program prints every constant and size that differs. If it is built with
 * ABI_NO_REAL, because NCCL's and CUDA's headers are not installed, it prints
 * that and is skipped.
 *
 * The exit status is 0 if all facts agree, 1 if one differs, and 77 if skipped.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"

#if defined(ABI_NO_REAL)
int main(void)
{
	printf("abi: skipped: no prefix with include/nccl.h and "
	       "include/cuda_runtime_api.h was found (set CUDA_HOME)\n");
	return 77;
}
#else
static int facts_differ(const struct abi_fact *ours,
                        const struct abi_fact *real)
{
	if (strcmp(ours->name, real->name) == 0 && ours->value == real->value)
		return 0;
	printf("abi: %s: ours is %lld, the real header's %s is %lld\n",
	       ours->name, ours->value, real->name, real->value);
	return 1;
}

int main(void)
{
	size_t i;
	int differences = 0;

	if (abi_ours_count != abi_real_count) {
		printf("abi: %zu facts of ours, %zu real ones\n",
		       abi_ours_count, abi_real_count);
		return EXIT_FAILURE;
	}
	for (i = 0; i < abi_ours_count; i++)
		differences += facts_differ(&abi_ours[i], &abi_real[i]);
	printf("abi: %zu facts compared, %d differ\n", abi_ours_count,
	       differences);
	return differences ? EXIT_FAILURE : EXIT_SUCCESS;
}
#endif
