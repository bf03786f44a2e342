/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The machine: shared memory, and the limits of a process
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/check/check.h"

#define MIB (UINT64_C(1) << 20)

/* ---- shared memory ---------------------------------------------------------- */

#define SHM "shared-memory"
#define FOLDER "/dev/shm"

/* The size of a segment of NCCL's with its default buffers.  Two ranks without a direct
 * path have one for each direction. */
#define SEGMENT_BYTES (10 * MIB)

/* What the library itself needs for the processes of a machine, and more. */
#define OWN_BYTES MIB

/* The files there that processes have mapped, each with a newline behind it, as far as
 * the processes can be looked into.  NULL without memory or /proc; the caller frees
 * it. */
static char *mapped_files(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char maps[300], *line = NULL, *all = NULL, *at;
	size_t size = 0, length = 0;
	FILE *in, *out = access("/proc/self/maps", R_OK) == 0
	                         ? open_memstream(&all, &length)
	                         : NULL;

	while (proc && out && (entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(maps, sizeof(maps), "/proc/%s/maps", entry->d_name);
		in = fopen(maps, "r");
		while (in && getline(&line, &size, in) >= 0)
			if ((at = strstr(line, FOLDER "/")))
				fputs(at, out);
		if (in)
			fclose(in);
	}
	free(line);
	if (proc)
		closedir(proc);
	if (out)
		fclose(out);
	return all;
}

/* Files of NCCL's or of this project that no process uses: those of processes that were
 * killed. */
static void check_leftovers(struct check *c)
{
	char path[PATH_MAX], first[PATH_MAX] = "", *mapped = mapped_files();
	DIR *folder = mapped ? opendir(FOLDER) : NULL;
	struct dirent *entry;
	struct stat file;
	uint64_t bytes = 0;
	unsigned n = 0;

	while (folder && (entry = readdir(folder))) {
		if (strncmp(entry->d_name, "nccl-", 5) != 0 &&
		    strncmp(entry->d_name, "cohort-", 7) != 0)
			continue;
		snprintf(path, sizeof(path), FOLDER "/%s\n", entry->d_name);
		if (strstr(mapped, path))
			continue;
		path[strlen(path) - 1] = '\0';
		/* Another user's processes cannot be looked into. */
		if (stat(path, &file) != 0 || !S_ISREG(file.st_mode) ||
		    (file.st_uid != geteuid() && geteuid() != 0))
			continue;
		if (!n++)
			strcpy(first, path);
		bytes += (uint64_t)file.st_blocks * 512;
	}
	if (folder)
		closedir(folder);
	free(mapped);
	if (n)
		check_tell(c, CHECK_WARNING, SHM, "leftovers",
		           "Remove them, unless a job is about to start, or "
		           "runs in another container.",
		           "%u file%s of NCCL's or Cohort's that no process "
		           "has mapped (%.1f MiB), such as %s.",
		           n, n == 1 ? "" : "s", (double)bytes / (double)MIB,
		           first);
}

/* A file in memory, as NCCL and the library make them. */
static bool can_write(int *err)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), FOLDER "/cohort-check-%d", (int)getpid());
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		*err = errno;
		return false;
	}
	unlink(name);
	*err = posix_fallocate(fd, 0, 4096);
	close(fd);
	return !*err;
}

static void check_shared_memory(struct check *c)
{
	const bool is_nccl = check_is_nvidia(c);
	const int n = check_devices(c);
	const uint64_t wanted = 2 * SEGMENT_BYTES * (uint64_t)n;
	const char *more = "In a container: --shm-size=1g; else mount " FOLDER
			   " with a larger size.";
	struct statvfs fs;
	uint64_t free_bytes;
	int err = 0;

	if (statvfs(FOLDER, &fs) != 0)
		err = errno;
	if (err || !can_write(&err)) {
		check_tell(c, CHECK_ERROR, SHM, NULL,
		           "Mount a tmpfs on " FOLDER
		           " that every user may write to.",
		           FOLDER ": %s; processes of a machine do not find "
		                  "each other, nor does NCCL exchange data "
		                  "through the host.",
		           strerror(err));
		return;
	}
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	check_leftovers(c);
	if (free_bytes < OWN_BYTES)
		check_tell(c, CHECK_ERROR, SHM, NULL, more,
		           FOLDER " has %.1f MiB left: processes of a machine "
		                  "cannot open a group.",
		           (double)free_bytes / (double)MIB);
	else if (free_bytes < SEGMENT_BYTES && is_nccl)
		check_tell(c, CHECK_ERROR, SHM, NULL, more,
		           FOLDER " has %.1f MiB left, less than one segment "
		                  "of NCCL's (10 MiB): an init fails where "
		                  "ranks have no direct path.",
		           (double)free_bytes / (double)MIB);
	else if (free_bytes < wanted && is_nccl)
		check_tell(c, CHECK_WARNING, SHM, NULL, more,
		           FOLDER
		           " has %.0f MiB left; a run of %d rank%s without "
		           "direct paths needs some %.0f MiB.",
		           (double)free_bytes / (double)MIB, n,
		           n == 1 ? "" : "s", (double)wanted / (double)MIB);
	else
		check_tell(c, CHECK_OK, SHM, NULL, NULL,
		           FOLDER " has %.0f MiB left",
		           (double)free_bytes / (double)MIB);
}

