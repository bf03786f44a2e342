/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a container, a control group or a filter of system calls takes away
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/check/check.h"

#define MIB (UINT64_C(1) << 20)

int check_read(const struct check *c, const char *path, char *text, size_t size)
{
	char full[3 * PATH_MAX];
	ssize_t n;
	int fd;

	snprintf(full, sizeof(full), "%s%s", c->root, path);
	fd = open(full, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, size - 1);
	close(fd);
	if (n < 0)
		return -1;
	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	return (int)n;
}

/* ---- the device files --------------------------------------------------------- */

#define FILES "device-files"

static bool exists(const struct check *c, const char *path, int how)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", c->root, path);
	return access(full, how) == 0;
}

/* Count the entries of a folder whose name is @prefix and then a digit. */
static int count_entries(const struct check *c, const char *path,
                         const char *prefix)
{
	const size_t n = strlen(prefix);
	struct dirent *entry;
	char full[PATH_MAX];
	int found = 0;
	DIR *folder;

	snprintf(full, sizeof(full), "%s%s", c->root, path);
	folder = opendir(full);
	while (folder && (entry = readdir(folder)))
		if (strncmp(entry->d_name, prefix, n) == 0 &&
		    entry->d_name[n] >= '0' && entry->d_name[n] <= '9')
			found++;
	if (folder)
		closedir(folder);
	return found;
}

int check_gpus(const struct check *c)
{
	return count_entries(c, "/proc/driver/nvidia/gpus", "");
}

static void check_files(struct check *c)
{
	static const char *const needed[] = { "/dev/nvidiactl",
		                              "/dev/nvidia-uvm" };
	const int gpus = check_gpus(c),
		  files = count_entries(c, "/dev", "nvidia");
	bool all = true;
	size_t i;

	if (!check_wants_gpus(c)) {
		check_tell(c, CHECK_SKIPPED, FILES, NULL, NULL,
		           "No GPU was asked for.");
		return;
	}
	if (!exists(c, "/proc/driver/nvidia/version", F_OK)) {
		check_tell(c, CHECK_SKIPPED, FILES, NULL, NULL,
		           "No driver of NVIDIA's is loaded.");
		return;
	}
	for (i = 0; i < 2; i++) {
		if (exists(c, needed[i], R_OK | W_OK))
			continue;
		all = false;
		if (exists(c, needed[i], F_OK))
			check_tell(c, CHECK_ERROR, FILES, needed[i],
			           "Let the user into the group that owns it, "
			           "or into the container's device rules.",
			           "The user may not use it, so there is no "
			           "GPU for this process.");
		else
			check_tell(c, CHECK_ERROR, FILES, needed[i],
			           "Start the container with its GPUs, as by "
			           "--gpus all; on the host run "
			           "nvidia-modprobe -u -c 0.",
			           "The driver is loaded, but the file is "
			           "missing, so there is no GPU for this "
			           "process.");
	}
	if (all && gpus && files < gpus)
		check_tell(c, CHECK_WARNING, FILES, NULL,
		           "Start the container with all of them if the run "
		           "is to use them.",
		           "The driver has %d GPUs, and %d of them are here.",
		           gpus, files);
	else if (all)
		check_tell(c, CHECK_OK, FILES, NULL, NULL, "%d GPU%s", files,
		           files == 1 ? "" : "s");
}

/* ---- control groups --------------------------------------------------------------- */

#define CGROUP "cgroup"

struct limit {
	uint64_t most, used; /* UINT64_MAX: there is no limit */
};

static uint64_t read_number(const struct check *c, const char *folder,
                            const char *name)
{
	char path[PATH_MAX + 64], text[64], *end;
	unsigned long long n;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (check_read(c, path, text, sizeof(text)) <= 0)
		return UINT64_MAX;
	n = strtoull(text, &end, 10);
	/* "max", or version 1's largest number of pages */
	return end == text || n >= UINT64_C(1) << 62 ? UINT64_MAX : n;
}

