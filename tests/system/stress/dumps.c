/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests dumps that a call, a signal or a verdict starts while ranks call, until
 * the group is aborted in the middle of a dump
 */

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 3
#define SLOTS 16

static char folder[] = "/tmp/cohort-dumps-XXXXXX";
static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];
static atomic_bool stop;

static void *call(void *arg)
{
	int r = (int)(intptr_t)arg;
	int32_t value = 1;
	char tag[32];
	int i;

	for (i = 0; !atomic_load(&stop); i++) {
		snprintf(tag, sizeof(tag), "step %d", i);
		cohort_tag(comms[r], tag);
		if (ranks_sum_wait(comms[r], &value) != COHORT_OK)
			break;
	}
	return NULL;
}

static void *dump(void *arg)
{
	int rc;

	while (!atomic_load(&stop)) {
		rc = cohort_dump(group, folder);
		if (rc != COHORT_OK)
			stress_fail("dump: %s", cohort_last_error());
	}
	return arg;
}

static void run_round(uint64_t *seed)
{
	struct cohort_group_options o;
	pthread_t threads[RANKS + 1];
	intptr_t i;

	cohort_group_options_init(&o);
	o.recorder_slots = SLOTS;
	o.dump_directory = folder;
	o.dump_signal = SIGUSR1;
	atomic_store(&stop, false);
	group = ranks_split(RANKS, &o, comms);
	for (i = 0; i < RANKS; i++)
		pthread_create(&threads[i], NULL, call, (void *)i);
	pthread_create(&threads[i], NULL, dump, NULL);
	usleep((useconds_t)(stress_random(seed) % 3000));
	kill(getpid(), SIGUSR1);
	usleep((useconds_t)(stress_random(seed) % 3000));
	cohort_group_abort(group, "enough");
	for (i = 0; i < RANKS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&stop, true);
	pthread_join(threads[i], NULL);
	if (cohort_group_close(group) != COHORT_OK)
		stress_fail("close: %s", cohort_last_error());
}

/* Remove the files. Return how many existed. */
static int clear(void)
{
	char path[512];
	struct dirent *entry;
	DIR *dir = opendir(folder);
	int n = 0;

	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		n += !unlink(path);
	}
	closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	uint64_t seed = 1;
	int rounds = 0, files;

	if (!mkdtemp(folder))
		return 1;
	while (stress_continue(argc, argv)) {
		run_round(&seed);
		files = clear();
		/* The verdict and the call each write one set of files. */
		if (files != 2 * (RANKS + 2))
			stress_fail("a verdict and a call left %d files",
			            files);
		rounds++;
	}
	rmdir(folder);
	printf("%d rounds\n", rounds);
	return 0;
}
