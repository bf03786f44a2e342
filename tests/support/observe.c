/* SPDX-License-Identifier: Apache-2.0 */

#include "support/observe.h"

#include "support/place.h"

static const struct platform *real;
static struct platform table;
static void (*see)(const char *function);

/* clang-format off */
#define SEEN(since, result, name, parameters, arguments)                       \
	static result seen_##name parameters                                   \
	{                                                                      \
		see(#name);                                                    \
		return real->name arguments;                                   \
	}
NCCL_FUNCTIONS(SEEN)
CUDA_FUNCTIONS(SEEN)

void observe_install(const struct platform *of,
                     void (*fn)(const char *function))
{
	see = fn;
	real = of;
	table = *real;
#define ENTRY(since, result, name, parameters, arguments)                      \
	table.name = seen_##name;
	NCCL_FUNCTIONS(ENTRY)
	CUDA_FUNCTIONS(ENTRY)
#undef ENTRY
	platform_override(&table);
}
/* clang-format on */
