/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which functions a platform lacks, and how versions are spelled
 */

#include <criterion/criterion.h>

#include "platform/platform.h"

static bool lacks[FUNCTIONS];

static const struct platform older = { .lacks = lacks };

Test(need, a_function_that_exists_can_be_used)
{
	static const struct platform whole;

	cr_assert(platform_has(&whole, FUNCTION_ncclAlltoAll));
	cr_assert(platform_has(&older, FUNCTION_ncclAllReduce));
	cr_assert(platform_has(&older, FUNCTION_cudaMalloc));
}

Test(need, a_missing_function_is_known)
{
	lacks[FUNCTION_ncclAlltoAll] = true;
	cr_assert(!platform_has(&older, FUNCTION_ncclAlltoAll));
	cr_assert(platform_has(&older, FUNCTION_ncclGather));
}

Test(need, versions_are_spelled_as_nccl_and_cuda_do)
{
	char text[VERSION_TEXT_SIZE];

	cr_assert_str_eq(nccl_version_text(22809, text), "2.28.9");
	cr_assert_str_eq(nccl_version_text(2804, text), "2.8.4");
	cr_assert_str_eq(cuda_version_text(12080, text), "12.8");
	cr_assert_str_eq(cuda_version_text(13000, text), "13.0");
}
