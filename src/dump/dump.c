/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/dump.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/json.h"
#include "base/outfile.h"
#include "base/pages.h"
#include "dump/chrome.h"
#include "dump/flight_json.h"

/* Name of a file that is created and removed to test whether files can be
 * created in a directory. */
#define PROBE "fr_probe"

#define BUFFER_BYTES ((size_t)1 << 20)

/* Maximum number of files that are open at a time.  They are flushed together,
 * because flushing each file before the next one is written would be slow. */
#define OPEN_FILES 32

/* Buffer for directory entries, which are read without using the heap. */
#define ENTRIES_BYTES 4096

/* Data that is too large for a thread's stack. */
struct workspace {
	char buffer[BUFFER_BYTES];

	/* Files that are written but not ended yet, in the order of
	 * begin_file(). */
	struct outfile files[OPEN_FILES];
	int n;
};

struct dump {
	const struct flight *flight;
	int dir;
	struct workspace *space;
	size_t most; /* maximum entries per rank in a file about all ranks */
	int err;     /* first error, or 0 */
	char *what;  /* file or directory with that error */
	size_t what_size;
};

static void end_files(struct dump *d)
{
	struct workspace *w = d->space;
	int i, err;

	for (i = 0; i < w->n; i++) {
		err = outfile_end(&w->files[i]);
		if (!err || d->err)
			continue;
		d->err = err;
		snprintf(d->what, d->what_size, "%s", w->files[i].name);
	}
	w->n = 0;
}

/* Start the next file.  If too many files are open, end them first. */
static struct outfile *begin_file(struct dump *d, const char *name)
{
	struct workspace *w = d->space;
	struct outfile *file;

	if (w->n == OPEN_FILES)
		end_files(d);
	file = &w->files[w->n];
	outfile_begin(file, d->dir, name, w->buffer, BUFFER_BYTES);
	if (file->err && w->n) {
		end_files(d);
		file = &w->files[0];
		outfile_begin(file, d->dir, name, w->buffer, BUFFER_BYTES);
	}
	w->n++;
	return file;
}

/* Replace all characters that may be invalid in a file name, because names from
 * the program may contain any bytes. */
static void sanitize_name(char *at)
{
	for (; *at; at++)
		if (!(*at >= 'a' && *at <= 'z') &&
		    !(*at >= 'A' && *at <= 'Z') &&
		    !(*at >= '0' && *at <= '9') && !strchr("._-", *at))
			*at = '_';
}

const char *dump_mark(unsigned verdict_number, char mark[DUMP_MARK])
{
	mark[0] = '\0';
	if (!verdict_number)
		snprintf(mark, DUMP_MARK, "_asked");
	else if (verdict_number > 1)
		snprintf(mark, DUMP_MARK, "_v%u", verdict_number);
	return mark;
}

/* Start the dump file whose name contains @what, such as "merged". */
static struct json begin_json(struct dump *d, const char *what)
{
	char name[sizeof(((struct outfile *)0)->name)], mark[DUMP_MARK];
	const struct flight *f = d->flight;

	snprintf(name, sizeof(name), "fr_%s_g%d_%s.%d.%u%s_%s.json", f->group,
	         f->generation, f->host, f->pid, f->serial,
	         dump_mark(f->verdict_number, mark), what);
	sanitize_name(name);
	return (struct json){ .file = begin_file(d, name) };
}

static void end_json(struct json *j)
{
	outfile_put(j->file, "\n", 1);
	outfile_send(j->file);
}

/* Flush the names of the files to disk, if the file system supports that. */
static int flush_directory(int dir)
{
	if (!fsync(dir) || errno == EINVAL || errno == ENOTSUP ||
	    errno == EOPNOTSUPP)
		return 0;
	return errno;
}

/* Write all files, even after an error.  Rank files come first, because the
 * other files can be made from rank files. */
