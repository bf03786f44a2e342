/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A call that the platform lacks is answered with the version that has it
 */

#include <criterion/criterion.h>

#include "platform/platform.h"

static bool lacks[FUNCTIONS];

static ncclResult_t nccl_version(int *version)
{
	*version = 22602;
	return ncclSuccess;
}

static const struct platform older = {
	.lacks = lacks,
	.ncclGetVersion = nccl_version,
};

Test(need, a_function_that_exists_can_be_used)
{
	static const struct platform whole;

	cr_assert(platform_has(&whole, FUNCTION_ncclAlltoAll));
	cr_assert_eq(platform_need(&whole, FUNCTION_ncclAlltoAll), COHORT_OK);
	cr_assert(platform_has(&older, FUNCTION_ncclAllReduce));
	cr_assert(platform_has(&older, FUNCTION_cudaMalloc));
}

Test(need, a_missing_function_is_refused_with_both_versions)
{
	lacks[FUNCTION_ncclAlltoAll] = true;
	cr_assert(!platform_has(&older, FUNCTION_ncclAlltoAll));
	cr_assert(platform_has(&older, FUNCTION_ncclGather));
	cr_assert_eq(platform_need(&older, FUNCTION_ncclAlltoAll),
	             COHORT_UNSUPPORTED);
	cr_assert_str_eq(cohort_last_error(),
	                 "ncclAlltoAll needs NCCL 2.28.3 or newer, this is "
	                 "2.26.2");
}

Test(need, versions_are_spelled_as_nccl_and_cuda_do)
{
	char text[VERSION_TEXT_SIZE];

	cr_assert_str_eq(nccl_version_text(22809, text), "2.28.9");
	cr_assert_str_eq(nccl_version_text(2804, text), "2.8.4");
	cr_assert_str_eq(cuda_version_text(12080, text), "12.8");
	cr_assert_str_eq(cuda_version_text(13000, text), "13.0");
}
