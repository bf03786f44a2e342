/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which functions a platform has, and how versions are spelled
 */

#include <stdio.h>

#include "platform/platform.h"

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
