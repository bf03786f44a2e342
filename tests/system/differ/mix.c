/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs random programs one after another in one process. They must not crash,
 * hang or leak.
 *
 * These programs obey NCCL's rules. The programs of tests/system/stress/mix.c
 * do not, because their ranks make different calls. With NVIDIA's NCCL, such
 * calls complete with wrong data, or never.
 */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "differ.h"

#define WARM_UP 8 /* rounds after which everything has been used once */
#define LIMIT 120 /* longest duration of a round, in seconds */
#define MOST_ABORTS 4096

/* Numbers of resources of the process */
struct census {
	int threads, files, mappings;
	long kib;
};

static int entries(const char *path)
{
	DIR *folder = opendir(path);
	int n = 0;

	must(folder, path);
	while (readdir(folder))
		n++;
	closedir(folder);
	return n;
}

/*
 * Count the threads, except the simulator's, whose number depends on the
 * streams' work.
 */
static int threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	const struct dirent *task;
	char path[300], name[32];
	FILE *file;
	int n = 0;

	must(folder, "/proc/self/task");
	while ((task = readdir(folder))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
		         task->d_name);
		file = *task->d_name == '.' ? NULL : fopen(path, "r");
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file))
			n += strncmp(name, "stream:", 7) != 0 &&
			     strcmp(name, "poller\n") != 0;
		fclose(file);
	}
	closedir(folder);
	return n;
}

static struct census census(void)
{
	struct census c = { threads(), entries("/proc/self/fd"), 0, 0 };
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	long pages = 0;

	must(file, "/proc/self/maps");
	while (fgets(line, sizeof(line), file))
		c.mappings += strchr(line, '\n') != NULL;
	fclose(file);
	file = fopen("/proc/self/statm", "r");
	must(file && fscanf(file, "%*d %ld", &pages) == 1, "/proc/self/statm");
	fclose(file);
	c.kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
	return c;
}

static void show(const char *when, unsigned rounds, struct census c)
{
	printf("%s %u rounds: %d threads, %d files, %d mappings, %ld KiB\n",
	       when, rounds, c.threads, c.files - 3, c.mappings, c.kib);
	fflush(stdout);
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void show_times(const char *what, double *ms, size_t n)
{
	qsort(ms, n, sizeof(*ms), compare);
	printf("%s after %.2f ms (median of %zu), at most %.2f\n", what,
	       ms[n / 2], n, ms[n - 1]);
}

static double leave_ms[MOST_ABORTS], free_ms[MOST_ABORTS];
static size_t aborts;

static void play_one(struct stage *g, unsigned round)
{
	int i;

	if (round % 2) {
		play_to_abort(g, round);
		leave_ms[aborts % MOST_ABORTS] = g->leave_ms;
		free_ms[aborts++ % MOST_ABORTS] = g->free_ms;
	} else {
		play(g, round);
	}
	for (i = 0; i < g->n; i++) {
		fill(&g->actors[i]);
		g->actors[i].length = 0;
	}
}

int mix(struct stage *g, int seconds)
{
	const time_t end = time(NULL) + seconds;
	struct census before = { 0 }, after;
	unsigned round;
	size_t n;

	for (round = 0; time(NULL) < end || round <= WARM_UP; round++) {
		alarm(LIMIT);
		play_one(g, round);
		if (round == WARM_UP)
			before = census();
		if (round >= WARM_UP && !(round & (round - 1)))
			show("after", round, census());
	}
	after = census();
	show("after", round, after);
	n = aborts < MOST_ABORTS ? aborts : MOST_ABORTS;
	show_times("aborts: all ranks have left", leave_ms, n);
	show_times("aborts: then all is freed", free_ms, n);
	return after.threads > before.threads || after.files > before.files;
}
