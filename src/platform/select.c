/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Choose the platform: the caller's choice, otherwise COHORT_PLATFORM,
 * otherwise gpu if the machine has a GPU, otherwise host
 *
 * A machine with a GPU but without a usable NCCL gets an error that says what
 * is missing, never a silent fallback to its CPUs.
 */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/process.h"
#include "base/sized.h"
#include "base/status.h"
#include "base/text.h"
#include "platform/platform.h"

/* Atomic; see platform_override(). */
static const struct platform *_Atomic override;

void platform_override(const struct platform *table)
{
	atomic_store_explicit(&override, table, memory_order_release);
}

static int choose(int *kind)
{
	const char *text = getenv("COHORT_PLATFORM");

	if (!text || !*text)
		*kind = gpu_platform_present() ? COHORT_PLATFORM_GPU
		                               : COHORT_PLATFORM_HOST;
	else if (strcmp(text, "gpu") == 0)
		*kind = COHORT_PLATFORM_GPU;
	else if (strcmp(text, "host") == 0)
		*kind = COHORT_PLATFORM_HOST;
	else
		return error_set(COHORT_INVALID,
		                 "COHORT_PLATFORM is \"%s\", not \"gpu\" or "
		                 "\"host\"",
		                 text);
	return COHORT_OK;
}

static int resolve(int *kind)
{
	switch (*kind) {
	case COHORT_PLATFORM_AUTO:
		return choose(kind);
	case COHORT_PLATFORM_GPU:
	case COHORT_PLATFORM_HOST:
		return COHORT_OK;
	}
	return error_set(COHORT_INVALID,
	                 "platform is %d, not a value of enum cohort_platform",
	                 *kind);
}

/* Open the gpu platform.  The error also says how to run without a GPU. */
static int open_gpu(const struct platform **out)
{
	int devices, rc = gpu_platform_open(out, &devices);

	if (rc == COHORT_OK)
		return rc;
	return error_set(rc, "%s%s (COHORT_PLATFORM=host runs without a GPU)",
	                 rc == COHORT_NO_DEVICE && !gpu_platform_present()
	                         ? "no NVIDIA GPU: /dev/nvidiactl is missing; "
	                         : "",
	                 cohort_last_error());
}

int platform_open(int kind, const struct platform **out)
{
	const struct platform *table;
	int devices, rc = resolve(&kind);

	if (rc != COHORT_OK)
		return rc;
	rc = kind == COHORT_PLATFORM_GPU ? open_gpu(out)
	                                 : host_platform_open(out, &devices);
	if (rc != COHORT_OK)
		return rc;
	table = atomic_load_explicit(&override, memory_order_acquire);
	if (table && table->kind == kind)
		*out = table;
	return COHORT_OK;
}

static int probe(struct cohort_platform_info *info, const struct platform **p)
{
	int rc = info->platform == COHORT_PLATFORM_HOST
	                 ? host_platform_open(p, &info->devices)
	                 : gpu_platform_open(p, &info->devices);

	if (rc != COHORT_OK)
		text_set(info->reason, sizeof(info->reason), "%s",
		         cohort_last_error());
	if (info->platform == COHORT_PLATFORM_GPU)
		gpu_platform_describe(info);
	return rc;
}

/* Return the file of an installed NVIDIA library if the host platform was
 * chosen only because the machine has no GPU; otherwise NULL. */
static const char *skipped_library(int asked, int platform)
{
	const char *text = getenv("COHORT_PLATFORM");

	return asked == COHORT_PLATFORM_AUTO && (!text || !*text) &&
	                       platform == COHORT_PLATFORM_HOST
	               ? gpu_platform_library()
	               : NULL;
}

/* Return the notes @platform, followed by notes on the unused library @detour
 * (see skipped_library()) and on unknown environment variables. */
static const char *notes_of(const char *platform, const char *detour)
{
	char notes[4096] = "";
	struct text t = { notes, sizeof(notes) };
	const char *kept;

	if (*platform)
		text_add(&t, "%s ", platform);
	if (detour)
		text_add(&t,
		         "NVIDIA's libraries are here (%s), but there is no "
		         "GPU: /dev/nvidiactl is missing, so the host platform "
		         "was chosen; set COHORT_PLATFORM=gpu or "
		         "options.platform to require a GPU. ",
		         detour);
	environment_add_unknown(&t, " ");
	/* Remove the final space, unless the text was cut. */
	if (t.at > notes && t.room)
		t.at[-1] = '\0';
	kept = text_retain(notes);
	return kept ? kept : "";
}

int cohort_platform_probe(int platform, struct cohort_platform_info *info)
{
	struct cohort_platform_info all = { .notes = "" };
	const struct platform *p;
	int rc, asked = platform;

	if (!info)
		return error_set(COHORT_INVALID, "info is NULL");
	process_watch();
	rc = process_check();
	if (rc == COHORT_OK)
		rc = sized_check("info", info->size,
		                 offsetof(struct cohort_platform_info, devices),
		                 "was it set to sizeof(*info)?");
	if (rc == COHORT_OK)
		rc = resolve(&platform);
	if (rc != COHORT_OK)
		return rc;
	all.size = info->size;
	all.platform = platform;
	all.status = probe(&all, &p);
	if (all.status == COHORT_OK) {
		p->ncclGetVersion(&all.nccl_version);
		p->cudaRuntimeGetVersion(&all.runtime_version);
		p->cudaDriverGetVersion(&all.driver_version);
		all.launch = p->launches_ahead ? COHORT_LAUNCH_AHEAD
		                               : COHORT_LAUNCH_TOGETHER;
		if (environment_launch(&all.launch) != COHORT_OK)
			all.launch = COHORT_LAUNCH_DEFAULT;
	}
	all.notes = notes_of(all.notes, skipped_library(asked, platform));
	sized_fill(info, info->size, &all, sizeof(all));
	return COHORT_OK;
}
