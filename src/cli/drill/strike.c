/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What strikes a process as a whole
 */

#include "cli/drill/drill.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Used by one thread at a time: the descriptors that were taken, and the limit before. */
static int taken[1024];
static int n_taken;
static struct rlimit limit_before;

static int highest_descriptor(void)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *one;
	int highest = 0;

	while (all && (one = readdir(all)))
		if (atoi(one->d_name) > highest)
			highest = atoi(one->d_name);
	if (all)
		closedir(all);
	return highest;
}

/* Leave no descriptor free. */
static void take_descriptors(struct drill_run *run)
{
	const int most = (int)(sizeof(taken) / sizeof(taken[0]));
	struct rlimit limit;
	int fd = 0;

	getrlimit(RLIMIT_NOFILE, &limit_before);
	limit = limit_before;
	limit.rlim_cur = (rlim_t)highest_descriptor() + 1;
	if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
		while (n_taken < most && (fd = dup(STDERR_FILENO)) >= 0)
			taken[n_taken++] = fd;
	if (fd >= 0)
		drill_complain(run, "descriptors cannot be taken away");
}

void drill_give_back_descriptors(void)
{
	if (limit_before.rlim_cur)
		setrlimit(RLIMIT_NOFILE, &limit_before);
	while (n_taken)
		close(taken[--n_taken]);
}

static void remove_file(struct drill_run *run)
{
	static const char prefix[] = "/dev/shm/cohort-";
	DIR *all = opendir("/proc/self/fd");
	char link[300], path[128];
	struct dirent *one;

	while (all && (one = readdir(all))) {
		snprintf(link, sizeof(link), "/proc/self/fd/%s", one->d_name);
		ssize_t n = readlink(link, path, sizeof(path) - 1);

		if (n < (ssize_t)sizeof(prefix) ||
		    memcmp(path, prefix, sizeof(prefix) - 1))
			continue;
		path[n] = 0;
		if (unlink(path) == 0)
			atomic_store(&run->shared->is_removed, true);
	}
	if (all)
		closedir(all);
}

void drill_strike_process(struct drill_run *run)
{
	switch (run->trouble) {
	case BY_KILL:
		raise(SIGKILL);
		break;
	case BY_PAUSE:
	case BY_STOP:
		raise(SIGSTOP); /* kill() would let this thread go on a little */
		break;
	case BY_DESCRIPTORS:
		take_descriptors(run);
		break;
	case BY_UNLINK:
		remove_file(run);
		break;
	default:
		break;
	}
}
