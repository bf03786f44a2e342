/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: the FIFO that asks for dumps, and the files that come
 *
 * A file counts as an answer if it has changed since the last look: dumps replace files as
 * a whole, so one that has another inode or time is new, and is complete.
 */

#include "cli/top/top.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/cli.h"

/* Operations that are read of a dump, of all ranks together; the fewest of one; and how
 * many of one in the first dump, whose ranks are not known before. */
#define OPERATIONS 2048
#define RANK_LEAST 64
#define RANK_FIRST 256

#define MERGED "_merged.json"
#define ASKED "_asked" MERGED

static bool ends_with(const char *text, const char *end)
{
	const size_t n = strlen(text), of = strlen(end);

	return n > of && strcmp(text + n - of, end) == 0;
}

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

static int set_path(char to[PATH_MAX], const char *path)
{
	if (strlen(path) < PATH_MAX) {
		strcpy(to, path);
		return CLI_OK;
	}
	cli_complain("top", "'%s': %s", path, strerror(ENAMETOOLONG));
	return CLI_FAILED;
}

static int take_operand(struct feed *f, const char *path)
{
	struct stat status;
	bool is_folder;
	char *to;

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
	to = is_folder ? f->directory : f->fifo;
	if (*to) {
		cli_complain("top", "'%s': a second %s", path,
		             is_folder ? "directory" : "FIFO");
		return CLI_USAGE;
	}
	return set_path(to, path);
}

/* Find the one FIFO in the folder that a process reads.  CLI_OK also if there is none. */
static int find_fifo(struct feed *f)
{
	DIR *folder = opendir(f->directory);
	char path[PATH_MAX + NAME_MAX + 2], found[PATH_MAX] = "";
	struct dirent *entry;
	int fd, status = CLI_OK;

	if (!folder) {
		cli_complain("top", "'%s': %s", f->directory, strerror(errno));
		return CLI_FAILED;
	}
	while (status == CLI_OK && (entry = readdir(folder))) {
		if (entry->d_type != DT_FIFO && entry->d_type != DT_UNKNOWN)
			continue;
		snprintf(path, sizeof(path), "%s/%s", f->directory,
		         entry->d_name);
		fd = open_fifo(path);
		if (fd < 0)
			continue;
		close(fd);
		if (*found) {
			cli_complain("top",
			             "'%s' has several FIFOs, '%s' and '%s': "
			             "name one",
			             f->directory, found, path);
			status = CLI_FAILED;
		} else {
			status = set_path(found, path);
		}
	}
	closedir(folder);
	strcpy(f->fifo, found);
	return status;
}

/* The folder of the FIFO, if none is named. */
static void use_its_folder(struct feed *f)
{
	const char *slash = strrchr(f->fifo, '/');

	if (!slash)
		strcpy(f->directory, ".");
	else
		snprintf(f->directory, sizeof(f->directory), "%.*s",
		         slash > f->fifo ? (int)(slash - f->fifo) : 1, f->fifo);
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
	const char *folder = getenv("COHORT_DUMP_DIR");
	const char *fifo = getenv("COHORT_DUMP_FIFO");
	int i, status = CLI_OK;

	*f = (struct feed){ .round = 0 };
	for (i = 0; i < n && status == CLI_OK; i++)
		status = take_operand(f, operands[i]);
	if (status == CLI_OK && *f->directory && !*f->fifo)
		status = find_fifo(f);
	if (status == CLI_OK && !*f->fifo && fifo && *fifo)
		status = set_path(f->fifo, fifo);
	if (status == CLI_OK && !*f->directory && folder && *folder) {
		status = set_path(f->directory, folder);
		if (status == CLI_OK && !*f->fifo)
			status = find_fifo(f);
	}
	if (status == CLI_OK && !*f->fifo) {
		if (*f->directory)
			cli_complain("top",
			             "no running group has a FIFO in '%s', and "
			             "COHORT_DUMP_FIFO is not set",
			             f->directory);
		else
			cli_complain("top", "no FIFO: name it, or set "
			                    "COHORT_DUMP_FIFO");
		status = *f->directory ? CLI_FAILED : CLI_USAGE;
	}
	if (status != CLI_OK)
		return status;
	if (!*f->directory)
		use_its_folder(f);
	status = check(f);
	if (status != CLI_OK)
		feed_close(f);
	return status;
}

