/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: requests dumps through a FIFO, and reads the files that arrive
 *
 * A file is an answer if it has changed since the last check. A dump replaces
 * the whole file, so a file with another inode or time is new and complete.
 */

#include "cli/top/top.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"
#include "cli/common/cli.h"

/* Number of operations to read from one dump, over all its ranks, and the
 * smallest number to read for one rank */
#define OPERATIONS 2048
#define RANK_LEAST 64

#define ASKED "_asked" TRACE_MERGED

/* Open a FIFO that some process has open for reading. Return -1 with errno on
 * failure. */
static int open_fifo(const char *path)
{
	struct stat status;
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || (!fstat(fd, &status) && S_ISFIFO(status.st_mode)))
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

enum feed_answer feed_ask(const struct feed *f)
{
	int fd = open_fifo(f->fifo), err = 0;

	if (fd < 0)
		return errno == ENXIO || errno == ENOENT ? FEED_NOBODY
		                                         : FEED_FAILED;
	/* The last reader may close the FIFO between open() and write(). */
	if (write_quietly(fd, "\n", 1, SIGPIPE, EPIPE) != 1)
		err = errno;
	close(fd);
	errno = err;
	/* If the FIFO is full, an earlier request is still unread. */
	return !err || err == EAGAIN ? FEED_ASKED
	       : err == EPIPE        ? FEED_NOBODY
	                             : FEED_FAILED;
}

static int take_operand(struct feed *f, const char *path)
{
	struct stat status;
	bool is_folder;
	const char **to;

	if (stat(path, &status))
		return cli_fail("'%s': %s", path, strerror(errno));
	is_folder = S_ISDIR(status.st_mode);
	if (!is_folder && !S_ISFIFO(status.st_mode))
		return cli_fail("'%s' is neither a FIFO nor a directory", path);
	to = is_folder ? &f->directory : &f->fifo;
	if (*to)
		return cli_misuse("'%s': a second %s", path,
		                  is_folder ? "directory" : "FIFO");
	*to = path;
	return CLI_OK;
}

/* If the FIFO is not known yet, find a FIFO in the folder that some process has
 * open for reading. Return true even if there is none. Return false after
 * printing an error. */
