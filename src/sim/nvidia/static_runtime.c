/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Redirects the CUDA runtime that is linked into a program to the drop-in
 * libcudart
 *
 * Such a runtime accepts only NVIDIA's driver.  So cohort run preloads this
 * library, whose constructor runs before those of the program.  Processes that
 * the program starts load the library as well; it does nothing in a program
 * without such a runtime.
 */

#include <dlfcn.h>
#include <stdio.h>

#include "sim/dropin/host_calls.h"
#include "sim/nvidia/patch.h"

static void complain(const struct image *image, const char *why)
{
	fprintf(stderr,
	        "cohort: %s: the CUDA runtime that is linked into the program "
	        "cannot be replaced: %s\n",
	        image->path, why);
}

static int runtime_version(const struct image *image)
{
	const Elf64_Sym *symbol = image_symbol(image, "cudaRuntimeGetVersion");
	cudaError_t (*get)(int *version);
	int version = 0;

	if (!symbol)
		return 0;
	*(void **)&get = image_address(image, symbol);
	return get(&version) == cudaSuccess ? version : 0;
}

__attribute__((constructor)) static void redirect(void)
{
	char name[64], why[512];
	struct image image;
	void *runtime;
	int version;

	if (!image_find(&image, dlopen(NULL, RTLD_LAZY), why, sizeof(why)))
		return;
	version = runtime_version(&image);
	if (!version)
		return;
	snprintf(name, sizeof(name), "libcudart.so.%d", version / 1000);
	runtime = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!runtime)
		complain(&image, dlerror());
	else if (!dlsym(runtime, "cohort_drop_in"))
		complain(&image, "the simulator has no runtime of its version");
	else if (!patch_runtime(&image, runtime, NULL, why, sizeof(why)))
		complain(&image, why);
}
