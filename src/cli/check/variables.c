/* SPDX-License-Identifier: Apache-2.0 */

/* Checks of the variables of this project and of CUDA */

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/text.h"
#include "cli/check/check.h"

#define OURS "cohort-variables"

/* Variables that are not tried one by one, because the platform's check covers
 * them or a launcher sets them */
static const char not_tried[] =
	"COHORT_PLATFORM COHORT_GPU_LIBRARIES "
	"COHORT_HOST_NCCL COHORT_JOB COHORT_PROCESS COHORT_PROCESSES "
	"COHORT_LOCAL_PROCESS COHORT_LOCAL_PROCESSES";

/* Prefix of variables that only have an effect together */
#define DUMPS "COHORT_DUMP_"

static bool is_of_dumps(const char *name)
{
	return strncmp(name, DUMPS, strlen(DUMPS)) == 0;
}

/* Unset all variables of this project except @name and variables that have an
 * effect only with @name. If @name is "", unset all. */
static void keep_only(const char *name)
{
	char **at = environ, other[ENVIRONMENT_NAME_SIZE];
	size_t n;

	while (at && *at) {
		n = strcspn(*at, "=");
		if (strncmp(*at, "COHORT_", 7) != 0 || n >= sizeof(other) ||
		    (strlen(name) == n && strncmp(*at, name, n) == 0) ||
		    (is_of_dumps(name) && is_of_dumps(*at))) {
			at++;
			continue;
		}
		memcpy(other, *at, n);
		other[n] = '\0';
		unsetenv(other); /* moves the next variable to this index */
	}
}

/* Try a variable in a child process: find out whether the library accepts the
 * value, with one rank on the host platform. */
static void try_value(struct trial *t)
{
	struct cohort_platform_info info = { .size = sizeof(info) };
	struct cohort_group_options options;
	struct cohort_group *group;
	const char *name = t->name;
	int first = 0;

	keep_only(name);
	if (cohort_platform_probe(COHORT_PLATFORM_HOST, &info) != COHORT_OK)
		trial_fail(t, "%s", cohort_last_error());
	if (info.status != COHORT_OK)
		trial_fail(t, "%s", info.reason);
	if (strcmp(name, "COHORT_FAULTS") == 0)
		return;
	cohort_group_options_init(&options);
	options.log = "none";
	options.platform = COHORT_PLATFORM_HOST;
	if (cohort_group_open(&first, 1, &options, &group) != COHORT_OK)
		trial_fail(t, "%s", cohort_last_error());
	cohort_group_close(group);
}

static struct trial run_value(const struct check *c, const char *name)
{
	struct trial t = { .check = c, .run = try_value, .name = name };

	trial_run(&t);
	trial_free(&t);
	if (t.end == TRIAL_HUNG)
		text_copy(t.text, sizeof(t.text), "the library hangs");
	return t;
}

/* Check a variable's value. Return false if values cannot be tried. */
static bool check_value(struct check *c, const char *name)
{
	const struct trial with = run_value(c, name),
			   without = with.end == TRIAL_DONE ? with
	                                                    : run_value(c, "");

	if (without.end != TRIAL_DONE)
		check_report(c, CHECK_SKIPPED, OURS, name, NULL,
		             "No group can be opened even without this "
		             "variable: %s.",
		             without.text);
	else if (with.end != TRIAL_DONE)
		check_error(c, OURS, name, "Correct the value.",
		            "No group can be opened with this value: %s.",
		            with.text);
	else if (strcmp(name, "COHORT_FAULTS") == 0)
		check_warn(
			c, OURS, name, "Unset it.",
			"Scripted faults are injected into the simulator: %s.",
			getenv(name));
	return without.end == TRIAL_DONE;
}

