/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks ncclConfig_t and fills in its defaults, in NCCL's order
 *
 * A configuration contains its own size and the version of NCCL that it was
 * compiled for.  If it is longer than expected, the rest is ignored; if it is
 * shorter or older, the fields that it lacks get their defaults, whatever the
 * bytes at their offsets contain.  Most fields are hints for hardware and have
 * no effect here.
 */

#include "sim/nccl/nccl_comm.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define MAX_CHANNELS 64

static const struct field {
	size_t offset;
	/* first NCCL version that has the field; the field is ignored in older
	 * structures */
	unsigned int since;
	int low, high; /* range of the field's allowed values */
	int usual;     /* default value of the field */
	const char *error;
} fields[] = {
#define FIELD(name, since, low, high, usual, allowed)                          \
	{                                                                      \
		offsetof(ncclConfig_t, name), since, low, high, usual,         \
			"config: " #name " is not " allowed                    \
	}
	FIELD(blocking, 21400, 0, 1, 1, "0 or 1"),
	FIELD(cgaClusterSize, 21700, 0, INT_MAX, 4, "0 or more"),
	FIELD(minCTAs, 21700, 1, INT_MAX, 1, "1 or more"),
	FIELD(maxCTAs, 21700, 1, INT_MAX, MAX_CHANNELS, "1 or more"),
	FIELD(splitShare, 0, 0, 1, 0, "0 or 1"),
	FIELD(trafficClass, 22500, INT_MIN, INT_MAX, NCCL_CONFIG_UNDEF_INT, ""),
	FIELD(collnetEnable, 22700, 0, 1, 0, "0 or 1"),
	FIELD(CTAPolicy, 22700, NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_ZERO,
	      NCCL_CTA_POLICY_DEFAULT, "an NCCL_CTA_POLICY"),
	FIELD(shrinkShare, 22700, 0, 1, 0, "0 or 1"),
	FIELD(nvlsCTAs, 22700, 1, INT_MAX, NCCL_CONFIG_UNDEF_INT, "1 or more"),
	FIELD(nChannelsPerNetPeer, 22800, 1, MAX_CHANNELS,
	      NCCL_CONFIG_UNDEF_INT, "1 to 64"),
	FIELD(nvlinkCentricSched, 22800, 0, 1, 0, "0 or 1"),
#undef FIELD
};

static int *value_of(ncclConfig_t *config, const struct field *f)
{
	return (int *)(void *)((char *)config + f->offset);
}

/* Reset the fields that are newer than the NCCL that the program was compiled
 * for. */
static void forget_newer(ncclConfig_t *config)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(fields); i++)
		if (config->version < fields[i].since)
			*value_of(config, &fields[i]) = NCCL_CONFIG_UNDEF_INT;
	if (config->version < 21700)
		config->netName = NCCL_CONFIG_UNDEF_PTR;
}

static const char *check(ncclConfig_t *config)
{
	size_t i;
	int value;

	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		value = *value_of(config, &fields[i]);
		if (value != NCCL_CONFIG_UNDEF_INT &&
		    (value < fields[i].low || value > fields[i].high))
			return fields[i].error;
		/* As in NCCL, minCTAs is invalid without maxCTAs. */
		if (fields[i].offset == offsetof(ncclConfig_t, maxCTAs) &&
		    config->minCTAs > config->maxCTAs)
			return "config: minCTAs is more than maxCTAs";
	}
	return NULL;
}

const char *config_parse(const ncclConfig_t *from, ncclConfig_t *out)
{
	const ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
	const char *error;
	size_t bytes, i;

	*out = usual;
	memcpy(&bytes, from, sizeof(bytes));
	memcpy(out, from, MIN(bytes, sizeof(*out)));
	out->size = sizeof(*out);
	if (bytes < offsetof(ncclConfig_t, version) ||
	    out->magic != NCCL_CONFIG_MAGIC)
		return "config: not initialized by NCCL_CONFIG_INITIALIZER";
	forget_newer(out);
	error = check(out);
	if (error)
		return error;
	for (i = 0; i < ARRAY_SIZE(fields); i++)
		if (*value_of(out, &fields[i]) == NCCL_CONFIG_UNDEF_INT)
			*value_of(out, &fields[i]) = fields[i].usual;
	config_override(out);
	return NULL;
}

void config_override(ncclConfig_t *config)
{
	const char *text = getenv("NCCL_COMM_BLOCKING");

	if (text && (strcmp(text, "0") == 0 || strcmp(text, "1") == 0))
		config->blocking = *text == '1';
}
