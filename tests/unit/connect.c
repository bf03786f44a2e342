/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Test of connecting by id when another rank will not arrive
 */

#include "core/connect.h"
#include "support/expect.h"
#include "support/ranks.h"

static bool always(void *of, bool is_native)
{
	(void)of;
	(void)is_native;
	return true;
}

Test(connect, connecting_fails_at_once_if_a_rank_will_not_arrive, .timeout = 60)
{
	struct connect_world world = { .size = 2, .is_futile = always };
	const struct comm_config config = { .connect = 0 };
	struct new_rank rank = { .device = 0 };
	const struct patience patience = { .timeout_ns = RANKS_SOON };
	const struct platform *platform;

	cr_assert_eq(platform_open(place_platform(), &platform), COHORT_OK);
	cr_assert_eq(platform->ncclGetUniqueId(&world.id), ncclSuccess);
	expect(connect_ranks(platform, &rank, 1, &world, &config, 64, &patience,
	                     "alone"),
	       COHORT_PROCESS_EXITED, "has exited");
}
