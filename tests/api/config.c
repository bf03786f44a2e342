/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of options that are passed to NCCL in the configuration of a
 * communicator
 */

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"

TestSuite(config, .timeout = 60);

static const struct platform *real;
static struct platform table;
/* configuration that the library last passed to NCCL */
static ncclConfig_t seen;
static char net_name[64], comm_name[64];
static atomic_int inits, all_inits, fail_device;

static ncclResult_t init_rank(ncclComm_t *comm, int n, ncclUniqueId id,
                              int rank, ncclConfig_t *config)
{
	if (config) {
		seen = *config;
		snprintf(net_name, sizeof(net_name), "%s",
		         config->netName ? config->netName : "none");
		snprintf(comm_name, sizeof(comm_name), "%s", config->commName);
		inits++;
		/* Do not pass the name to NCCL, which would search for a plugin
		 * of this name. */
		seen.netName = config->netName;
		config->netName = NULL;
	}
	return real->ncclCommInitRankConfig(comm, n, id, rank, config);
}

static ncclResult_t init_all(ncclComm_t *comms, int n, const int *devices)
{
	all_inits++;
	return real->ncclCommInitAll(comms, n, devices);
}

static cudaError_t set_device(int device)
{
	return fail_device == device ? cudaErrorInvalidDevice
	                             : real->cudaSetDevice(device);
}

static void install(void)
{
	fail_device = -1;
	real = place_table();
	table = *real;
	table.ncclCommInitRankConfig = init_rank;
	table.ncclCommInitAll = init_all;
	table.cudaSetDevice = set_device;
	platform_override(&table);
}

/* The configuration that the program passes to the library. */
static ncclConfig_t config;

/* Return options with @config, in which all fields that the test has not set
 * have NCCL's defaults. */
static struct cohort_group_options options(void)
{
	const ncclConfig_t usual = NCCL_CONFIG_INITIALIZER;
	struct cohort_group_options o;

	config = usual;
	cohort_group_options_init(&o);
	o.platform = place_platform();
	o.nccl_config = &config;
	return o;
}

static int sum_of(struct cohort_comm *c, void *user)
{
	int32_t value = 1;
	int rc = ranks_sum_wait(c, &value);

	(void)user;
	return rc == COHORT_OK ? value != cohort_comm_size(c) : rc;
}

static void works(struct cohort_group *group)
{
	expect_run_in(group, sum_of, NULL);
}

Test(config, open_without_a_config_opens_all_ranks_with_one_nccl_call)
{
	struct cohort_group *group;

	spread_not("the test counts what one process calls");
	install();
	group = ranks_open(2, NULL);
	cr_assert_eq(inits, 0);
	cr_assert_eq(all_inits, 1);
	works(group);
	expect_close(group);
}

Test(config, nccl_config_applies_to_all_ranks_and_after_a_respawn)
{
	struct cohort_group_options o = options();
	char net[] = "Socket", name[] = "trainer";
	struct cohort_group *group;

	place_need(3);
	install();
	o.name = name;
	config.minCTAs = 2;
	config.maxCTAs = 8;
	config.cgaClusterSize = 4;
	config.trafficClass = 105;
	config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
	config.netName = net;
	ranks_must(cohort_group_open(NULL, 3, &o, &group), "open");
	/* The caller can overwrite its memory after the open. */
	memset(net, 'x', sizeof(net) - 1);
	memset(&config, 'x', sizeof(config));
	memset(name, 'x', sizeof(name) - 1);
	cr_assert_eq(inits, 3);
	cr_assert_eq(all_inits, 0);
	works(group);
	cohort_group_abort(group, "again");
	memset(&seen, 0, sizeof(seen));
	ranks_must(cohort_group_respawn(group, NULL, 0), "respawn");
	cr_assert_eq(inits, 6);
	cr_assert_eq(seen.blocking, 1);
	cr_assert_eq(seen.splitShare, 0);
	cr_assert_eq(seen.minCTAs, 2);
	cr_assert_eq(seen.maxCTAs, 8);
	cr_assert_eq(seen.cgaClusterSize, 4);
	cr_assert_eq(seen.trafficClass, 105);
	cr_assert_eq(seen.CTAPolicy, NCCL_CTA_POLICY_EFFICIENCY);
	cr_assert_str_eq(net_name, "Socket");
	cr_assert_str_eq(comm_name, "trainer");
	works(group);
	expect_close(group);
}

Test(config, unset_fields_of_nccl_config_stay_undefined)
{
	struct cohort_group_options o = options();
	struct cohort_group *group;

	install();
	config.maxCTAs = 4;
	ranks_must(cohort_group_open(NULL, 1, &o, &group), "open");
	cr_assert_eq(seen.minCTAs, NCCL_CONFIG_UNDEF_INT);
	cr_assert_eq(seen.cgaClusterSize, NCCL_CONFIG_UNDEF_INT);
	cr_assert_eq(seen.trafficClass, NCCL_CONFIG_UNDEF_INT);
	cr_assert_str_eq(net_name, "none");
	expect_close(group);
}

