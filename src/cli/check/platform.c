/* SPDX-License-Identifier: Apache-2.0 */

/* Checks which platform a group would get and whether it can be used.  Also
 * contains functions that all checks use. */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/check/check.h"
#include "cli/common/cli.h"
#include "platform/platform.h"

void check_report(struct check *c, enum check_result result, const char *check,
                  const char *subject, const char *advice, const char *format,
                  ...)
{
	char what[4096];
	struct text t = { what, sizeof(what) };
	const struct finding f = {
		.result = result,
		.check = check,
		.subject = subject,
		.what = what,
		.advice = advice,
	};
	va_list args;

	va_start(args, format);
	text_vadd(&t, format, args);
	va_end(args);
	c->counts[result]++;
	c->report(&f, c->user);
}

bool check_has_word(const char *list, const char *word)
{
	const size_t n = strlen(word);
	size_t length;

	for (; *list; list += length + strspn(list + length, " ")) {
		length = strcspn(list, " ");
		if (length == n && strncmp(list, word, n) == 0)
			return true;
	}
	return false;
}

bool check_is_real(const struct check *c)
{
	return c->is_probed && c->probed.info.platform == COHORT_PLATFORM_GPU &&
	       !c->probed.info.is_drop_in;
}

bool check_is_nvidia(const struct check *c)
{
	return c->is_probed && c->probed.info.platform == COHORT_PLATFORM_GPU &&
	       c->probed.info.is_drop_in != 1 && c->probed.nccl_file[0];
}

enum check_result check_severity(const struct check *c)
{
	return c->is_probed && (c->probed.info.platform ==
	                                COHORT_PLATFORM_HOST ||
	                        c->probed.info.is_drop_in == 1)
	               ? CHECK_WARNING
	               : CHECK_ERROR;
}

bool check_wants_gpus(const struct check *c)
{
	const char *asked = getenv("COHORT_PLATFORM");

	return c->platform != COHORT_PLATFORM_HOST &&
	       (c->platform != COHORT_PLATFORM_AUTO || !asked ||
	        strcmp(asked, "host") != 0) &&
	       !(c->is_probed && c->probed.info.is_drop_in);
}

int check_devices(const struct check *c)
{
	if (c->device_count)
		return c->device_count;
	return c->is_probed && c->probed.info.devices ? c->probed.info.devices
	                                              : 1;
}

/* Probe the platform in a child process, because the driver may hang when it is
 * initialized. */
static void probe(struct trial *t)
{
	struct probed *out = (struct probed *)t->shared->data;
	struct cohort_platform_info *info = &out->info;
	const char *asked = getenv("COHORT_PLATFORM"), *file;

	info->size = sizeof(*info);
	if (cohort_platform_probe(t->check->platform, info) != COHORT_OK)
		trial_fail(t, "%s", cohort_last_error());
	if (info->nccl_file)
		text_copy(out->nccl_file, sizeof(out->nccl_file),
		          info->nccl_file);
	if (info->runtime_file)
		text_copy(out->runtime_file, sizeof(out->runtime_file),
		          info->runtime_file);
	if (t->check->platform != COHORT_PLATFORM_AUTO || (asked && *asked))
		return;
	file = info->platform == COHORT_PLATFORM_HOST ? gpu_platform_library()
	                                              : NULL;
	if (file)
		text_copy(out->unused_library, sizeof(out->unused_library),
		          file);
}

static void add_versions(struct text *t,
                         const struct cohort_platform_info *info)
{
	char version[VERSION_TEXT_SIZE];

	if (info->nccl_version)
		text_add(t, ", NCCL %s",
		         nccl_version_text(info->nccl_version, version));
	if (info->runtime_version)
		text_add(t, ", CUDA %s",
		         cuda_version_text(info->runtime_version, version));
	if (info->is_drop_in == 2)
		text_add(t, "; NVIDIA's NCCL on simulated devices");
	else if (info->is_drop_in || info->platform == COHORT_PLATFORM_HOST)
		text_add(t, "; the simulator, no GPU");
}

static void report_usable(struct check *c)
{
	const struct cohort_platform_info *info = &c->probed.info;
	char what[512];
	struct text t = { what, sizeof(what) };

	text_add(&t, "%s, %d device%s", cli_platform_name(info->platform),
	         info->devices, info->devices == 1 ? "" : "s");
	add_versions(&t, info);
	if (c->probed.unused_library[0])
		check_warn(
			c, "platform", NULL,
			"If this is a container, start it with GPUs, for "
			"example with --gpus all.  COHORT_PLATFORM=gpu makes "
			"a missing GPU an error.",
			"%s; NVIDIA's libraries are installed (%s), but there "
			"is no /dev/nvidiactl, so groups run on CPUs.",
			what, c->probed.unused_library);
	else
		check_ok(c, "platform", "%s", what);
}

void check_platform(struct check *c)
{
	struct trial t = {
		.check = c,
		.run = probe,
		.size = sizeof(c->probed),
	};

	trial_run(&t);
	if (t.end == TRIAL_DONE) {
		c->probed = *(struct probed *)t.shared->data;
		c->is_probed = true;
	}
	trial_free(&t);
	if (t.end == TRIAL_HUNG)
		check_error(c, "platform", NULL,
		            "Look for NVRM in the kernel's log (dmesg); "
		            "nvidia-smi will probably hang as well.",
		            "The libraries and the driver did not start within "
		            "%.3g s.",
		            (double)TRIAL_STARTS * (double)c->deadline_ns /
		                    1e9);
	else if (!c->is_probed)
		check_error(c, "platform", NULL, NULL, "%s", t.text);
	else if (c->probed.info.status != COHORT_OK)
		check_error(
			c, "platform", NULL,
			"See cohort info for the libraries that were found, "
			"and docs/gpu.md for those that are needed.",
			"The %s platform cannot be used: %s",
			cli_platform_name(c->probed.info.platform),
			c->probed.info.reason);
	else
		report_usable(c);
}