static void drop_trace(struct top_dump *d)
{
	if (d->trace)
		trace_free(d->trace);
	free(d->trace);
	d->trace = NULL;
}

void feed_close(struct feed *f)
{
	int i;

	for (i = 0; i < f->n; i++)
		drop_trace(&f->dumps[i]);
	free(f->dumps);
	f->dumps = NULL;
	f->n = f->room = 0;
}

/* ---- files ------------------------------------------------------------- */

static struct top_dump *find_dump(struct feed *f, const char *file)
{
	struct top_dump *more;
	int i;

	for (i = 0; i < f->n; i++)
		if (strcmp(f->dumps[i].file, file) == 0)
			return &f->dumps[i];
	if (f->n == f->room) {
		f->room = f->room ? 2 * f->room : 16;
		more = realloc(f->dumps, (size_t)f->room * sizeof(*more));
		if (!more) {
			f->room = f->n;
			return NULL;
		}
		f->dumps = more;
	}
	f->dumps[f->n] = (struct top_dump){ .inode = 0 };
	snprintf(f->dumps[f->n].file, sizeof(f->dumps[f->n].file), "%s", file);
	return &f->dumps[f->n++];
}

static struct trace *read_dump(const struct feed *f, const char *file,
                               size_t most)
{
	char path[PATH_MAX + NAME_MAX + 2], *paths[] = { path };
	struct trace *t = calloc(1, sizeof(*t));

	snprintf(path, sizeof(path), "%s/%s", f->directory, file);
	if (t)
		trace_gather(t, paths, 1, most);
	return t;
}

/* How many operations of each rank to read, by how many there were the last time. */
static size_t most_of(const struct top_dump *d)
{
	const int size = d->trace ? d->trace->flight.size : 0;
	const size_t most = size ? OPERATIONS / (size_t)size : RANK_FIRST;

	return most > RANK_LEAST ? most : RANK_LEAST;
}

/* Read an answer.  What cannot be read is no answer. */
static void read_answer(struct feed *f, struct top_dump *d)
{
	struct trace *t = read_dump(f, d->file, most_of(d));

	if (!t || !t->is_found || !*t->flight.group) {
		snprintf(f->problem, sizeof(f->problem), "%s",
		         !t              ? "out of memory"
		         : t->n_problems ? t->problems[0]
		                         : "a dump says of no group");
		cli_plain(f->problem);
		if (t)
			trace_free(t);
		free(t);
		return;
	}
	drop_trace(d);
	d->trace = t;
	d->round = f->round;
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
	if (ends_with(file, ASKED))
		read_answer(f, d);
	else
		d->round = f->round;
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
		    ends_with(entry->d_name, MERGED) &&
		    !fstatat(dirfd(folder), entry->d_name, &status, 0))
			look_at(f, entry->d_name, &status);
	err = errno;
	closedir(folder);
	errno = err;
	return !err;
}

static bool has_process(const struct top_sample *s, const struct flight *f)
{
	int i;

	if (strcmp(s->group, f->group) != 0 || strcmp(s->host, f->host) != 0)
		return false;
	for (i = 0; i < s->n && s->ranks[i].pid != f->pid; i++)
		;
	return i < s->n;
}

void feed_find_cause(const struct feed *f, struct top_sample *s)
{
	uint64_t newest = 0;
	struct trace *t;
	int i;

	for (i = 0; i < f->n; i++) {
		if (!f->dumps[i].round || ends_with(f->dumps[i].file, ASKED))
			continue;
		t = read_dump(f, f->dumps[i].file, 1);
		if (t && t->is_found && has_process(s, &t->flight) &&
		    t->flight.generation >= s->generation &&
		    t->flight.cause.status != COHORT_OK &&
		    t->flight.now_ns > newest) {
			newest = t->flight.now_ns;
			s->cause = t->flight.cause;
			s->generation = t->flight.generation;
		}
		if (t)
			trace_free(t);
		free(t);
	}
}
