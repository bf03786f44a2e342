/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort info: prints all platforms, and the one that a new group would use
 *
 * A platform that cannot be used is a result, not a failure.
 */

#include "cli/common/cli.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cohort/cohort.h>

#include "base/json.h"
#include "base/util.h"
#include "cli/common/cli_options.h"

static const int kinds[] = { COHORT_PLATFORM_GPU, COHORT_PLATFORM_HOST };

enum { N_KINDS = ARRAY_SIZE(kinds) };

struct findings {
	struct cohort_platform_info platforms[N_KINDS];
	const char *chosen; /* the platform for a new group, or NULL */
	char reason[512];   /* reason if @chosen is NULL */
	const char *notes;
};

static void probe_choice(struct findings *found)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	if (cohort_platform_probe(COHORT_PLATFORM_AUTO, &info) != COHORT_OK) {
		snprintf(found->reason, sizeof(found->reason), "%s",
		         cohort_last_error());
		return;
	}
	found->notes = info.notes;
	if (info.status != COHORT_OK)
		snprintf(found->reason, sizeof(found->reason), "%s: %s",
		         cli_platform_name(info.platform), info.reason);
	else
		found->chosen = cli_platform_name(info.platform);
}

static int probe(struct findings *found)
{
	for (int i = 0; i < N_KINDS; i++) {
		int rc;

		found->platforms[i].size = sizeof(found->platforms[i]);
		rc = cohort_platform_probe(kinds[i], &found->platforms[i]);
		if (rc != COHORT_OK)
			return cli_fail("%s", cohort_last_error());
	}
	probe_choice(found);
	return CLI_OK;
}

static void write_platform(struct json *json,
                           const struct cohort_platform_info *info)
{
	json_open(json, NULL, '{');
	json_string(json, "name", cli_platform_name(info->platform));
	json_bool(json, "usable", info->status == COHORT_OK);
	json_int(json, "status", info->status);
	json_string(json, "reason", info->reason);
	json_int(json, "devices", info->devices);
	json_int(json, "nccl_version", info->nccl_version);
	json_int(json, "runtime_version", info->runtime_version);
	json_int(json, "driver_version", info->driver_version);
	json_string(json, "nccl_file", info->nccl_file);
	json_string(json, "runtime_file", info->runtime_file);
	json_bool(json, "drop_in", info->is_drop_in);
	json_bool(json, "nvidia_nccl", info->is_drop_in == 2);
	json_string(json, "launch", cli_launch_name(info->launch));
	json_string(json, "notes", info->notes);
	json_close(json, '}');
}

static void write_json(const struct findings *found)
{
	struct json json = { .out = stdout };

	json_open(&json, NULL, '{');
	json_string(&json, "version", cohort_version());
	json_open(&json, "platforms", '[');
	for (int i = 0; i < N_KINDS; i++)
		write_platform(&json, &found->platforms[i]);
	json_close(&json, ']');
	json_string(&json, "default", found->chosen);
	json_string(&json, "default_reason", found->reason);
	json_string(&json, "default_notes", found->notes);
	json_close(&json, '}');
	putchar('\n');
}

/* Print a version of NCCL. An unusable library may number its versions
 * differently, so its version appears only in the reason. */
static void print_nccl(int version)
{
	if (version >= 10000)
		printf(", NCCL %d.%d.%d", version / 10000, version / 100 % 100,
		       version % 100);
}

static void print_cuda(const char *what, int version)
{
	if (version)
		printf(", %s %d.%d", what, version / 1000, version % 1000 / 10);
}

/* Print the paths of the platform's libraries. Print their versions as well,
 * unless another line has them. */
static void print_libraries(const struct cohort_platform_info *info)
{
	bool is_usable = info->status == COHORT_OK;

	if (info->nccl_file) {
		printf("           %s", info->nccl_file);
		print_nccl(is_usable ? 0 : info->nccl_version);
		putchar('\n');
	}
	if (info->runtime_file) {
		printf("           %s", info->runtime_file);
		print_cuda("CUDA", is_usable ? 0 : info->runtime_version);
		putchar('\n');
	}
	if (info->is_drop_in == 2)
		printf("           NVIDIA's NCCL on Cohort's drop-in "
		       "libraries: no "
		       "GPU, the host's devices\n");
	else if (info->is_drop_in)
		printf("           Cohort's own drop-in libraries: no GPU, the "
		       "host's devices\n");
}

static void print_notes(const char *notes, const char *last)
{
	if (*notes && strcmp(notes, last) != 0)
		printf("           %s\n", notes);
}

static void print_platform(const struct cohort_platform_info *info)
{
	printf("%-8s ", cli_platform_name(info->platform));
	if (info->status != COHORT_OK) {
		printf("not usable: %s\n", info->reason);
	} else {
		printf("%d device%s", info->devices,
		       info->devices == 1 ? "" : "s");
		print_nccl(info->nccl_version);
		print_cuda("CUDA", info->runtime_version);
		print_cuda("driver for CUDA", info->driver_version);
		if (cli_launch_name(info->launch))
			printf(", ranks launch %s",
			       cli_launch_name(info->launch));
		putchar('\n');
	}
	print_libraries(info);
}

static void print_text(const struct findings *found)
{
	const char *last = "";

	printf("cohort   %s\n", cohort_version());
	for (int i = 0; i < N_KINDS; i++) {
		print_platform(&found->platforms[i]);
		print_notes(found->platforms[i].notes, last);
		last = found->platforms[i].notes;
	}
	if (found->chosen)
		printf("default  %s\n", found->chosen);
	else
		printf("default  none: %s\n", found->reason);
	print_notes(found->notes, last);
}

/* clang-format off */
static const char help[] =
	"usage: cohort info [--json]\n"
	"\n"
	"Prints which platforms can be used, or why they cannot, their devices, and the\n"
	"platform that a group would get now.\n"
	"\n"
	"  --json  one JSON object instead of text\n"
	"  --help  this text\n";
/* clang-format on */

int info_main(int argc, char **argv)
{
	bool json = false;
	const struct cli_option options[] = {
		{ "json", 0, CLI_TRUE, .value = &json },
		{ .kind = CLI_END },
	};
	struct findings found = { .notes = "" };
	int status;

	if (!cli_options(argv[0], argc, argv, options, help, &status))
		return status;
	if (probe(&found) != CLI_OK)
		return CLI_FAILED;
	if (json)
		write_json(&found);
	else
		print_text(&found);
	return CLI_OK;
}