/* The memory that a group has for files, which the kernel gives back when it is needed. */
static uint64_t read_cache(const struct check *c, const char *folder)
{
	/* Version 2; version 1, whose others leave out the groups below. */
	static const char *const names[2][2] = {
		{ "\nactive_file ", "\ninactive_file " },
		{ "\ntotal_active_file ", "\ntotal_inactive_file " },
	};
	char path[PATH_MAX + 64], text[8192];
	const char *active, *inactive;
	int version;

	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	if (check_read(c, path, text, sizeof(text)) <= 0)
		return 0;
	version = strstr(text, names[1][0]) ? 1 : 0;
	active = strstr(text, names[version][0]);
	inactive = strstr(text, names[version][1]);
	return active && inactive
	               ? strtoull(strchr(active, ' '), NULL, 10) +
	                         strtoull(strchr(inactive, ' '), NULL, 10)
	               : 0;
}

/* The process's folder of a controller: version 2's if @controller is NULL. */
static bool find_folder(const struct check *c, const char *controller,
                        char out[PATH_MAX])
{
	char text[8192], *line, *rest = text, *second, *third;

	if (check_read(c, "/proc/self/cgroup", text, sizeof(text)) <= 0)
		return false;
	while ((line = strsep(&rest, "\n"))) {
		second = strchr(line, ':');
		third = second ? strchr(second + 1, ':') : NULL;
		if (!third)
			continue;
		*third++ = '\0';
		second++;
		if (controller ? strcmp(second, controller) != 0 : *second != 0)
			continue;
		snprintf(out, PATH_MAX, "/sys/fs/cgroup%s%s%s",
		         controller ? "/" : "", controller ? controller : "",
		         strcmp(third, "/") == 0 ? "" : third);
		return true;
	}
	return false;
}

/* The tightest limit from the process's group up. */
static struct limit find_limit(const struct check *c, const char *controller,
                               const char *most, const char *used)
{
	struct limit tightest = { UINT64_MAX, 0 }, l;
	char folder[PATH_MAX];
	uint64_t cache;

	if (!find_folder(c, controller, folder))
		return tightest;
	/* In a container the path may be the host's, and not there. */
	while (strncmp(folder, "/sys/fs/cgroup", 14) == 0) {
		l.most = read_number(c, folder, most);
		l.used = read_number(c, folder, used);
		cache = strncmp(most, "memory.", 7) == 0 ? read_cache(c, folder)
		                                         : 0;
		l.used = l.used == UINT64_MAX || l.used < cache
		                 ? 0
		                 : l.used - cache;
		if (l.most != UINT64_MAX &&
		    (tightest.most == UINT64_MAX ||
		     l.most - l.used < tightest.most - tightest.used))
			tightest = l;
		*strrchr(folder, '/') = '\0';
	}
	return tightest;
}

/* The cores that a quota allows; 0: there is none. */
static double find_quota(const struct check *c)
{
	char folder[PATH_MAX], path[2 * PATH_MAX], text[64];
	unsigned long long quota, period;
	double cores, least = 0;

	if (!find_folder(c, NULL, folder))
		return 0;
	while (strncmp(folder, "/sys/fs/cgroup", 14) == 0) {
		snprintf(path, sizeof(path), "%s/cpu.max", folder);
		if (check_read(c, path, text, sizeof(text)) > 0 &&
		    sscanf(text, "%llu %llu", &quota, &period) == 2 && period) {
			cores = (double)quota / (double)period;
			if (least == 0 || cores < least)
				least = cores;
		}
		*strrchr(folder, '/') = '\0';
	}
	return least;
}

static struct limit either(struct limit a, struct limit b)
{
	return a.most != UINT64_MAX ? a : b;
}

static void check_cores(struct check *c)
{
	const int n = check_devices(c);
	double cores = find_quota(c);
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) == 0 &&
	    (cores == 0 || CPU_COUNT(&set) < cores))
		cores = CPU_COUNT(&set);
	/* The simulator's ranks share cores by design. */
	if (check_is_real(c) && cores > 0 && cores < n)
		check_tell(c, CHECK_WARNING, CGROUP, "cpu",
		           "Give the process a core for each rank, and one "
		           "more.",
		           "%d ranks have %.3g core%s: their threads take "
		           "turns, and the others wait for each.",
		           n, cores, cores == 1 ? "" : "s");
}