Test(config, nccl_config_applies_to_ranks_that_join)
{
	struct cohort_group_options o = options();
	struct cohort_unique_id id;
	struct cohort_comm *c;

	install();
	place_choose();
	config.maxCTAs = 4;
	ranks_must(cohort_unique_id(COHORT_PLATFORM_AUTO, &id), "id");
	ranks_must(cohort_comm_join(&id, 1, 0, 0, &o, &c), "join");
	cr_assert_eq(inits, 1);
	cr_assert_eq(seen.maxCTAs, 4);
	cr_assert_eq(cohort_comm_close(c), COHORT_OK);
}

static void refused(const struct cohort_group_options *o, const char *text)
{
	struct cohort_group *group;

	cr_assert_eq(cohort_group_open(NULL, 1, o, &group), COHORT_INVALID);
	expect_text(cohort_last_error(), text);
}

Test(config, open_refuses_an_invalid_nccl_config)
{
	struct cohort_group_options o = options();

	config.blocking = 0;
	refused(&o, "options->nccl_config->blocking is 0, not 1: calls would "
	            "return");
	config.blocking = 1;
	config.splitShare = 1;
	refused(&o,
	        "options->nccl_config->splitShare is 1, not 0: a communicator");
	config.splitShare = 0;
	config.magic = 7;
	refused(&o, "options->nccl_config->magic is 0x7: initialize it");
	config.size = 257;
	refused(&o, "options->nccl_config->size is 257: initialize it");
	config.size = 8;
	refused(&o, "options->nccl_config->size is 8: initialize it");
}

/* A program can be compiled with another version of NCCL. @seen has only the
 * fields that the library's version reads. */
Test(config, nccl_config_of_another_version_is_passed_on_unchanged)
{
	/* 256 bytes is the largest accepted size */
	unsigned char bytes[256];
	struct cohort_group_options o = options();
	struct cohort_group *group;

	install();
	/* the library must not read beyond the copy of config */
	memset(bytes, 0x77, sizeof(bytes));
	config.size = offsetof(ncclConfig_t, netName);
	config.version = 21700;
	config.maxCTAs = 4;
	memcpy(bytes, &config, config.size);
	o.nccl_config = bytes;
	ranks_must(cohort_group_open(NULL, 1, &o, &group), "open");
	cr_assert_eq(seen.size, offsetof(ncclConfig_t, netName));
	cr_assert_eq(seen.version, 21700);
	cr_assert_eq(seen.maxCTAs, 4);
	expect_close(group);
}

/*
 * An older caller's options end before the nccl_config fields. The memory after
 * them must not be read.
 */
Test(config, older_options_structure_has_no_nccl_config)
{
	struct cohort_group_options o = options();
	struct cohort_group *group;

	install();
	o.size = offsetof(struct cohort_group_options, nccl_config);
	config.magic = 7;
	ranks_must(cohort_group_open(NULL, 1, &o, &group), "open");
	cr_assert_eq(inits, 0);
	expect_close(group);
}

/* Ranks that open before the failing one must not wait for others. */
Test(config, open_with_a_config_opens_no_rank_if_a_device_fails)
{
	struct cohort_group_options o = options();
	struct cohort_group *group;

	place_need(3);
	install();
	config.maxCTAs = 4;
	o.deadlines.init_ns = RANKS_SOON;
	fail_device = 2;
	cr_assert_eq(cohort_group_open(NULL, 3, &o, &group), COHORT_CUDA, "%s",
	             cohort_last_error());
	expect_text(cohort_last_error(), "cudaSetDevice");
	fail_device = -1;
	ranks_must(cohort_group_open(NULL, 3, &o, &group), "open");
	works(group);
	expect_close(group);
}

Test(config, open_fails_if_nccl_refuses_the_config)
{
	struct cohort_group_options o = options();
	struct cohort_group *group;

	place_need(2);
	place_skip_on_nvidia_from(23100,
	                          "from 2.31 on numbers of thread blocks "
	                          "above its limit are the limit");
	install();
	config.minCTAs = 1 << 20; /* exceeds NCCL's limit */
	cr_assert_eq(cohort_group_open(NULL, 2, &o, &group), COHORT_NCCL, "%s",
	             cohort_last_error());
	config.minCTAs = NCCL_CONFIG_UNDEF_INT;
	config.maxCTAs = 2;
	ranks_must(cohort_group_open(NULL, 2, &o, &group), "open");
	works(group);
	expect_close(group);
}