/* ---- limits ------------------------------------------------------------------- */

#define LIMITS "limits"

static bool is_less(rlim_t limit, uint64_t need)
{
	return limit != RLIM_INFINITY && limit < need;
}

/* The threads of this user, for the limit of which root is exempt. */
static uint64_t threads_of_user(void)
{
	DIR *proc = opendir("/proc");
	char path[300], text[4096];
	struct dirent *entry;
	uint64_t n = 0;
	const char *at;
	FILE *in;

	while (proc && (entry = readdir(proc))) {
		unsigned uid = 0, threads = 0;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/status", entry->d_name);
		in = fopen(path, "r");
		if (!in)
			continue;
		text[fread(text, 1, sizeof(text) - 1, in)] = '\0';
		fclose(in);
		if ((at = strstr(text, "\nUid:")))
			sscanf(at, "\nUid: %u", &uid);
		if ((at = strstr(text, "\nThreads:")))
			sscanf(at, "\nThreads: %u", &threads);
		if (uid == getuid())
			n += threads;
	}
	if (proc)
		closedir(proc);
	return n;
}

static void check_files(struct check *c)
{
	const uint64_t n = (uint64_t)check_devices(c);
	/* NCCL's sockets and files for each rank, and for each pair of them.  The simulator
	 * has none, and what a program needs is not known. */
	const bool is_nccl = check_is_nvidia(c);
	const uint64_t need = is_nccl ? 128 + 32 * n + 4 * n * n : 64 + n,
		       least = is_nccl ? 64 + 16 * n : 0;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
	    !is_less(limit.rlim_cur, need))
		return;
	check_tell(c, limit.rlim_cur < least ? CHECK_ERROR : CHECK_WARNING,
	           LIMITS, "nofile",
	           is_less(limit.rlim_max, need)
	                   ? "An administrator raises the hard limit, as in "
	                     "/etc/security/limits.d or by --ulimit nofile=N."
	                   : "ulimit -n 4096, or more.",
	           "A process may have %llu open files; a run of %llu rank%s "
	           "needs some %llu.",
	           (unsigned long long)limit.rlim_cur, (unsigned long long)n,
	           n == 1 ? "" : "s", (unsigned long long)need);
}

static void check_threads(struct check *c)
{
	const uint64_t need = 64 + 16 * (uint64_t)check_devices(c);
	struct rlimit limit;
	uint64_t used;

	if (geteuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) != 0 ||
	    limit.rlim_cur == RLIM_INFINITY)
		return;
	used = threads_of_user();
	if (used + need > limit.rlim_cur)
		check_tell(c, CHECK_WARNING, LIMITS, "nproc",
		           "ulimit -u with a larger number, or end what is not "
		           "needed.",
		           "The user may have %llu threads, and has %llu; a "
		           "run needs some %llu.",
		           (unsigned long long)limit.rlim_cur,
		           (unsigned long long)used, (unsigned long long)need);
}

static void check_stack(struct check *c)
{
	const int version = c->is_probed ? c->probed.info.nccl_version : 0;
	struct rlimit limit;

	if (getrlimit(RLIMIT_STACK, &limit) != 0)
		return;
	if (limit.rlim_cur == RLIM_INFINITY && version < 22803)
		check_tell(c, CHECK_WARNING, LIMITS, "stack", "ulimit -s 8192",
		           "The stack is unlimited, so glibc gives NCCL's "
		           "threads 2 MiB only, with which an init of NCCL "
		           "before 2.28 may crash.  Known from: NCCL 2.27.6 "
		           "release notes.");
	else if (limit.rlim_cur < 2 * MIB)
		check_tell(c, CHECK_WARNING, LIMITS, "stack", "ulimit -s 8192",
		           "Threads get %llu KiB of stack; NCCL's search for "
		           "rings may need more than 2 MiB.",
		           (unsigned long long)limit.rlim_cur / 1024);
}

/* The driver pins memory without regard to the limit; network cards do not. */
static void check_locked(struct check *c)
{
	struct rlimit limit;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys/class/infiniband", c->root);
	if (access(path, F_OK) != 0 || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
	    !is_less(limit.rlim_cur, 1024 * MIB))
		return;
	check_tell(c, CHECK_WARNING, LIMITS, "memlock",
	           "ulimit -l unlimited; in a container --ulimit memlock=-1.",
	           "A process may lock %llu KiB of memory, and there are "
	           "InfiniBand devices, for which NCCL locks its buffers.",
	           (unsigned long long)limit.rlim_cur / 1024);
}

static void check_limits(struct check *c)
{
	const unsigned before = check_troubles(c);

	check_files(c);
	check_locked(c);
	check_threads(c);
	check_stack(c);
	if (check_troubles(c) == before)
		check_tell(c, CHECK_OK, LIMITS, NULL, NULL,
		           "open files, locked memory, threads and stack are "
		           "enough for %d rank%s",
		           check_devices(c), check_devices(c) == 1 ? "" : "s");
}

void check_system(struct check *c)
{
	check_shared_memory(c);
	check_limits(c);
}
