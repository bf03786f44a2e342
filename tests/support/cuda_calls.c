/* SPDX-License-Identifier: Apache-2.0 */

#include "support/cuda_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/place.h"

static void *find(void *runtime, const char *name)
{
	void *function = runtime ? dlsym(runtime, name) : NULL;

	if (function)
		return function;
	fprintf(stderr, "no %s in the runtime\n", name);
	exit(1);
}

/* Find the functions in the runtime library that the GPU platform has
 * opened. */
static void find_all(struct cuda_calls *calls)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	void *runtime = NULL;

	if (cohort_platform_probe(COHORT_PLATFORM_GPU, &info) == COHORT_OK)
		runtime = dlopen(info.runtime_file, RTLD_NOW);
#define FIND(name) *(void **)&calls->name = find(runtime, #name);
	CUDA_CALLS(FIND)
#undef FIND
}

const struct cuda_calls *cuda_calls(void)
{
#define HOST(name) .name = host_##name,
	static struct cuda_calls calls = { CUDA_CALLS(HOST) };
#undef HOST

	if (place_table()->kind == COHORT_PLATFORM_GPU)
		find_all(&calls);
	return &calls;
}
