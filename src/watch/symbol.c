/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/symbol.h"

#include <dlfcn.h>
#include <string.h>

bool (*symbol_more)(struct text *t, uintptr_t address);

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool symbol_is_plumbing(uintptr_t address)
{
	static const char *const starts[] = {
		"libc.so",  "libpthread.so", "ld-linux",  "libc.musl",
		"ld-musl-", "linux-vdso",    "libcohort",
	};
	Dl_info info;
	size_t i;

	if (!dladdr((void *)address, &info) || !info.dli_fname)
		return false;
	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (strncmp(base_name(info.dli_fname), starts[i],
		            strlen(starts[i])) == 0)
			return true;
	return false;
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