static void write_all(struct dump *d)
{
	const struct flight *f = d->flight;
	const struct flight_rank *r;
	struct json j;
	char what[32];

	for (r = f->ranks; r < f->ranks + f->size; r++) {
		snprintf(what, sizeof(what), "rank_%d", r->rank);
		j = begin_json(d, what);
		flight_json_rank(&j, f, r);
		end_json(&j);
	}
	j = begin_json(d, "merged");
	flight_json_merged(&j, f, d->most);
	end_json(&j);
	j = begin_json(d, "chrome");
	chrome_write(&j, f, d->most);
	end_json(&j);
	end_files(d);
	if (!d->err)
		d->err = flush_directory(d->dir);
}

/* Create a directory and its missing parents.  Return 0, or the errno value of
 * the first mkdir() that failed.  The directory may exist even then, because
 * mkdir() can fail for a parent that exists. */
static int make_directory(const char *path)
{
	const char *end = path + (*path == '/');
	char part[PATH_MAX];

	if (strlen(path) >= sizeof(part))
		return ENAMETOOLONG;
	do {
		end = strchrnul(end, '/');
		snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
		if (mkdir(part, 0777) && errno != EEXIST)
			return errno;
	} while (*end++);
	return 0;
}

/* Open a directory, which is created if it is missing.  Return a descriptor, or
 * a negative errno value. */
static int open_directory(const char *path)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;

	if (dir >= 0 || errno != ENOENT)
		return dir >= 0 ? dir : -errno;
	err = make_directory(path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		return dir;
	return err ? -err : -errno;
}

/* Return the process id in ".fr_..._HOST.PID.SERIAL_WHAT.json.PID-COUNT", or 0
 * if the name does not have this form. */
static int process_of(const char *name, const char *host)
{
	const char *end = strrchr(name, '.');
	char of[128], more;
	unsigned count;
	int pid;

	if (strncmp(name, ".fr_", 4) != 0 ||
	    sscanf(end, ".%d-%u%c", &pid, &count, &more) != 2)
		return 0;
	snprintf(of, sizeof(of), "_%s.%d.", host, pid);
	return strstr(name, of) ? pid : 0;
}

/* Return true if no process is writing the file.  The writer holds a lock on
 * the file, which works even if the writer is in another container. */
static bool is_free(int dir, const char *name)
{
	int fd = openat(dir, name,
	                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool is_it = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB);

	if (fd >= 0)
		close(fd);
	return is_it;
}

/* Remove temporary files that processes of this host have left and that no
 * process is writing.  Allocates no memory.  Files that cannot be removed
 * stay. */
static void remove_stale(const struct dump *d)
{
	_Alignas(struct dirent64) char entries[ENTRIES_BYTES];
	int fd = openat(d->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char host[sizeof(d->flight->host)];
	const struct dirent64 *entry;
	long n, at;
	int pid;

	snprintf(host, sizeof(host), "%s", d->flight->host);
	sanitize_name(host);
	while (fd >= 0 &&
	       (n = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
		for (at = 0; at < n; at += entry->d_reclen) {
			entry = (const void *)(entries + at);
			pid = process_of(entry->d_name, host);
			if (pid > 0 && thread_process_is_gone(pid) &&
			    is_free(d->dir, entry->d_name))
				unlinkat(d->dir, entry->d_name, 0);
		}
	if (fd >= 0)
		close(fd);
}

int dump_try(const char *directory)
{
	int dir = open_directory(directory), err;
	struct outfile probe;

	if (dir < 0)
		return -dir;
	outfile_begin(&probe, dir, PROBE, NULL, 0);
	err = outfile_discard(&probe);
	close(dir);
	return err;
}

int dump_write(const struct flight *f, const char *directory, char *what,
               size_t size)
{
	struct dump d = { .flight = f, .what = what, .what_size = size };

	snprintf(what, size, "%s", directory);
	d.most = DUMP_MERGED / (size_t)f->size;
	d.dir = open_directory(directory);
	if (d.dir < 0)
		return -d.dir;
	d.space = pages_alloc(sizeof(*d.space));
	if (d.space) {
		write_all(&d);
		remove_stale(&d);
		pages_free(d.space, sizeof(*d.space));
	} else {
		d.err = ENOMEM;
	}
	close(d.dir);
	return d.err;
}
