/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: the FIFO that asks for dumps, and the files that come
 *
 * A file counts as an answer if it has changed since the last look: dumps
 * replace files as a whole, so one that has another inode or time is new, and
 * is complete.
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

#include "cli/common/cli.h"

/* Operations that are read of a dump, of all ranks together, as far as these
 * are known; and the fewest of one rank. */
#define OPERATIONS 2048
#define RANK_LEAST 64

#define MERGED "_merged.json"
#define ASKED "_asked" MERGED

/* ---- the FIFO ---------------------------------------------------------- */

/* Open a FIFO that some process reads; -1 with errno. */
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
	struct sigaction ignore = { .sa_handler = SIG_IGN }, former;
	int fd = open_fifo(f->fifo), err;
	ssize_t n;

	if (fd < 0)
		return errno == ENXIO || errno == ENOENT ? FEED_NOBODY
		                                         : FEED_FAILED;
	/* The reader may go between the two calls. */
	sigaction(SIGPIPE, &ignore, &former);
	n = write(fd, "\n", 1);
	err = errno;
	sigaction(SIGPIPE, &former, NULL);
	close(fd);
	errno = err;
	/* A full FIFO was written to before, and asks as well. */
	return n == 1 || err == EAGAIN ? FEED_ASKED
	       : err == EPIPE          ? FEED_NOBODY
	                               : FEED_FAILED;
}

/* ---- which FIFO, and which folder --------------------------------------- */

static int take_operand(struct feed *f, const char *path)
{
	struct stat status;
	bool is_folder;
	const char **to;

	if (stat(path, &status)) {
		cli_complain("top", "'%s': %s", path, strerror(errno));
		return CLI_FAILED;
	}
	is_folder = S_ISDIR(status.st_mode);
	if (!is_folder && !S_ISFIFO(status.st_mode)) {
		cli_complain("top",
		             "'%s': neither a FIFO nor the directory of dumps",
		             path);
		return CLI_FAILED;
	}
	to = is_folder ? &f->directory : &f->fifo;
	if (*to) {
		cli_complain("top", "'%s': a second %s", path,
		             is_folder ? "directory" : "FIFO");
		return CLI_USAGE;
	}
	*to = path;
	return CLI_OK;
}

/* Unless the FIFO is known, find the one in the folder that a process reads.
 * True also if there is none. */
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
		cli_complain("top", "'%s': %s", f->directory, strerror(errno));
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
		cli_complain("top",
		             "'%s' has several FIFOs, '%s' and '%s': name one",
		             f->directory, f->fifo, path);
	return !entry;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* Try both, so that a mistake is told at once. */
static int check(struct feed *f)
{
	int fd = open_fifo(f->fifo), err = errno;

	if (fd < 0) {
		cli_complain("top", "FIFO '%s': %s", f->fifo,
		             err == ENXIO    ? "no running group has it open"
		             : err == EINVAL ? "is no FIFO"
		                             : strerror(err));
		return CLI_FAILED;
	}
	close(fd);
	if (feed_look(f))
		return CLI_OK;
	cli_complain("top", "'%s': %s", f->directory, strerror(errno));
	return CLI_FAILED;
}

int feed_open(struct feed *f, char *const *operands, int n)
{
	int i, status;

	for (i = 0; i < n; i++) {
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
	if (!f->fifo && f->directory) {
		cli_complain("top",
		             "no running group has a FIFO in '%s', and "
		             "COHORT_DUMP_FIFO is not set",
		             f->directory);
		return CLI_FAILED;
	}
	if (!f->fifo) {
		cli_complain("top",
		             "no FIFO: name it, or set COHORT_DUMP_FIFO");
		return CLI_USAGE;
	}
	if (!f->directory) {
		snprintf(f->found, sizeof(f->found), "%s", f->fifo);
		f->directory = dirname(f->found);
	}
	return check(f);
}

/* ---- files ------------------------------------------------------------- */

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
	if (!*d && (*d = calloc(1, sizeof(**d)))) {
		snprintf((*d)->file, sizeof((*d)->file), "%s", file);
		(*d)->pidfd = -1;
	}
	return *d;
}

struct trace *feed_read(const struct feed *f, const char *file, size_t most)
{
	char path[PATH_MAX + NAME_MAX + 2], *paths[] = { path };
	struct trace *t = calloc(1, sizeof(*t));

	snprintf(path, sizeof(path), "%s/%s", f->directory, file);
	if (t)
		trace_gather(t, paths, 1, most);
	return t;
}

/* How many operations of each rank to read. */
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

/* Drop what an earlier generation of @d's group has dumped in the same
 * process. */
static void drop_former(struct feed *f, struct top_dump *d)
{
	const struct flight *now = &d->trace->flight;
	struct top_dump *other;

	for (other = f->dumps; other; other = other->next) {
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

/* Read an answer.  What cannot be read is no answer. */
static void read_answer(struct feed *f, struct top_dump *d)
{
	struct trace *t = feed_read(f, d->file, most_of(d));

	if (!t || !t->is_found || !*t->flight.group) {
		snprintf(f->problem, sizeof(f->problem), "%s",
		         !t              ? "out of memory"
		         : t->n_problems ? t->problems[0]
		                         : "a dump says of no group");
		cli_plain(f->problem);
		feed_drop(t);
		return;
	}
	feed_drop(d->trace);
	d->trace = t;
	d->round = f->round;
	drop_former(f, d);
}

static void look_at(struct feed *f, const char *file, const struct stat *status)
{
	struct top_dump *d = find_dump(f, file);

	if (!d || (d->inode == status->st_ino &&
	           d->changed.tv_sec == status->st_mtim.tv_sec &&
	           d->changed.tv_nsec == status->st_mtim.tv_nsec))
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

bool feed_look(struct feed *f)
{
	DIR *folder = opendir(f->directory);
	struct dirent *entry;
	struct stat status;
	int err;

	if (!folder)
		return false;
	while ((errno = 0, entry = readdir(folder)))
		if (strncmp(entry->d_name, "fr_", 3) == 0 &&
		    cli_ends_with(entry->d_name, MERGED) &&
		    !fstatat(dirfd(folder), entry->d_name, &status, 0))
			look_at(f, entry->d_name, &status);
	err = errno;
	closedir(folder);
	errno = err;
	return !err;
}
