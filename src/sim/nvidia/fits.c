/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/nvidia/fits.h"

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
