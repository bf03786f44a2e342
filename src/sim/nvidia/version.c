/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nvidia/version.h"

static const struct nccl_version *const versions[] = { &version_2_28_9 };

const struct nccl_version *version_find(int number)
{
	size_t i;

	for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		if (versions[i]->number == number)
			return versions[i];
	return NULL;
}

const char *version_list(void)
{
	return version_2_28_9.text;
}

bool version_fits(const struct nccl_version *version, const struct image *image,
                  const char **table)
{
	const Elf64_Sym *symbol;
	size_t i;

	for (i = 0; version->tables[i].name; i++) {
		*table = version->tables[i].name;
		symbol = image_symbol(image, *table);
		if (!symbol || symbol->st_size != version->tables[i].bytes)
			return false;
	}
	return true;
}
