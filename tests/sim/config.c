/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of ncclConfig_t: which values are refused, and how structures of other
 * NCCL versions are read
 */

#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/native.h"

TestSuite(config, .timeout = 10);

/* Create a communicator of one rank with @config. */
static ncclResult_t init(const struct platform *p, ncclComm_t *comm,
                         ncclConfig_t *config)
{
	ncclUniqueId id;

	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	return p->ncclCommInitRankConfig(comm, 1, id, 0, config);
}

static void accept(const struct platform *p, ncclConfig_t *config)
{
	ncclComm_t comm = NULL;

	cr_assert_eq(init(p, &comm, config), ncclSuccess, "%s",
	             p->ncclGetLastError(NULL));
	cr_assert_eq(p->ncclCommDestroy(comm), ncclSuccess);
}

static void refuse(const struct platform *p, ncclConfig_t *config,
                   const char *why)
{
	ncclComm_t comm = (ncclComm_t)&comm;

	cr_assert_eq(init(p, &comm, config), ncclInvalidArgument, "%s", why);
	cr_assert_null(comm);
	expect_text(p->ncclGetLastError(NULL), why);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,
	             "no group may be left open");
}

/* For each field, two values outside its range, and both ends of the range */
static const struct field {
	const char *name;
	size_t offset;
	int bad[2];
	int good[2];
} fields[] = {
#define FIELD(name, low, high, bad0, bad1)                                     \
	{                                                                      \
#name, offsetof(ncclConfig_t, name), { bad0, bad1 },           \
		{                                                              \
			low, high                                              \
		}                                                              \
	}
	FIELD(blocking, 1, 1, -1, 2),
	FIELD(cgaClusterSize, 0, INT_MAX, -1, -8),
	FIELD(minCTAs, 1, 32, 0, -1),
	FIELD(maxCTAs, 1, INT_MAX, 0, -1),
	FIELD(splitShare, 0, 1, -1, 2),
	FIELD(trafficClass, INT_MIN + 1, INT_MAX, 0, 0),
	FIELD(collnetEnable, 0, 1, -1, 2),
	FIELD(CTAPolicy, 0, 2, -1, 3),
	FIELD(shrinkShare, 0, 1, -1, 2),
	FIELD(nvlsCTAs, 1, INT_MAX, 0, -1),
	FIELD(nChannelsPerNetPeer, 1, 64, 0, 65),
	FIELD(nvlinkCentricSched, 0, 1, -1, 2),
#undef FIELD
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static ncclConfig_t with(const struct field *f, int value)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.maxCTAs = 32;
	memcpy((char *)&config + f->offset, &value, sizeof(value));
	return config;
}

Test(config, each_config_field_has_a_range)
{
	const struct platform *p = native_open(1);
	ncclConfig_t config;
	size_t i;
	int k;

	for (i = 0; i < FIELDS; i++)
		for (k = 0; k < 2; k++) {
			config = with(&fields[i], fields[i].good[k]);
			accept(p, &config);
			if (strcmp(fields[i].name, "trafficClass") == 0)
				continue; /* every value is in the range */
			config = with(&fields[i], fields[i].bad[k]);
			refuse(p, &config, fields[i].name);
		}
}

Test(config, null_config_has_defaults)
{
	accept(native_open(1), NULL);
}

/* A minimum without a maximum is also refused. */
Test(config, config_with_a_minimum_above_the_maximum_is_refused)
{
	const struct platform *p = native_open(1);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.minCTAs = 4;
	refuse(p, &config, "minCTAs is more");
	config.maxCTAs = 3;
	refuse(p, &config, "minCTAs is more");
	config.maxCTAs = 4;
	accept(p, &config);
	config.minCTAs = NCCL_CONFIG_UNDEF_INT;
	accept(p, &config);
}

Test(config, uninitialized_config_is_refused)
{
	const struct platform *p = native_open(1);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.magic++;
	config.blocking = 7;
	refuse(p, &config, "NCCL_CONFIG_INITIALIZER");
}

Test(config, config_error_names_the_first_bad_field)
{
	const struct platform *p = native_open(1);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	size_t i;

	for (i = 0; i < FIELDS; i++)
		if (strcmp(fields[i].name, "trafficClass") != 0)
			memcpy((char *)&config + fields[i].offset,
			       &fields[i].bad[0], sizeof(int));
	for (i = 0; i < FIELDS; i++) {
		if (strcmp(fields[i].name, "trafficClass") == 0)
			continue;
		refuse(p, &config, fields[i].name);
		memcpy((char *)&config + fields[i].offset, &fields[i].good[1],
		       sizeof(int));
	}
	accept(p, &config);
}

/*
 * A field that the older NCCL does not have is undefined, even if its memory
 * has a value.
 */
Test(config, config_of_an_older_version_lacks_the_newer_fields)
{
	const struct platform *p = native_open(1);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.nvlinkCentricSched = 7;
	config.nChannelsPerNetPeer = 0;
	config.version = 22703;
	accept(p, &config);
	config.collnetEnable = 9;
	refuse(p, &config, "collnetEnable");
	config.version = 22600;
	accept(p, &config);
	config.maxCTAs = -5;
	refuse(p, &config, "maxCTAs");
	config.version = 21600;
	accept(p, &config);
	config.blocking = 5;
	refuse(p, &config, "blocking");
	config.version = 21300;
	accept(p, &config);
}

Test(config, config_of_a_smaller_size_lacks_the_last_fields)
{
	const struct platform *p = native_open(1);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.splitShare = 4;
	config.size = offsetof(ncclConfig_t, splitShare);
	accept(p, &config);
	config.size = offsetof(ncclConfig_t, trafficClass);
	refuse(p, &config, "splitShare");
}

Test(config, config_of_a_newer_version_may_be_longer)
{
	const struct platform *p = native_open(1);
	struct {
		ncclConfig_t config;
		int more[16];
	} longer = { .config = NCCL_CONFIG_INITIALIZER };

	longer.config.size = sizeof(longer);
	longer.config.version = 23007;
	memset(longer.more, 0x55, sizeof(longer.more));
	accept(p, &longer.config);
	longer.config.CTAPolicy = 9;
	refuse(p, &longer.config, "CTAPolicy");
}

/* A refused ncclCommInitRankConfig() makes its group fail, unlike a refused
 * ncclCommInitRank(). */
Test(config, refused_config_makes_the_group_fail)
{
	const struct platform *p = native_open(1);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	ncclComm_t comm;

	config.CTAPolicy = 4;
	native_must(p->ncclGetUniqueId(&id), "ncclGetUniqueId");
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(init(p, &comm, &config), ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommInitRankConfig(&comm, 0, id, 0, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}
