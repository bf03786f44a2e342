/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Test that dumps are right about operations that were recorded as started
 * during an abort
 */

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/comm.h"
#include "support/expect.h"
#include "support/ranks.h"

/* Return how often the dump of rank 0 in @folder contains @what. Remove the
 * folder. */
static int count_and_remove(const char *folder, const char *what)
{
	static char text[1 << 16];
	char path[512];
	glob_t found;
	size_t i;
	const char *at;
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/*", folder);
	cr_assert_eq(glob(path, 0, NULL, &found), 0);
	for (i = 0; i < found.gl_pathc; i++) {
		f = fopen(found.gl_pathv[i], "re");
		cr_assert_not_null(f);
		memset(text, 0, sizeof(text));
		cr_assert_gt(fread(text, 1, sizeof(text) - 1, f), 0);
		fclose(f);
		unlink(found.gl_pathv[i]);
		if (!strstr(found.gl_pathv[i], "rank_0"))
			continue;
		for (at = text; (at = strstr(at, what)); at++)
			n++;
	}
	globfree(&found);
	rmdir(folder);
	return n;
}

/*
 * The first call of each stream hangs, so no later call has started, not even
 * an aborted one.
 */
Test(dump, dump_shows_calls_queued_after_a_hang_as_scheduled, .timeout = 60)
{
	char folder[] = "/tmp/cohort-dump-XXXXXX";
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	static int32_t value = 1;

	const struct platform *p = place_table();
	cudaStream_t stream;
	uint64_t t;
	int i;

	cr_assert_not_null(mkdtemp(folder));
	group = ranks_ahead(2, NULL, comms);
	cr_assert_eq(p->cudaSetDevice(cohort_comm_device(comms[0])),
	             cudaSuccess);
	cr_assert_eq(p->cudaStreamCreateWithFlags(&stream,
	                                          cudaStreamNonBlocking),
	             cudaSuccess);
	ranks_sum(comms[0], &value);
	for (i = 0; i < 3; i++)
		ranks_must(cohort_all_reduce(comms[0], &value, &value, 1,
		                             COHORT_I32, COHORT_SUM, stream,
		                             &t),
		           "all_reduce");
	/* Record both calls as started. The thread that reads start marks may
	 * do this during an abort. */
	recorder_set_started(&comms[0]->recorder, t - 1, clock_now());
	recorder_set_started(&comms[0]->recorder, t, clock_now());
	cohort_group_abort(group, NULL);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	cr_assert_eq(cohort_dump(group, folder), COHORT_OK);
	cr_assert_geq(count_and_remove(folder, "\"state\":\"scheduled\""), 2);
	expect_close(group);
	p->cudaStreamDestroy(stream);
}
