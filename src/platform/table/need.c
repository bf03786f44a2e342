/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which functions a platform has, and the version that a missing one needs
 */

#include <stdio.h>

#include "base/status.h"
#include "platform/platform.h"

/* clang-format off */
static const struct {
	const char *name;
	int since;
} functions[FUNCTIONS] = {
#define FUNCTION_SINCE(since, result, name, parameters, arguments)             \
	[FUNCTION_##name] = { #name, since },
	NCCL_FUNCTIONS(FUNCTION_SINCE)
	CUDA_FUNCTIONS(FUNCTION_SINCE)
#undef FUNCTION_SINCE
};
/* clang-format on */

const char *nccl_version_text(int version, char text[VERSION_TEXT_SIZE])
{
	/* Up to 2.8 the minor number had one digit. */
	int unit = version < 10000 ? 1000 : 10000;

	snprintf(text, VERSION_TEXT_SIZE, "%d.%d.%d", version / unit,
	         version % unit / 100, version % 100);
	return text;
}

const char *cuda_version_text(int version, char text[VERSION_TEXT_SIZE])
{
	snprintf(text, VERSION_TEXT_SIZE, "%d.%d", version / 1000,
	         version % 1000 / 10);
	return text;
}

bool platform_has(const struct platform *p, enum platform_function function)
{
	return !p->lacks || !p->lacks[function];
}

int platform_need(const struct platform *p, enum platform_function function)
{
	char since[VERSION_TEXT_SIZE], is[VERSION_TEXT_SIZE];
	int version = 0;

	if (platform_has(p, function))
		return COHORT_OK;
	if (function < FUNCTIONS_OF_NCCL) {
		p->ncclGetVersion(&version);
		nccl_version_text(functions[function].since, since);
		nccl_version_text(version, is);
	} else {
		p->cudaRuntimeGetVersion(&version);
		cuda_version_text(functions[function].since, since);
		cuda_version_text(version, is);
	}
	return error_set(COHORT_UNSUPPORTED,
	                 "%s needs %s %s or newer, this is %s",
	                 functions[function].name,
	                 function < FUNCTIONS_OF_NCCL ? "NCCL" : "CUDA", since,
	                 is);
}
