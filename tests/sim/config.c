/* SPDX-License-Identifier: Apache-2.0 */

/*
 * ncclConfig_t: which values are refused, and what structures of other versions
 * mean
 */

#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "platform/platform.h"
#include "support/native.h"

TestSuite(config, .timeout = 10);

/* A communicator of one rank, with @config. */
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
	cr_assert_not_null(strstr(p->ncclGetLastError(NULL), why), "%s",
	                   p->ncclGetLastError(NULL));
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,
	             "no group may be left open");
}

/* For each field the values just outside its range, and those at its ends. */
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

Test(config, has_a_range_for_each_field)
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
				continue; /* any value is in range */
			config = with(&fields[i], fields[i].bad[k]);
			refuse(p, &config, fields[i].name);
		}
}

Test(config, has_defaults_if_it_is_NULL)
{
	accept(native_open(1), NULL);
}

/* A lone minimum is above an undefined maximum, too. */
Test(config, refuses_a_minimum_above_the_maximum)
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

Test(config, has_to_be_initialized)
{
	const struct platform *p = native_open(1);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.magic++;
	config.blocking = 7;
	refuse(p, &config, "NCCL_CONFIG_INITIALIZER");
}

/* In NCCL's order: the first bad field is named. */
Test(config, names_the_first_bad_field)
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
 * A field that an older NCCL lacks is undefined, whatever its memory contains.
 */
Test(config, of_an_older_version_ends_earlier)
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

Test(config, of_a_smaller_size_ends_earlier)
{
	const struct platform *p = native_open(1);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.splitShare = 4;
	config.size = offsetof(ncclConfig_t, splitShare);
	accept(p, &config);
	config.size = offsetof(ncclConfig_t, trafficClass);
	refuse(p, &config, "splitShare");
}

/* Fields behind those of a newer NCCL are ignored. */
Test(config, of_a_newer_version_may_be_longer)
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

/* Unlike with ncclCommInitRank(), an open group always fails. */
Test(config, makes_the_group_fail_if_it_is_refused)
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
