/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/dump.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

/* A file that is made and removed to see whether files can be made in a
 * directory. */
#define PROBE "fr_probe"

#define BUFFER_BYTES ((size_t)1 << 20)

/* Files that are open at a time.  If there was only one, each would wait for
 * the disk. */
#define OPEN_FILES 32

/* Bytes for the entries of a directory, which are read without the heap. */
#define ENTRIES_BYTES 4096

/* ---- files ------------------------------------------------------------ */

/* What is too large for a thread's stack. */
struct workspace {
	char buffer[BUFFER_BYTES];

	/* Files that are written and not yet ended, in this order. */
	struct outfile files[OPEN_FILES];
	int n;
};

struct dump {
	const struct flight *flight;
	int dir;
	struct workspace *space;
	size_t most; /* entries of each rank in files on all ranks */
	char description[32];
	int err;    /* the first error, 0: none */
	char *what; /* the file or directory with that error */
	size_t what_size;
};

/* Flush the open files, and give them their names. */
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

/* Begin the next file.  If there is no room for it, end the open files
 * first. */
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

/* Make a name fit for a file: the program may have put any bytes in it. */
static void make_plain(char *at)
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

void dump_name(const struct flight *f, const char *what, char *name,
               size_t size)
{
	char mark[DUMP_MARK];

	snprintf(name, size, "fr_%s_g%d_%s.%d.%u%s_%s.json", f->group,
	         f->generation, f->host, f->pid, f->serial,
	         dump_mark(f->verdict_number, mark), what);
	make_plain(name);
}

/* Begin the file on @what. */
static struct json begin_json(struct dump *d, const char *what)
{
	char name[sizeof(((struct outfile *)0)->name)];

	dump_name(d->flight, what, name, sizeof(name));
	return (struct json){ .file = begin_file(d, name) };
}

static void end_json(struct json *j)
{
	outfile_put(j->file, "\n", 1);
	outfile_send(j->file);
}

/* Flush the directory.  Not every file system can. */
static int flush_directory(int dir)
{
	if (!fsync(dir) || errno == EINVAL || errno == ENOTSUP ||
	    errno == EOPNOTSUPP)
		return 0;
	return errno;
}

/* Write all files, also after an error.  Ranks come first, because the other
 * files can be made from theirs. */
static void write_all(struct dump *d)
{
	const struct flight *f = d->flight;
	const struct flight_rank *r;
	struct json j;
	char what[32];

	for (r = f->ranks; r < f->ranks + f->size; r++) {
		snprintf(what, sizeof(what), "rank_%d", r->rank);
		j = begin_json(d, what);
		flight_json_rank(&j, f, r, d->description);
		end_json(&j);
	}
	j = begin_json(d, "merged");
	flight_json_merged(&j, f, d->most, d->description);
	end_json(&j);
	j = begin_json(d, "chrome");
	chrome_write(&j, f, d->most);
	end_json(&j);
	end_files(d);
	/* Flush the names of the files, too. */
	if (!d->err)
		d->err = flush_directory(d->dir);
}

/* ---- directories ------------------------------------------------------ */

/* Make one directory.  Returns 0 or an errno. */
static int make_one(const char *path)
{
	return mkdir(path, 0777) && errno != EEXIST ? errno : 0;
}

/* Make a directory with its parents.  Returns the first errno, which may be
 * about a parent that is there. */
static int make_directory(const char *path)
{
	char part[PATH_MAX];
	char *at;
	int err = 0;

	if (strlen(path) >= sizeof(part))
		return ENAMETOOLONG;
	strcpy(part, path);
	for (at = part + 1; *part && *at && !err; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		err = make_one(part);
		*at = '/';
	}
	return err ? err : make_one(path);
}

/* Open a directory, and make it if it is missing.  Returns a descriptor, or a
 * negative errno. */
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

/* ---- what dead processes have left ------------------------------------ */

/* Where a number begins that ends the @n bytes at @text and follows @before; 0:
 * there is none. */
static size_t number_at_end(const char *text, size_t n, char before)
{
	size_t at = n;

	while (at && text[at - 1] >= '0' && text[at - 1] <= '9')
		at--;
	return at < n && at && text[at - 1] == before ? at : 0;
}

/* The process id in ".fr_..._HOST.PID.SERIAL_WHAT.json.PID-COUNT"; 0: the name
 * is not of this form. */
static int process_of(const char *name, const char *host)
{
	char of[128];
	size_t n = strlen(name), at;
	int pid;

	if (strncmp(name, ".fr_", 4) != 0)
		return 0;
	at = number_at_end(name, n, '-');
	at = at ? number_at_end(name, at - 1, '.') : 0;
	if (!at)
		return 0;
	pid = atoi(name + at);
	snprintf(of, sizeof(of), "_%s.%d.", host, pid);
	return strstr(name, of) ? pid : 0;
}

static bool is_gone(int pid)
{
	return pid > 0 && kill(pid, 0) && errno == ESRCH;
}

/* True if no process writes the file.  Its writer has it locked, even one that
 * cannot be seen from here. */
static bool is_free(int dir, const char *name)
{
	int fd = openat(dir, name,
	                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool is_it = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB);

	if (fd >= 0)
		close(fd);
	return is_it;
}

/* Remove temporary files that processes of @host have left in @dir and that no
 * process has open to write.  Takes no memory; what cannot be removed stays. */
static void sweep(int dir, const char *host)
{
	_Alignas(struct dirent64) char entries[ENTRIES_BYTES];
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent64 *entry;
	long n, at;

	while (fd >= 0 &&
	       (n = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
		for (at = 0; at < n; at += entry->d_reclen) {
			entry = (const void *)(entries + at);
			if (is_gone(process_of(entry->d_name, host)) &&
			    is_free(dir, entry->d_name))
				unlinkat(dir, entry->d_name, 0);
		}
	if (fd >= 0)
		close(fd);
}

/* Remove what processes of this machine that are gone have left. */
static void sweep_directory(const struct dump *d)
{
	char host[sizeof(d->flight->host)];

	snprintf(host, sizeof(host), "%s", d->flight->host);
	make_plain(host);
	sweep(d->dir, host);
}

/* ---- dumps ------------------------------------------------------------ */

int dump_try(const char *directory)
{
	int dir = open_directory(directory), err;
	struct outfile probe;

	if (dir < 0)
		return -dir;
	outfile_begin(&probe, dir, PROBE, NULL, 0);
	err = outfile_drop(&probe);
	close(dir);
	return err;
}

int dump_write(const struct flight *f, const char *directory, char *what,
               size_t size)
{
	struct dump d = { .flight = f, .what = what, .what_size = size };

	snprintf(what, size, "%s", directory);
	d.most = DUMP_MERGED / (size_t)f->size;
	snprintf(d.description, sizeof(d.description), "generation %d",
	         f->generation);
	d.dir = open_directory(directory);
	if (d.dir < 0)
		return -d.dir;
	d.space = pages_alloc(sizeof(*d.space));
	if (d.space) {
		write_all(&d);
		sweep_directory(&d);
		pages_free(d.space, sizeof(*d.space));
	} else {
		d.err = ENOMEM;
	}
	close(d.dir);
	return d.err;
}