void check_variables(struct check *c)
{
	const unsigned before = check_troubles(c);
	char **at, name[256];
	const char *meant;
	bool has_dumps = false, can = true;
	unsigned n = 0;
	size_t length;

	for (at = environ; at && *at; at++) {
		length = strcspn(*at, "=");
		if (strncmp(*at, "COHORT_", 7) != 0)
			continue;
		n++;
		snprintf(name, sizeof(name), "%.*s", (int)length, *at);
		if (!environment_is_known(name, length)) {
			meant = environment_closest(name, strlen(name));
			check_warn(c, OURS, name,
			           meant ? "Correct the name." : "Unset it.",
			           "There is no such variable%s%s%s",
			           meant ? "; did you mean " : "",
			           meant ? meant : "", meant ? "?" : ".");
		} else if ((*at)[length] && (*at)[length + 1] &&
		           !check_has_word(not_tried, name) &&
		           !(is_of_dumps(name) && has_dumps)) {
			has_dumps = has_dumps || is_of_dumps(name);
			can = check_value(c, name) && can;
		}
	}
	if (can && check_troubles(c) == before)
		check_ok(c, OURS,
		         n ? "%u set, all of them known, with values that "
		             "the library accepts"
		           : "none is set",
		         n);
}

#define CUDA "cuda-variables"

static bool is_repeated(const char *list, const char *entry, size_t n)
{
	const char *at;

	for (at = list; at < entry; at += strcspn(at, ",") + 1) {
		at += strspn(at, " ");
		if (at < entry && strcspn(at, ",") == n &&
		    memcmp(at, entry, n) == 0)
			return true;
	}
	return false;
}

const char *visible_devices_fault(const char *value, int devices)
{
	const char *at = value;
	size_t n;
	char *end;
	long number;

	if (!*value)
		return "is empty, which hides all devices";
	for (;; at += n + 1) {
		at += strspn(at, " ");
		n = strcspn(at, ",");
		if (!n)
			return "has an empty entry, which hides all devices "
			       "after it";
		number = strtol(at, &end, 10);
		end += strspn(end, " ");
		if (is_repeated(value, at, n))
			return "names a device twice, which CUDA refuses";
		if (isdigit((unsigned char)*at) && end == at + n) {
			if (devices && number >= devices)
				return "names a device that does not exist, "
				       "which hides all devices after it";
		} else if (strncmp(at, "GPU-", 4) != 0 &&
		           strncmp(at, "MIG-", 4) != 0) {
			return *at == '-'
			               ? "has a negative entry, which hides "
			                 "all devices after it"
			               : "has an entry that is not a number, "
			                 "GPU-... or MIG-..., which hides "
			                 "all devices after it";
		}
		if (!at[n])
			return NULL;
	}
}

static void check_visible(struct check *c)
{
	const char *value = getenv("CUDA_VISIBLE_DEVICES"),
		   *fault = value ? visible_devices_fault(value, check_gpus(c))
	                          : NULL;

	if (fault)
		check_report(
			c, check_severity(c), CUDA, "CUDA_VISIBLE_DEVICES",
			"Set it to a list of devices such as 0,1, or unset "
			"it.",
			"The value \"%.200s\" %s.", value, fault);
}

void check_cuda(struct check *c)
{
	const unsigned before = check_troubles(c);
	const char *value;

	check_visible(c);
	value = getenv("CUDA_LAUNCH_BLOCKING");
	if (value && *value && strcmp(value, "0") != 0)
		check_warn(
			c, CUDA, "CUDA_LAUNCH_BLOCKING",
			"Unset it, except for debugging kernels.",
			"Each launch waits for its kernel, so Cohort refuses "
			"group calls of several ranks, and nothing overlaps.");
	value = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	if (value && strcmp(value, "1") == 0)
		check_warn(
			c, CUDA, "CUDA_DEVICE_MAX_CONNECTIONS",
			"Unset it, unless the program asks for it.",
			"All streams of a device share one queue, so a kernel "
			"that waits for other ranks blocks the kernels of "
			"other communicators.");
	value = getenv("CUDA_MODULE_LOADING");
	if (value && !check_has_word("EAGER LAZY DEFAULT", value))
		check_warn(c, CUDA, "CUDA_MODULE_LOADING", "Set it to EAGER.",
		           "CUDA does not know the value \"%.100s\".", value);
	else if (check_is_real(c) && check_devices(c) > 1 &&
	         (!value || strcmp(value, "EAGER") != 0))
		check_warn(c, CUDA, "CUDA_MODULE_LOADING", "Set it to EAGER.",
		           "Kernels are loaded when they are first used, and "
		           "loading may wait for kernels on all GPUs of the "
		           "process.");
	if (check_troubles(c) == before)
		check_ok(c, CUDA,
		         "no variable hides a device or makes ranks wait");
}
