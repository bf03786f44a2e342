/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the choice of the platform, of the information about it, and of
 * small API functions
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/ranks.h"

TestSuite(facts, .timeout = 30);

Test(facts, host_platform_always_exists)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	place_need_host("the number of devices");
	cr_assert_eq(cohort_platform_probe(COHORT_PLATFORM_HOST, &info),
	             COHORT_OK);
	cr_assert_eq(info.status, COHORT_OK);
	cr_assert_eq(info.platform, COHORT_PLATFORM_HOST);
	cr_assert_eq(info.devices, 8);
	cr_assert_str_eq(info.reason, "");
	cr_assert_gt(info.nccl_version, 20000);
}

Test(facts, probe_of_an_unusable_gpu_platform_gives_a_reason)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	cr_assert_eq(cohort_platform_probe(COHORT_PLATFORM_GPU, &info),
	             COHORT_OK);
	cr_assert_eq(info.platform, COHORT_PLATFORM_GPU);
	if (info.status == COHORT_OK)
		cr_assert_gt(info.devices, 0);
	else
		cr_assert_gt(strlen(info.reason), 10);
}

/* A text that does not fit must end in "...". */
Test(facts, truncated_probe_notes_end_in_an_ellipsis)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	const char *end;
	char name[32];
	int i;

	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "COHORT_DUMP_DR%d", i);
		setenv(name, "", 1);
	}
	cohort_platform_probe(COHORT_PLATFORM_HOST, &info);
	end = info.notes + strlen(info.notes) - 4;
	cr_assert_str_eq(end + 1, "...");
	cr_assert_neq(*end, '.');
}

Test(facts, probe_reports_misspelled_variables)
{
	static const char typo[] =
		"COHORT_PLATFROM is set in the environment, but Cohort has no "
		"such variable; did you mean COHORT_PLATFORM?";
	struct cohort_platform_info info = { .size = sizeof(info) };
	const char *notes;

	cohort_platform_probe(COHORT_PLATFORM_HOST, &info);
	cr_assert_null(strstr(info.notes, "no such variable"), "%s",
	               info.notes);
	setenv("COHORT_PLATFROM", "gpu", 1);
	setenv("COHORT_UNLIKE_ANY_OTHER", "", 1);
	cohort_platform_probe(COHORT_PLATFORM_HOST, &info);
	notes = info.notes;
	expect_text(notes, typo);
	expect_text(notes, "COHORT_UNLIKE_ANY_OTHER is set in "
	                   "the environment, but Cohort has no "
	                   "such variable.");
	cohort_platform_probe(COHORT_PLATFORM_GPU, &info);
	expect_text(info.notes, typo);
	cohort_platform_probe(COHORT_PLATFORM_HOST, &info);
	cr_assert_eq(info.notes, notes, "made anew with each probe");
	unsetenv("COHORT_PLATFROM");
	unsetenv("COHORT_UNLIKE_ANY_OTHER");
	cohort_platform_probe(COHORT_PLATFORM_HOST, &info);
	cr_assert_str_eq(info.notes, "");
	expect_text(notes, typo);
}

Test(facts, probe_refuses_unknown_platforms)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	cr_assert_eq(cohort_platform_probe(3, &info), COHORT_INVALID);
	cr_assert_eq(cohort_platform_probe(COHORT_PLATFORM_HOST, NULL),
	             COHORT_INVALID);
}

Test(facts, probe_fills_no_more_than_the_callers_size)
{
	struct {
		struct cohort_platform_info info;
		uint64_t later;
	} newer = { .info.size = sizeof(newer), .later = 7 };
	struct cohort_platform_info info = {
		.size = offsetof(struct cohort_platform_info, nccl_version),
		.nccl_version = -7,
	};

	cr_assert_eq(cohort_platform_probe(COHORT_PLATFORM_HOST, &info),
	             COHORT_OK);
	cr_assert_gt(info.devices, 0);
	cr_assert_eq(info.nccl_version, -7);
	cr_assert_eq(cohort_platform_probe(COHORT_PLATFORM_HOST, &newer.info),
	             COHORT_OK);
	cr_assert_gt(newer.info.nccl_version, 20000);
	cr_assert_eq(newer.info.size, sizeof(newer));
	cr_assert_eq(newer.later, 0);
	info.size = 0;
	info.devices = -7;
	expect(cohort_platform_probe(COHORT_PLATFORM_HOST, &info),
	       COHORT_INVALID, "info->size is 0");
	info.size = 100000;
	expect(cohort_platform_probe(COHORT_PLATFORM_HOST, &info),
	       COHORT_INVALID, "info->size is 100000");
	cr_assert_eq(info.devices, -7);
}

Test(facts, environment_chooses_the_platform)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	setenv("COHORT_PLATFORM", "host", 1);
	cr_assert_eq(cohort_platform_probe(COHORT_PLATFORM_AUTO, &info),
	             COHORT_OK);
	cr_assert_eq(info.platform, COHORT_PLATFORM_HOST);
	setenv("COHORT_PLATFORM", "gpu", 1);
	cr_assert_eq(cohort_platform_probe(COHORT_PLATFORM_AUTO, &info),
	             COHORT_OK);
	cr_assert_eq(info.platform, COHORT_PLATFORM_GPU);
}

