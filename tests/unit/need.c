/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of missing functions of a platform, and of version numbers as text
 */

#include <criterion/criterion.h>

#include "platform/platform.h"

static bool lacks[FUNCTIONS];

static const struct platform older = { .lacks = lacks };

Test(need, platform_has_is_true_for_functions_that_exist)
{
	static const struct platform whole;

	cr_assert(platform_has(&whole, FUNCTION_ncclAlltoAll));
	cr_assert(platform_has(&older, FUNCTION_ncclAllReduce));
	cr_assert(platform_has(&older, FUNCTION_cudaMalloc));
}

Test(need, platform_has_returns_false_for_a_missing_function)
{
	lacks[FUNCTION_ncclAlltoAll] = true;
	cr_assert(!platform_has(&older, FUNCTION_ncclAlltoAll));
	cr_assert(platform_has(&older, FUNCTION_ncclGather));
}

Test(need, version_texts_have_the_formats_of_nccl_and_cuda)
{
	char text[VERSION_TEXT_SIZE];

	cr_assert_str_eq(nccl_version_text(22809, text), "2.28.9");
	cr_assert_str_eq(nccl_version_text(2804, text), "2.8.4");
	cr_assert_str_eq(cuda_version_text(12080, text), "12.8");
	cr_assert_str_eq(cuda_version_text(13000, text), "13.0");
}
