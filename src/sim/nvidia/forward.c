/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NCCL's functions: each jumps to the real one, with all that its caller has passed
 *
 * As in NCCL, each has a second name, pnccl..., and the first is a weak alias.
 */

#include "sim/nvidia/forward.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#include "platform/cuda_abi.h"
#include "platform/nccl_abi.h"
#include "sim/nvidia/names.h"

#include <cohort/cohort.h>

/* Why there is no NCCL, or NULL.  Written by the constructor only. */
static const char *no_nccl;

/* What a function answers that has nowhere to jump to: a code or, if it is one that
 * gives texts, a text. */
static const void *refuse(const char *name, bool is_text)
{
	const char *why = no_nccl;

	if (!why) {
		why = "this NCCL has no such function";
		fprintf(stderr, "cohort: %s: %s\n", name, why);
	}
	return is_text ? why : (const void *)(uintptr_t)ncclSystemError;
}

/* clang-format off */
#define IS_TEXT(result) \
	_Generic((result)0, const char *: true, default: false)
/* clang-format on */

/* forward_NAME: where the function jumps.  Written by the constructor only. */
#define FUNCTION(since, result, name, parameters, arguments)                   \
	static const void *refuse_##name(void)                                 \
	{                                                                      \
		return refuse(#name, IS_TEXT(result));                         \
	}                                                                      \
	extern const void *(*forward_##name)(void);                            \
	const void *(*forward_##name)(void) = refuse_##name;                   \
                                                                               \
	COHORT_API void p##name(void) __attribute__((naked));                  \
	void p##name(void)                                                     \
	{                                                                      \
		__asm__("jmp *forward_" #name "(%rip)");                       \
	}                                                                      \
	COHORT_API void name(void) __attribute__((weak, alias("p" #name)));

NCCL_EXPORTS(FUNCTION)

static void forward(void *library, const char *name, void *slot)
{
	void *function = dlsym(library, name);

	if (function)
		*(void **)slot = function;
}

void forward_to(void *library)
{
#define FORWARD(since, result, name, parameters, arguments)                    \
	forward(library, #name, &forward_##name);
	NCCL_EXPORTS(FORWARD)
#undef FORWARD
}

void forward_nowhere(const char *why)
{
	no_nccl = why;
}
