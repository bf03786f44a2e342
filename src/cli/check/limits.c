/* SPDX-License-Identifier: Apache-2.0 */

/* Checks the limits of the machine, its containers, control groups and system
 * call filters against a table of what a run needs */

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "base/util.h"
#include "cli/check/check.h"

#define MIB (1 << 20)
#define SHM "/dev/shm"
#define CGROUP "/sys/fs/cgroup"

/* The maximum that a limit allows, and how much of it is in use. If the limit
 * has no unit, @most is 1 if the check passed and 0 if it failed. */
struct reading {
	const struct check *c;
	const struct limit *limit;
	double most, used; /* INFINITY and 0 if no limit is known */
	char found[128];   /* why @most is 0, or what was found, or "" */
};

struct limit {
	const char *check, *subject; /* the subject can be "" */
	/* returns whether the limit applies; NULL if it always does */
	bool (*applies)(const struct check *c);
	void (*read)(struct reading *r);
	int resource; /* argument of getrlimit() or syscall() */

	/* Amounts below which there is an error or a warning: a constant, an
	 * amount per rank, and an amount per pair of ranks */
	double error[3], warning[3];
	/* text after the amount, such as "open files are allowed"; NULL if the
	 * limit only passes or fails */
	const char *unit;
	const char *breaks, *remedy;
};

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

/* Return whether the process can use the file. If it cannot, errno says why. */
static bool may_use(const struct check *c, const char *path, int how)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s%s", c->root, path);
	return access(full, how) == 0;
}

/* Return the files whose names match a pattern. The caller calls globfree(). */
static glob_t find_files(const char *at, const char *pattern)
{
	char full[PATH_MAX];
	glob_t files = { .gl_pathc = 0 };

	snprintf(full, sizeof(full), "%s%s", at, pattern);
	glob(full, GLOB_NOSORT | GLOB_BRACE, NULL, &files);
	return files;
}

static int count_files(const struct check *c, const char *pattern)
{
	glob_t files = find_files(c->root, pattern);
	const int n = (int)files.gl_pathc;

	globfree(&files);
	return n;
}

int check_gpus(const struct check *c)
{
	return count_files(c, "/proc/driver/nvidia/gpus/*");
}

const char *check_no_driver(const struct check *c)
{
	if (!check_wants_gpus(c))
		return "No GPU was requested.";
	return may_use(c, "/proc/driver/nvidia/version", F_OK)
	               ? NULL
	               : "NVIDIA's driver is not loaded.";
}

static void set_found(struct reading *r, bool is_well, int error)
{
	r->most = is_well;
	if (!is_well && error)
		snprintf(r->found, sizeof(r->found), "%s", strerror(error));
}

static void read_permission(struct reading *r)
{
	const bool may = may_use(r->c, r->limit->subject, R_OK | W_OK);

	set_found(r, may, errno);
}

static void read_gpus(struct reading *r)
{
	const int all = check_gpus(r->c),
		  here = count_files(r->c, "/dev/nvidia[0-9]*");

	r->most = here >= all;
	snprintf(r->found, sizeof(r->found), "%d of %d GPUs", here,
	         MAX(here, all));
}

/* Create a file in shared memory, as NCCL and the library do. */
static void read_shm_permission(struct reading *r)
{
	char name[64];
	int fd, error;

	snprintf(name, sizeof(name), SHM "/cohort-check-%d", (int)getpid());
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	error = fd < 0 ? errno : posix_fallocate(fd, 0, 4096);
	if (fd >= 0) {
		unlink(name);
		close(fd);
	}
	set_found(r, !error, error);
}

static void read_free_bytes(struct reading *r)
{
	struct statvfs fs;

	if (statvfs(SHM, &fs) == 0)
		r->most = (double)fs.f_bavail * (double)fs.f_frsize;
}