static bool find_fifo(struct feed *f)
{
	char path[sizeof(f->found)];
	struct dirent *entry;
	DIR *folder;
	int fd;

	if (f->fifo || !f->directory)
		return true;
	folder = opendir(f->directory);
	if (!folder) {
		cli_error("'%s': %s", f->directory, strerror(errno));
		return false;
	}
	while ((entry = readdir(folder))) {
		if (entry->d_type != DT_FIFO && entry->d_type != DT_UNKNOWN)
			continue;
		snprintf(path, sizeof(path), "%s/%s", f->directory,
		         entry->d_name);
		fd = open_fifo(path);
		if (fd < 0)
			continue;
		close(fd);
		if (f->fifo)
			break;
		f->fifo = strcpy(f->found, path);
	}
	closedir(folder);
	if (entry)
		cli_error("'%s' has several FIFOs, '%s' and '%s': name one",
		          f->directory, f->fifo, path);
	return !entry;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* Check the FIFO and the folder, so that a mistake in either is reported
 * immediately. */
static int check(struct feed *f)
{
	int fd = open_fifo(f->fifo), err = errno;

	if (fd < 0)
		return cli_fail("FIFO '%s': %s", f->fifo,
		                err == ENXIO    ? "no running group has it open"
		                : err == EINVAL ? "not a FIFO"
		                                : strerror(err));
	close(fd);
	if (feed_poll(f))
		return CLI_OK;
	return cli_fail("'%s': %s", f->directory, strerror(errno));
}

int feed_open(struct feed *f, char *const *operands, int n)
{
	int status;

	for (int i = 0; i < n; i++) {
		status = take_operand(f, operands[i]);
		if (status != CLI_OK)
			return status;
	}
	if (!find_fifo(f))
		return CLI_FAILED;
	if (!f->fifo)
		f->fifo = variable("COHORT_DUMP_FIFO");
	if (!f->directory)
		f->directory = variable("COHORT_DUMP_DIR");
	if (!find_fifo(f))
		return CLI_FAILED;
	if (!f->fifo && f->directory)
		return cli_fail("no running group has a FIFO in '%s', and "
		                "COHORT_DUMP_FIFO is not set",
		                f->directory);
	if (!f->fifo)
		return cli_misuse(
			"no FIFO given: name one, or set COHORT_DUMP_FIFO");
	if (!f->directory) {
		snprintf(f->found, sizeof(f->found), "%s", f->fifo);
		f->directory = dirname(f->found);
	}
	return check(f);
}

void feed_drop(struct trace *t)
{
	if (t)
		trace_free(t);
	free(t);
}

void feed_close(struct feed *f)
{
	struct top_dump *d;

	while ((d = f->dumps)) {
		f->dumps = d->next;
		feed_drop(d->trace);
		if (d->pidfd >= 0)
			close(d->pidfd);
		free(d);
	}
}

static struct top_dump *find_dump(struct feed *f, const char *file)
{
	struct top_dump **d = &f->dumps;

	while (*d && strcmp((*d)->file, file) != 0)
		d = &(*d)->next;
	if (!*d) {
		*d = cli_need(calloc(1, sizeof(**d)));
		snprintf((*d)->file, sizeof((*d)->file), "%s", file);
		(*d)->pidfd = -1;
	}
	return *d;
}

struct trace *feed_read(const struct feed *f, const char *file, size_t most)
{
	char path[PATH_MAX + NAME_MAX + 2], *paths[] = { path };
	struct trace *t = cli_need(calloc(1, sizeof(*t)));

	snprintf(path, sizeof(path), "%s/%s", f->directory, file);
	trace_gather(t, paths, 1, most);
	return t;
}

static size_t most_of(const struct top_dump *d)
{
	const size_t ranks = d->trace ? (size_t)d->trace->flight.size : 8;

	return ranks < OPERATIONS / RANK_LEAST ? OPERATIONS / ranks
	                                       : RANK_LEAST;
}

bool feed_same_process(const struct top_dump *a, const struct top_dump *b)
{
	return a->trace->flight.pid == b->trace->flight.pid &&
	       strcmp(a->trace->flight.host, b->trace->flight.host) == 0;
}

/* Drop the dumps of earlier generations of @d's group from the same process. */
static void drop_former(struct feed *f, struct top_dump *d)
{
	const struct flight *now = &d->trace->flight;

	for (struct top_dump *other = f->dumps; other; other = other->next) {
		if (!other->trace || !feed_same_process(other, d) ||
		    strcmp(other->trace->flight.group, now->group) != 0 ||
		    other->trace->flight.generation >= now->generation)
			continue;
		d->is_member |= other->is_member;
		other->is_member = false;
		feed_drop(other->trace);
		other->trace = NULL;
	}
}

static void read_answer(struct feed *f, struct top_dump *d)
{
	struct trace *t = feed_read(f, d->file, most_of(d));

	if (!t->is_found || !*t->flight.group) {
		snprintf(f->problem, sizeof(f->problem), "%s",
		         t->n_problems ? t->problems[0]
		                       : "a dump does not name its group");
		cli_sanitize(f->problem);
		feed_drop(t);
		return;
	}
	feed_drop(d->trace);
	d->trace = t;
	d->round = f->round;
	drop_former(f, d);
}

static void read_if_changed(struct feed *f, const char *file,
                            const struct stat *status)
{
	struct top_dump *d = find_dump(f, file);

	if (d->inode == status->st_ino &&
	    d->changed.tv_sec == status->st_mtim.tv_sec &&
	    d->changed.tv_nsec == status->st_mtim.tv_nsec)
		return;
	d->inode = status->st_ino;
	d->changed = status->st_mtim;
	if (!f->round)
		return;
	if (cli_ends_with(file, ASKED))
		read_answer(f, d);
	else
		d->is_verdict = true;
}

bool feed_poll(struct feed *f)
{
	DIR *folder = opendir(f->directory);
	struct dirent *entry;
	struct stat status;
	int err;

	if (!folder)
		return false;
	while ((errno = 0, entry = readdir(folder)))
		if (strncmp(entry->d_name, "fr_", 3) == 0 &&
		    cli_ends_with(entry->d_name, TRACE_MERGED) &&
		    !fstatat(dirfd(folder), entry->d_name, &status, 0))
			read_if_changed(f, entry->d_name, &status);
	err = errno;
	closedir(folder);
	errno = err;
	return !err;
}
