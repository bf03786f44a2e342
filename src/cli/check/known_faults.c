/* SPDX-License-Identifier: Apache-2.0 */

/* Checks for versions of NCCL, of the CUDA runtime and of the driver with known
 * faults */

#include <stdio.h>
#include <string.h>

#include "cli/check/check.h"
#include "platform/gpu/known.h"
#include "platform/platform.h"

bool report_known_faults(struct check *c, int library, int is,
                         const char *check, const char *subject)
{
	bool any = false;

	for (size_t i = 0; i < known_version_count; i++) {
		const struct known_version *k = &known_versions[i];

		/* Skip properties that all versions still have: cohort info
		 * reports these. */
		if ((int)k->of != library || k->last == KNOWN_TODAY ||
		    is < k->first || is > k->last)
			continue;
		check_report(c, k->is_unusable ? CHECK_ERROR : CHECK_WARNING,
		             check, subject,
		             k->advice ? k->advice : "Install a newer version.",
		             "%s Known from: %s.", k->what, k->source);
		any = true;
	}
	return any;
}

int driver_version(const char *text)
{
	int major, minor, patch;

	/* Find the first three-digit number that is followed by a dot. */
	for (; *text; text += strspn(text, "0123456789.")) {
		text += strcspn(text, "0123456789");
		patch = 0;
		if (sscanf(text, "%3d.%d.%d", &major, &minor, &patch) >= 2 &&
		    major >= 100)
			return DRIVER_VERSION(major, minor, patch);
	}
	return 0;
}

static void check_nccl_version(struct check *c)
{
	const int is = c->probed.info.nccl_version;
	char version[VERSION_TEXT_SIZE];

	if (!check_is_nvidia(c) || !is)
		check_skip(c, "nccl-version", "NVIDIA's NCCL is not used.");
	else if (!report_known_faults(c, KNOWN_NCCL, is, "nccl-version",
	                              nccl_version_text(is, version)))
		check_ok(c, "nccl-version", "NCCL %s has no known faults",
		         version);
}

static void check_cuda_version(struct check *c)
{
	const int is = c->probed.info.runtime_version,
		  of_driver = c->probed.info.driver_version;
	char runtime[VERSION_TEXT_SIZE], driver[VERSION_TEXT_SIZE];

	if (!check_is_real(c) || !is) {
		check_skip(c, "cuda-version",
		           "NVIDIA's CUDA runtime is not used.");
		return;
	}
	cuda_version_text(is, runtime);
	cuda_version_text(of_driver, driver);
	if (report_known_faults(c, KNOWN_CUDA, is, "cuda-version", runtime))
		return;
	/* Within a major version, an older driver can run programs that were
	 * built for a newer version. */
	if (of_driver && is / 1000 > of_driver / 1000)
		check_warn(c, "cuda-version", NULL,
		           "Install a newer driver, or an older runtime.",
		           "The runtime is CUDA %s, but the driver is for CUDA "
		           "%s: it refuses newer functions of the runtime, or "
		           "they fail.",
		           runtime, driver);
	else
		check_ok(c, "cuda-version",
		         "the runtime is CUDA %s, the driver for CUDA %s",
		         runtime, driver);
}

static void check_driver_version(struct check *c)
{
	const char *none = check_no_driver(c);
	char text[1024] = "", number[32];
	int is;

	if (none) {
		check_skip(c, "driver-version", "%s", none);
		return;
	}
	check_read(c, "/proc/driver/nvidia/version", text, sizeof(text));
	is = driver_version(text);
	snprintf(number, sizeof(number), "%d.%02d.%02d", is / 1000000,
	         is / 1000 % 1000, is % 1000);
	if (!is)
		check_skip(
			c, "driver-version",
			"/proc/driver/nvidia/version has no version number.");
	else if (!report_known_faults(c, KNOWN_DRIVER, is, "driver-version",
	                              number))
		check_ok(c, "driver-version",
		         "the driver %s has no known faults", number);
}

void check_versions(struct check *c)
{
	check_nccl_version(c);
	check_cuda_version(c);
	check_driver_version(c);
}