static void read_resource(struct reading *r)
{
	struct rlimit limit;

	if (getrlimit(r->limit->resource, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY)
		r->most = (double)limit.rlim_cur;
}

/* Read the limit of this user's threads, which does not apply to root, and
 * count the user's threads. */
static void read_threads(struct reading *r)
{
	struct stat thread;
	glob_t files;

	if (geteuid() != 0)
		read_resource(r);
	if (r->most == INFINITY)
		return;
	files = find_files("", "/proc/[1-9]*/task/*");
	for (size_t i = 0; i < files.gl_pathc; i++)
		r->used += stat(files.gl_pathv[i], &thread) == 0 &&
		           thread.st_uid == getuid();
	globfree(&files);
}

/* Return the number in a file, or the quotient if there are two numbers. Return
 * INFINITY for "max", for the number of pages that means no limit in control
 * groups version 1, or if the file cannot be read. */
static double read_number(const struct check *c, const char *folder,
                          const char *name)
{
	char path[PATH_MAX + 64], text[64];
	double number, by = 1;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (check_read(c, path, text, sizeof(text)) <= 0 ||
	    sscanf(text, "%lf %lf", &number, &by) < 1 || number >= 0x1p62)
		return INFINITY;
	return number / by;
}

/* Return the size of a control group's page cache, which the kernel frees when
 * memory is needed. In version 1, only counters with the prefix "total_"
 * include child groups. */
static double read_cache(const struct check *c, const char *folder,
                         const char *prefix)
{
	static const char *const names[] = { "active_file", "inactive_file" };
	char path[PATH_MAX + 64], text[8192], name[64];
	double sum = 0;
	const char *at;

	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	if (check_read(c, path, text, sizeof(text)) <= 0)
		return 0;
	for (int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "\n%s%s ", prefix, names[i]);
		at = strstr(text, name);
		sum += at ? strtod(at + strlen(name), NULL) : 0;
	}
	return sum;
}

/* Find the folder of the process's control group for @controller (version 1)
 * or, if @controller is "", for version 2. */
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
		if (strcmp(second + 1, controller) != 0)
			continue;
		snprintf(out, PATH_MAX, CGROUP "%s%s%s", *controller ? "/" : "",
		         controller, strcmp(third, "/") == 0 ? "" : third);
		return true;
	}
	return false;
}

/* Find the tightest limit among the process's control group and all of its
 * parents. */
static void read_group(struct reading *r, const char *controller,
                       const char *most, const char *used)
{
	char folder[PATH_MAX];
	double is, uses;

	if (!find_folder(r->c, controller, folder))
		return;
	/* In a container, the path can be that of the host, which does not
	 * exist here. */
	while (strncmp(folder, CGROUP, strlen(CGROUP)) == 0) {
		is = read_number(r->c, folder, most);
		uses = used ? read_number(r->c, folder, used) : 0;
		if (strncmp(most, "memory.", 7) == 0)
			uses -= read_cache(r->c, folder,
			                   *controller ? "total_" : "");
		if (uses == INFINITY || uses < 0)
			uses = 0;
		if (is - uses < r->most - r->used) {
			r->most = is;
			r->used = uses;
		}
		*strrchr(folder, '/') = '\0';
	}
}

static void read_group_threads(struct reading *r)
{
	read_group(r, "", "pids.max", "pids.current");
	read_group(r, "pids", "pids.max", "pids.current");
}

static void read_group_memory(struct reading *r)
{
	read_group(r, "", "memory.max", "memory.current");
	read_group(r, "memory", "memory.limit_in_bytes",
	           "memory.usage_in_bytes");
}

static void read_cores(struct reading *r)
{
	cpu_set_t set;

	read_group(r, "", "cpu.max", NULL);
	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) == 0 &&
	    CPU_COUNT(&set) < r->most)
		r->most = CPU_COUNT(&set);
}

/* Try the system call @r->limit->resource, which returns 0 or a file. */
static void try_call(struct reading *r)
{
	const int call = r->limit->resource;
	const long rc = call == SYS_memfd_create
	                        ? syscall(call, "cohort-check", MFD_CLOEXEC)
	                : call == SYS_pidfd_open
	                        ? syscall(call, getpid(), 0)
	                        : syscall(call, NULL, NULL, 0UL, NULL, 0UL);

	set_found(r, rc >= 0, errno);
	if (rc > 0)
		close((int)rc);
}

static void try_own_syscall(struct reading *r)
{
	char text[256];

	set_found(r,
	          check_read(r->c, r->limit->subject, text, sizeof(text)) > 0,
	          errno);
}

static bool has_driver(const struct check *c)
{
	return !check_no_driver(c);
}

static bool has_device_files(const struct check *c)
{
	return has_driver(c) && may_use(c, "/dev/nvidiactl", R_OK | W_OK) &&
	       may_use(c, "/dev/nvidia-uvm", R_OK | W_OK);
}

