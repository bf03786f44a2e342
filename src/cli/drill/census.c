/* SPDX-License-Identifier: Apache-2.0 */

/* The census: checks that a cell of the drill leaves nothing behind */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"
#include "cli/drill/drill.h"
#include "processes/launcher.h"
#include "processes/own_bootstrap.h"
#include "sim/strict/census.h"

/* Threads that simulated devices keep temporarily for reuse: the threads of
 * streams, whose names start with KEPT_STREAM, and the poller */
#define KEPT_STREAM "stream:"
#define KEPT_POLLER "poller"

/* The library's idle workers, whose number can change briefly */
#define KEPT_SPARE "cohort/spare"

/* Time within which resources that a cell leaves behind must be gone */
#define GONE_NS (20 * NS_PER_S)

static bool is_kept(const char *name)
{
	return strncmp(name, KEPT_STREAM, sizeof(KEPT_STREAM) - 1) == 0 ||
	       strcmp(name, KEPT_POLLER) == 0 || strcmp(name, KEPT_SPARE) == 0;
}

static void count_threads(struct drill_census *census)
{
	static const char pattern[] = "/proc/self/task/*";
	char name[THREAD_NAME_SIZE];
	glob_t tasks = { 0 };

	glob(pattern, GLOB_NOSORT, NULL, &tasks);
	for (size_t i = 0; i < tasks.gl_pathc; i++) {
		int tid = atoi(tasks.gl_pathv[i] + sizeof(pattern) - 2);

		if (!thread_lives(tid, name) || is_kept(name))
			continue;
		census->threads++;
		census->newest = MAX(census->newest, tid);
	}
	globfree(&tasks);
}

void drill_find_files(glob_t *files)
{
	/* pid of the drill, which its forked processes use as their job
	 * number */
	static pid_t drill;
	char job[16], name[64], pattern[80];

	if (!drill)
		drill = getpid();
	snprintf(job, sizeof(job), "%d", (int)drill);
	bootstrap_file_name(launcher_job_hash(job), name, sizeof(name));
	snprintf(pattern, sizeof(pattern), "/dev/shm%s*", name);
	*files = (glob_t){ 0 };
	glob(pattern, GLOB_NOSORT, NULL, files);
}

struct drill_census drill_census(void)
{
	struct drill_census census = {
		.memory = memory_live(),
		.streams = stream_live(),
		.events = event_live(),
		.worlds = world_live(),
		.meetings = meeting_live(),
	};
	glob_t found = { 0 };

	count_threads(&census);
	glob("/proc/self/fd/*", GLOB_NOSORT, NULL, &found);
	census.descriptors = found.gl_pathc;
	globfree(&found);
	drill_find_files(&found);
	census.files = found.gl_pathc;
	globfree(&found);
	return census;
}

/* Return the name of a resource of which more exist now than before, or
 * NULL. */
static const char *excess(const struct drill_census *before,
                          const struct drill_census *now)
{
	return now->threads > before->threads           ? "thread"
	       : now->descriptors > before->descriptors ? "descriptor"
	       : now->files > before->files             ? "file"
	       : now->memory > before->memory           ? "memory of a device"
	       : now->streams > before->streams         ? "stream"
	       : now->events > before->events           ? "event"
	       : now->worlds > before->worlds           ? "native communicator"
	       : now->meetings > before->meetings       ? "unique id"
	                                                : NULL;
}

bool drill_is_left(const struct drill_census *before, char *out, size_t size)
{
	uint64_t deadline = clock_deadline(GONE_NS);
	char thread[THREAD_NAME_SIZE] = "";
	struct backoff b = BACKOFF;
	struct drill_census now;
	const char *what;

	while ((now = drill_census(), what = excess(before, &now)) &&
	       clock_now() < deadline)
		backoff_wait(&b, deadline);
	if (!what)
		return false;
	if (now.threads > before->threads)
		thread_lives(now.newest, thread);
	snprintf(out, size, "left behind: %s%s%s", what, *thread ? " " : "",
	         thread);
	return true;
}
