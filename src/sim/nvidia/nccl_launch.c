/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches NCCL's kernels: the stream calls a host function that does the work
 * of the kernel (kernel_run.h)
 */

#include "sim/nvidia/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/type.h"
#include "sim/driver/kernel_launcher.h"
#include "sim/nvidia/kernel/combine.h"
#include "sim/nvidia/kernel/kernel_run.h"

/* ---- host stubs of kernels -------------------------------------------- */

struct stub {
	const void *address;
	const char *name;
};

/* All host stubs, sorted by address.  Constant after stubs_find(). */
static struct stub *stubs;
static size_t count;

/* Return true if @name is the host stub of a kernel.  The name can start with a
 * namespace.  Helper functions that the compiler derives from a stub do not
 * count. */
static bool is_kernel(const char *name)
{
	static const char *const names[] = { "ncclDevKernel_",
		                             "ncclSymkDevKernel_",
		                             "oneRankReduce" };
	size_t i;

	if (strncmp(name, "_Z", 2) != 0 || strchr(name, '.') ||
	    strstr(name, "__device_stub__"))
		return false;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strstr(name, names[i]))
			return true;
	return false;
}

static int compare(const void *a, const void *b)
{
	const char *p = ((const struct stub *)a)->address;
	const char *q = ((const struct stub *)b)->address;

	return (p > q) - (p < q);
}

static bool stubs_find(const struct image *image)
{
	const Elf64_Sym *s = image->symbols;
	const char *name;

	stubs = malloc(image->symbol_count * sizeof(*stubs));
	if (!stubs)
		return false;
	for (; s < image->symbols + image->symbol_count; s++) {
		name = image_name(image, s);
		if (ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
		    image_address(image, s) && is_kernel(name))
			stubs[count++] = (struct stub){
				.address = image_address(image, s),
				.name = name,
			};
	}
	qsort(stubs, count, sizeof(*stubs), compare);
	return true;
}

const char *stub_name(const void *address)
{
	const struct stub key = { .address = address };
	const struct stub *stub =
		count ? bsearch(&key, stubs, count, sizeof(key), compare)
		      : NULL;

	return stub ? stub->name : NULL;
}

/* Information about NCCL's kernels.  Constant after the launcher is set. */
static struct nvidia_kernels *kernels;

/* ---- kernels of collectives ------------------------------------------- */

struct nccl_launch {
	struct nvidia_launch kernel;
	_Alignas(16) char arguments[];
};

static CUresult run(void *user)
{
	const struct nccl_launch *l = user;

	switch (nvidia_kernel_run(&l->kernel)) {
	case NVIDIA_DONE:
	/* This is not an error, because NCCL itself set the abort flag. */
	case NVIDIA_ABORTED:
		return CUDA_SUCCESS;
	case NVIDIA_ILLEGAL_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case NVIDIA_UNSUPPORTED:
	case NVIDIA_NO_MEMORY:
		break;
	}
	return CUDA_ERROR_LAUNCH_FAILED;
}

static CUresult launch(const char *name, const struct host_launch *from,
                       struct host_kernel *out)
{
	struct nccl_launch *l =
		from->arguments ? malloc(sizeof(*l) + from->bytes) : NULL;
	char why[256];

	if (!from->arguments)
		return CUDA_ERROR_INVALID_VALUE;
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(l->arguments, from->arguments, from->bytes);
	l->kernel = (struct nvidia_launch){
		.kernels = kernels,
		.name = name,
		.arguments = l->arguments,
		.bytes = from->bytes,
		.grid = (int)from->grid[0],
		.may_use = cohort_host_may_use,
	};
	if (!nvidia_kernel_check(&l->kernel, why, sizeof(why))) {
		fprintf(stderr,
		        "cohort: CPUs cannot run NCCL's kernel %s: %s\n", name,
		        why);
		free(l);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	*out = (struct host_kernel){ .run = run, .drop = free, .user = l };
	return CUDA_SUCCESS;
}

/* ---- the kernel of one-rank communicators ----------------------------- */

struct one_rank {
	int type;
	void *dst;
	const void *src;
	size_t count;
	uint64_t scalar;
	bool is_pointer;
};

static CUresult run_one_rank(void *user)
{
	const struct one_rank *l = user;
	const size_t bytes = l->count * type_size(l->type);

	if (!cohort_host_may_use(l->dst, bytes, true) ||
	    !cohort_host_may_use(l->src, bytes, false))
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	nvidia_one_rank_reduce(l->type, l->dst, l->src, l->count, l->scalar,
	                       l->is_pointer);
	return CUDA_SUCCESS;
}

static CUresult launch_one_rank(int type, const struct host_launch *from,
                                struct host_kernel *out)
{
	struct one_rank *l;

	if (!from->pointers)
		return CUDA_ERROR_INVALID_VALUE;
	l = malloc(sizeof(*l));
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->type = type;
	memcpy(&l->dst, from->pointers[0], sizeof(l->dst));
	memcpy(&l->src, from->pointers[1], sizeof(l->src));
	memcpy(&l->count, from->pointers[2], sizeof(l->count));
	memcpy(&l->scalar, from->pointers[3], sizeof(l->scalar));
	memcpy(&l->is_pointer, from->pointers[4], sizeof(l->is_pointer));
	*out = (struct host_kernel){ .run = run_one_rank,
		                     .drop = free,
		                     .user = l };
	return CUDA_SUCCESS;
}

/* ---- all kernels ------------------------------------------------------ */

static CUresult launcher(const struct host_launch *from,
                         struct host_kernel *out)
{
	const char *name = stub_name(from->function);
	int type;

	if (!name)
		return CUDA_ERROR_NOT_FOUND;
	type = nvidia_one_rank_type(name);
	return type < 0 ? launch(name, from, out)
	                : launch_one_rank(type, from, out);
}

static const void *look_up(void *context, const char *name)
{
	const struct image *image = context;
	const Elf64_Sym *symbol = image_symbol(image, name);

	return symbol ? image_address(image, symbol) : NULL;
}

bool launch_begin(const struct nccl_version *version, const struct image *image)
{
	struct image of = *image;

	kernels = stubs_find(image)
	                  ? nvidia_kernels_open(version->number, look_up, &of)
	                  : NULL;
	if (!kernels)
		return false;
	cohort_host_set_launcher(launcher);
	return true;
}