static void check_cgroup(struct check *c)
{
	const unsigned before = check_troubles(c);
	const uint64_t threads = 64 + 16 * (uint64_t)check_devices(c),
		       memory = 512 * MIB * (uint64_t)check_devices(c);
	const struct limit pids = either(find_limit(c, NULL, "pids.max",
	                                            "pids.current"),
	                                 find_limit(c, "pids", "pids.max",
	                                            "pids.current")),
			   bytes = either(find_limit(c, NULL, "memory.max",
	                                             "memory.current"),
	                                  find_limit(c, "memory",
	                                             "memory.limit_in_bytes",
	                                             "memory.usage_in_bytes"));

	if (pids.most != UINT64_MAX && pids.used + threads > pids.most)
		check_tell(c,
		           pids.used + threads / 4 > pids.most ? CHECK_ERROR
		                                               : CHECK_WARNING,
		           CGROUP, "pids",
		           "Raise it: --pids-limit, TasksMax=, or pids.max.",
		           "The control group may have %llu threads, and has "
		           "%llu; a run needs some %llu.",
		           (unsigned long long)pids.most,
		           (unsigned long long)pids.used,
		           (unsigned long long)threads);
	/* Simulated devices take what their programs allocate, and no more. */
	if (check_is_real(c) && bytes.most != UINT64_MAX &&
	    bytes.used + memory > bytes.most)
		check_tell(
			c, CHECK_WARNING, CGROUP, "memory",
			"Raise it: --memory, MemoryMax=, or memory.max.",
			"The control group has %llu MiB left; CUDA's "
			"contexts and NCCL's buffers take some %llu MiB of "
			"the host's memory.",
			(unsigned long long)((bytes.most > bytes.used
		                                      ? bytes.most - bytes.used
		                                      : 0) /
		                             MIB),
			(unsigned long long)(memory / MIB));
	check_cores(c);
	if (check_troubles(c) == before)
		check_tell(c, CHECK_OK, CGROUP, NULL, NULL,
		           "threads, memory and cores are enough for %d rank%s",
		           check_devices(c), check_devices(c) == 1 ? "" : "s");
}

/* ---- system calls ------------------------------------------------------------------- */

#define CALLS "system-calls"

static bool try_memfd(void)
{
	const int fd = memfd_create("cohort-check", MFD_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool try_pidfd(void)
{
#ifdef SYS_pidfd_open
	const int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
#else
	return true;
#endif
}

static bool try_numa(void)
{
	int mode;

	return syscall(SYS_get_mempolicy, &mode, NULL, 0UL, NULL, 0UL) == 0;
}

static bool try_own_syscall(void)
{
	const int fd = open("/proc/self/syscall", O_RDONLY | O_CLOEXEC);
	char text[256];
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;

	if (fd >= 0)
		close(fd);
	return n > 0;
}

static void check_calls(struct check *c)
{
	static const struct {
		const char *name;
		bool (*try)(void);
		enum check_result result;
		const char *what;
		bool is_for_gpus;
	} calls[] = {
		{ "memfd_create", try_memfd, CHECK_ERROR,
		  "processes of a machine cannot share memory", false },
		{ "pidfd_open", try_pidfd, CHECK_WARNING,
		  "the end of another process is noticed late", false },
		{ "get_mempolicy", try_numa, CHECK_WARNING,
		  "NCCL's memory of the host comes from /dev/shm, and before "
		  "2.26.3 an init may fail",
		  true },
		{ "/proc/self/syscall", try_own_syscall, CHECK_WARNING,
		  "verdicts do not say what a missing rank's thread waits for",
		  false },
	};
	bool all = true;
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if ((calls[i].is_for_gpus && !check_is_real(c)) ||
		    calls[i].try())
			continue;
		all = false;
		check_tell(c, calls[i].result, CALLS, calls[i].name,
		           "Let the container's filter of system calls "
		           "(seccomp) pass it; for memory policies: --cap-add "
		           "SYS_NICE.",
		           "%s: %s.", strerror(errno), calls[i].what);
	}
	if (all)
		check_tell(c, CHECK_OK, CALLS, NULL, NULL,
		           "none that is needed is refused");
}

void check_container(struct check *c)
{
	check_files(c);
	check_cgroup(c);
	check_calls(c);
}