/* Return whether there are InfiniBand devices. Their driver obeys the limit of
 * locked memory; NVIDIA's driver does not. */
static bool has_infiniband(const struct check *c)
{
	return may_use(c, "/sys/class/infiniband", F_OK);
}

#define MORE_SHM                                                               \
	"In a container: --shm-size=1g; otherwise mount " SHM                  \
	" with a larger "                                                      \
	"size."
#define MORE_FILES                                                             \
	"ulimit -n 4096; an administrator raises the hard limit, as in "       \
	"/etc/security/limits.d, or with --ulimit nofile=N."
#define NO_GPU "the driver is loaded, but this process has no GPU"
#define MORE_GPUS                                                              \
	"Start the container with GPUs, as with --gpus all, or add the "       \
	"user to the file's group; on the host run nvidia-modprobe -u -c 0."
#define ALLOW                                                                  \
	"Allow it in the container's filter of system calls (seccomp); for "   \
	"memory policies: --cap-add SYS_NICE."

#define NEED(least, for_rank, for_pair)                                        \
	{                                                                      \
		least, for_rank, for_pair                                      \
	}
#define NOTHING NEED(0, 0, 0)

/* The limits. Rows of one check are adjacent, and so are rows of one limit. */
static const struct limit limits[] = {
	{ "shared-memory", "", NULL, read_shm_permission, 0, NEED(1, 0, 0),
	  NOTHING, NULL,
	  SHM
	  ": processes of a machine cannot find each other, and NCCL cannot "
	  "exchange data through the host",
	  "Mount a tmpfs on " SHM " that is writable for every user." },
	{ "shared-memory", "", NULL, read_free_bytes, 0, NEED(1, 0, 0), NOTHING,
	  "MiB are left in " SHM, "processes of a machine cannot open a group",
	  MORE_SHM },
	/* A shared memory segment of NCCL has 10 MiB with its default buffers.
	 * Two ranks without a direct path use one segment for each
	 * direction. */
	{ "shared-memory", "", check_is_nvidia, read_free_bytes, 0,
	  NEED(10, 0, 0), NEED(0, 20, 0), "MiB are left in " SHM,
	  "the creation of a communicator may fail if ranks have no direct "
	  "path",
	  MORE_SHM },

	/* NCCL opens sockets and files for each rank and each pair of ranks.
	 * The simulator opens none. */
	{ "limits", "nofile", check_is_nvidia, read_resource, RLIMIT_NOFILE,
	  NEED(64, 16, 0), NEED(128, 32, 4), "open files are allowed",
	  "the creation of a communicator may fail", MORE_FILES },
	{ "limits", "nofile", NULL, read_resource, RLIMIT_NOFILE, NOTHING,
	  NEED(64, 1, 0), "open files are allowed", "opening a group may fail",
	  MORE_FILES },
	{ "limits", "memlock", has_infiniband, read_resource, RLIMIT_MEMLOCK,
	  NOTHING, NEED(1024, 0, 0), "MiB may be locked",
	  "NCCL may fail to lock its buffers for InfiniBand devices",
	  "ulimit -l unlimited; in a container --ulimit memlock=-1." },
	{ "limits", "nproc", NULL, read_threads, RLIMIT_NPROC, NOTHING,
	  NEED(64, 16, 0), "threads are left for the user",
	  "opening a group may fail",
	  "Raise ulimit -u, or end other programs." },

	{ "device-files", "/dev/nvidiactl", has_driver, read_permission, 0,
	  NEED(1, 0, 0), NOTHING, NULL, NO_GPU, MORE_GPUS },
	{ "device-files", "/dev/nvidia-uvm", has_driver, read_permission, 0,
	  NEED(1, 0, 0), NOTHING, NULL, NO_GPU, MORE_GPUS },
	{ "device-files", "", has_device_files, read_gpus, 0, NOTHING,
	  NEED(1, 0, 0), NULL, "the others cannot be used",
	  "To use them all, start the container with all of them." },

	{ "cgroup", "pids", NULL, read_group_threads, 0, NEED(16, 4, 0),
	  NEED(64, 16, 0), "threads are left for the control group",
	  "opening a group may fail",
	  "Raise the limit: --pids-limit, TasksMax=, or pids.max." },
	/* Simulated devices use only the memory that programs allocate, and
	 * their ranks are meant to share cores. */
	{ "cgroup", "memory", check_is_real, read_group_memory, 0, NOTHING,
	  NEED(0, 512, 0), "MiB are left for the control group",
	  "CUDA's contexts and NCCL's buffers may not fit",
	  "Raise the limit: --memory, MemoryMax=, or memory.max." },
	{ "cgroup", "cpu", check_is_real, read_cores, 0, NOTHING, NEED(0, 1, 0),
	  "cores are allowed", "ranks share cores and delay each other",
	  "Give the process a core for each rank, and one more." },

	{ "system-calls", "memfd_create", NULL, try_call, SYS_memfd_create,
	  NEED(1, 0, 0), NOTHING, NULL,
	  "processes of a machine cannot share memory", ALLOW },
	{ "system-calls", "pidfd_open", NULL, try_call, SYS_pidfd_open, NOTHING,
	  NEED(1, 0, 0), NULL, "the end of another process is detected late",
	  ALLOW },
	{ "system-calls", "get_mempolicy", check_is_real, try_call,
	  SYS_get_mempolicy, NOTHING, NEED(1, 0, 0), NULL,
	  "NCCL's host memory comes from " SHM
	  ", and before 2.26.3 the creation of a communicator may fail",
	  ALLOW },
	{ "system-calls", "/proc/self/syscall", NULL, try_own_syscall, 0,
	  NOTHING, NEED(1, 0, 0), NULL,
	  "verdicts do not say what a missing rank's thread waits for", ALLOW },
};