Test(facts, error_for_an_unusable_gpu_suggests_the_host_platform)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_platform_info info = { .size = sizeof(info) };
	int rc;

	cohort_platform_probe(COHORT_PLATFORM_GPU, &info);
	if (info.status == COHORT_OK)
		return;
	cohort_group_options_init(&o);
	o.platform = COHORT_PLATFORM_GPU;
	rc = cohort_group_open(NULL, 1, &o, &group);
	cr_assert_eq(rc, info.status);
	expect_text(cohort_last_error(), "COHORT_PLATFORM=host");
}

Test(facts, number_of_host_devices_can_be_set_only_before_use)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	cr_assert_eq(cohort_sim_set_devices(0), COHORT_INVALID);
	cr_assert_eq(cohort_sim_set_devices(1025), COHORT_INVALID);
	cr_assert_eq(cohort_sim_set_devices(3), COHORT_OK);
	cohort_platform_probe(COHORT_PLATFORM_HOST, &info);
	cr_assert_eq(info.devices, 3);
	cr_assert_eq(cohort_sim_set_devices(3), COHORT_OK);
	cr_assert_eq(cohort_sim_set_devices(4), COHORT_STATE);
}

/* Return the facts of the GPU platform. Skip the test unless the platform uses
 * the drop-in libraries. */
static struct cohort_platform_info must_be_drop_in(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	if (place_platform() == COHORT_PLATFORM_GPU)
		cohort_platform_probe(COHORT_PLATFORM_GPU, &info);
	if (!info.is_drop_in)
		cr_skip_test("not on the drop-in libraries");
	cr_assert_eq(info.status, COHORT_OK, "%s", info.reason);
	return info;
}

Test(facts, drop_in_libraries_obey_the_simulators_settings)
{
	int rc = cohort_sim_set_devices(3);
	struct cohort_platform_info info = must_be_drop_in();

	cr_assert_eq(rc, COHORT_OK);
	cr_assert_eq(info.devices, 3);
	cr_assert_eq(cohort_sim_set_devices(3), COHORT_OK);
	cr_assert_eq(cohort_sim_set_devices(4), COHORT_STATE);
	expect_text(cohort_last_error(), "drop-in");
}

Test(facts, probe_names_the_drop_in_libraries)
{
	struct cohort_platform_info info = must_be_drop_in();

	expect_text(info.nccl_file, "/libnccl.so");
	expect_text(info.runtime_file, "/libcudart.so");
	cr_assert_gt(info.nccl_version, 20000);
}

Test(facts, api_constants_have_texts_names_and_sizes)
{
	char version[32];

	cr_assert_str_eq(cohort_status_text(COHORT_OK), "success");
	expect_text(cohort_status_text(-12345), "not know");
	cr_assert_str_eq(cohort_status_name(COHORT_STALLED), "COHORT_STALLED");
	cr_assert_str_eq(cohort_status_name(COHORT_OK), "COHORT_OK");
	expect_text(cohort_status_name(5), "not know");
	cr_assert_str_eq(cohort_type_name(COHORT_F32), "float32");
	cr_assert_str_eq(cohort_type_name(COHORT_I8), "int8");
	expect_text(cohort_type_name(12), "not know");
	expect_text(cohort_type_name(-1), "not know");
	cr_assert_str_eq(cohort_op_name(COHORT_SUM), "sum");
	cr_assert_str_eq(cohort_op_name(COHORT_AVG), "avg");
	cr_assert_str_eq(cohort_op_name(1 << 20), "premul sum");
	expect_text(cohort_op_name(-1), "not know");
	expect_text(cohort_op_name(COHORT_AVG + 1), "not know");
	cr_assert_eq(cohort_type_size(COHORT_F8E4M3), 1);
	cr_assert_eq(cohort_type_size(COHORT_BF16), 2);
	cr_assert_eq(cohort_type_size(COHORT_F64), 8);
	cr_assert_eq(cohort_type_size(COHORT_U16), 2);
	cr_assert_eq(cohort_type_size(COHORT_C128), 16);
	cr_assert_eq(cohort_type_size(12), 0);
	cr_assert_eq(cohort_type_size(-1), 0);
	snprintf(version, sizeof(version), "%d.%d.%d", COHORT_VERSION_MAJOR,
	         COHORT_VERSION_MINOR, COHORT_VERSION_PATCH);
	cr_assert_str_eq(cohort_version(), version);
}

Test(facts, invalid_scripted_faults_are_refused)
{
	struct cohort_fault f = { .rank = 0, .kind = 99 };

	cr_assert_eq(cohort_sim_fault_add(NULL), COHORT_INVALID);
	cr_assert_eq(cohort_sim_fault_add(&f), COHORT_INVALID);
	expect_text(cohort_last_error(), "kind is 99");
	f.kind = COHORT_FAULT_ERROR;
	cr_assert_eq(cohort_sim_fault_add(&f), COHORT_INVALID);
	expect_text(cohort_last_error(), "value is 0");
	f.value = 3;
	f.rank = -2;
	cr_assert_eq(cohort_sim_fault_add(&f), COHORT_INVALID);
}
