/* SPDX-License-Identifier: Apache-2.0 */

#include "core/config.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "base/util.h"

bool config_is_default(const struct comm_config *c)
{
	return !c->native.size;
}

/* True if the structure is long enough to have the field. */
#define HAS(config, field)                                                     \
	((config)->size >=                                                     \
	 offsetof(ncclConfig_t, field) + sizeof((config)->field))

static int keep_text(const char **text)
{
	const char *kept = *text ? text_retain(*text) : NULL;

	if (*text && !kept)
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for options->nccl_config");
	*text = kept;
	return COHORT_OK;
}

int config_read(const void *from, struct comm_config *out)
{
	ncclConfig_t *c = &out->native;
	size_t size = 0;
	int rc = COHORT_OK;

	memset(out->bytes, 0, sizeof(out->bytes));
	if (!from)
		return COHORT_OK;
	memcpy(&size, from, sizeof(size));
	if (size < offsetof(ncclConfig_t, blocking) || size > NCCL_CONFIG_MOST)
		return error_set(
			COHORT_INVALID,
			"options->nccl_config->size is %zu: initialize "
			"it with NCCL_CONFIG_INITIALIZER",
			size);
	memcpy(out->bytes, from, size);
	if (c->magic != NCCL_CONFIG_MAGIC)
		return error_set(COHORT_INVALID,
		                 "options->nccl_config->magic is 0x%x: "
		                 "initialize it with NCCL_CONFIG_INITIALIZER",
		                 c->magic);
	if (HAS(c, blocking) && c->blocking != 1 &&
	    c->blocking != NCCL_CONFIG_UNDEF_INT)
		return error_set(COHORT_INVALID,
		                 "options->nccl_config->blocking is %d, not "
		                 "1: calls would return before they are done",
		                 c->blocking);
	/* A child that shares its parent's resources also shares its abort
	 * flag. */
	if (HAS(c, splitShare) && c->splitShare != 0 &&
	    c->splitShare != NCCL_CONFIG_UNDEF_INT)
		return error_set(COHORT_INVALID,
		                 "options->nccl_config->splitShare is %d, "
		                 "not 0: a communicator would be aborted with "
		                 "the one it was split from",
		                 c->splitShare);
	if (HAS(c, netName))
		rc = keep_text(&c->netName);
	if (rc == COHORT_OK && HAS(c, commName))
		rc = keep_text(&c->commName);
	return rc;
}

struct comm_config config_native(const struct comm_config *c, const char *name)
{
	const ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
	struct comm_config out = *c;

	if (config_is_default(c))
		out.native = usual;
	out.native.blocking = 1;
	out.native.splitShare = 0;
	if (!HAS(&out.native, commName) || !out.native.commName)
		out.native.commName = text_retain(name);
	return out;
}

/* Settings under which NCCL's calls do not behave as this library needs. */
static const struct {
	const char *name, *value, *why;
} refused[] = {
	{ "NCCL_COMM_BLOCKING", "0",
	  "calls would return before they are done" },
	{ "NCCL_LAUNCH_MODE", "GROUP",
	  "ranks would wait for each other, and no abort could end this wait" },
	{ "NCCL_COMM_SPLIT_SHARE_RESOURCES", "1",
	  "a communicator would be aborted with the one it was split from" },
};

const char *environment_refuses(const char *name, const char *value)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(refused); i++)
		if (strcmp(name, refused[i].name) == 0 &&
		    strcmp(value, refused[i].value) == 0)
			return refused[i].why;
	return NULL;
}

int environment_check(void)
{
	const char *value, *why;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		value = getenv(refused[i].name);
		why = value ? environment_refuses(refused[i].name, value)
		            : NULL;
		if (why)
			return error_set(
				COHORT_INVALID,
				"%s is \"%s\", in the environment or in an "
				"NCCL settings file, which is not supported: "
				"%s",
				refused[i].name, value, why);
	}
	return COHORT_OK;
}
