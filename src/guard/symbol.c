/* SPDX-License-Identifier: Apache-2.0 */

#include "guard/symbol.h"

#include <dlfcn.h>
#include <string.h>

bool (*symbol_more)(struct text *t, uintptr_t address);

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void symbol_add(struct text *t, uintptr_t address)
{
	Dl_info info;

	if (!dladdr((void *)address, &info) || !info.dli_fname)
		text_add(t, "0x%zx", (size_t)address);
	else if (info.dli_sname)
		text_add(t, "%s", info.dli_sname);
	else
		text_add(t, "%s+0x%zx", base_name(info.dli_fname),
		         (size_t)(address - (uintptr_t)info.dli_fbase));
}