static void add_amount(struct text *t, double amount)
{
	text_add(t, amount < 1000 ? "%.3g" : "%.0f", MAX(amount, 0));
}

static double needed(const double of[3], double ranks)
{
	return of[0] + of[1] * ranks + of[2] * ranks * ranks;
}

/* Check a limit. If it does not allow what a run needs, report it and return
 * false. Otherwise append the allowed amount to @enough. */
static bool check_limit(struct check *c, const struct limit *l,
                        char enough[1024])
{
	struct reading r = { .c = c, .limit = l, .most = INFINITY };
	const double ranks = check_devices(c);
	char what[256];
	struct text t = { what, sizeof(what) };
	double left, need = needed(l->error, ranks);
	bool fails;

	l->read(&r);
	left = r.most - r.used;
	if (l->unit && strncmp(l->unit, "MiB", 3) == 0)
		left /= MIB;
	fails = left < need;
	if (!fails)
		need = needed(l->warning, ranks);
	text_add(&t, "%s", r.found);
	if (l->unit && left != INFINITY) {
		add_amount(&t, left);
		text_add(&t, " %s", l->unit);
	}
	if (left >= need) {
		if (what[0] && !strstr(enough, what))
			text_append(enough, 1024, "; %s", what);
		return true;
	}
	if (l->unit) {
		text_add(&t, ", but a run of %g rank%s needs about ", ranks,
		         ranks == 1 ? "" : "s");
		add_amount(&t, need);
		text_add(&t, "; otherwise ");
	} else if (what[0]) {
		text_add(&t, ": ");
	}
	check_report(c, fails ? CHECK_ERROR : CHECK_WARNING, l->check,
	             *l->subject ? l->subject : NULL, l->remedy, "%s%s.", what,
	             l->breaks);
	return false;
}

/* Check all rows of one check, starting at @l. Return the row after them. */
static const struct limit *check_rows(struct check *c, const struct limit *l)
{
	const unsigned before = check_troubles(c);
	const struct limit *first = l;
	const char *failed = "-";
	bool any = false;
	char enough[1024];

	text_set(enough, sizeof(enough), "enough for %d rank%s",
	         check_devices(c), check_devices(c) == 1 ? "" : "s");
	for (; l < limits + ARRAY_SIZE(limits) &&
	       strcmp(l->check, first->check) == 0;
	     l++) {
		if ((l->applies && !l->applies(c)) ||
		    strcmp(failed, l->subject) == 0)
			continue;
		any = true;
		if (!check_limit(c, l, enough))
			failed = l->subject;
	}
	if (!any)
		check_skip(c, first->check, "%s", check_no_driver(c));
	else if (check_troubles(c) == before)
		check_ok(c, first->check, "%s", enough);
	return l;
}

void check_limits(struct check *c)
{
	const struct limit *l = limits;

	while (l < limits + ARRAY_SIZE(limits))
		l = check_rows(c, l);
}
