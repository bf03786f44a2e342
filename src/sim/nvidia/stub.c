/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nvidia/stub.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct stub {
	const void *address;
	const char *name;
};

/* By address; constant once they are found. */
static struct stub *stubs;
static size_t count;

/* A kernel may be in a namespace of its file, whose name comes first.  The compiler
 * makes another function of each stub, and parts of it. */
static bool is_kernel(const char *name)
{
	static const char *const names[] = { "ncclDevKernel_",
		                             "ncclSymkDevKernel_",
		                             "oneRankReduce" };
	size_t i;

	if (strncmp(name, "_Z", 2) != 0 || strchr(name, '.') ||
	    strstr(name, "__device_stub__"))
		return false;
	for (i = 0; i < ARRAY_SIZE(names); i++)
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

bool stubs_find(const struct image *image)
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
