/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "core/cause.h"

/* The time between looks at a FIFO, see C. */
#define LOOK_NS (NS_PER_S / 10)

/* Reads of a FIFO for one trigger, at most. */
#define DRAINS 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Held around the other lock while FIFOs are opened or given up, which a file
 * system may hang.  Wakers without a FIFO do not take it. */
static pthread_mutex_t fifo_lock = PTHREAD_MUTEX_INITIALIZER;

/* Atomic; all wakers that were ever made.  Written under the lock (release),
 * read by handlers (acquire). */
static struct waker *_Atomic all;

/* Atomic; the process that the handler is for, because the child of a fork
 * inherits the handler and the descriptors.  Relaxed: it is set before there is
 * a handler. */
static atomic_int process;

/* Guarded by lock; for each signal the action before ours. */
static struct sigaction former[NSIG];

/* ---- waking ----------------------------------------------------------- */

/* Add a trigger.  The semaphore was posted already for one that was not taken
 * yet. */
static void add(struct waker *w, unsigned what)
{
	if (!(atomic_fetch_or(&w->triggers, what) & what))
		sem_post(&w->posted);
}

/* The signal handler, which may interrupt anything. */
static void handle(int number)
{
	int err = errno;
	struct waker *w;

	if (getpid() !=
	    (pid_t)atomic_load_explicit(&process, memory_order_relaxed))
		return;
	for (w = atomic_load_explicit(&all, memory_order_acquire); w;
	     w = w->next)
		if (atomic_load_explicit(&w->signal, memory_order_relaxed) ==
		    number)
			add(w, TRIGGER_SIGNAL);
	cause_wake(); /* the watchdog starts dumpers that have no thread */
	errno = err;
}

void waker_wake(struct waker *w)
{
	if (*w->path)
		add(w, TRIGGER_CALL);
}

bool waker_was_woken(const struct waker *w)
{
	return atomic_load(&w->triggers);
}

/* Pass a write on to all wakers of the FIFO, as it is meant for all and one
 * reads it. */
static void pass_on(const struct waker *from)
{
	struct waker *w;

	pthread_mutex_lock(&lock);
	for (w = all; w; w = w->next)
		if (w->is_used && *w->path && w->device == from->device &&
		    w->inode == from->inode)
			add(w, TRIGGER_FIFO);
	pthread_mutex_unlock(&lock);
}

/* Empty the FIFO; false if it was empty.  Reads are limited, as a writer may be
 * faster. */
static bool drain(int fd)
{
	char bytes[256];
	int n = 0;

	while (n < DRAINS && read(fd, bytes, sizeof(bytes)) > 0)
		n++;
	return n;
}

static bool is_file(const struct stat *s, dev_t device, ino_t inode)
{
	return s->st_dev == device && s->st_ino == inode;
}

/* False if the program has closed @fd: the number may be another file's by now,
 * and so may be the inode's. */
static bool has_fifo(const struct waker *w, int fd)
{
	struct stat status;

	return fd >= 0 && !fstat(fd, &status) && S_ISFIFO(status.st_mode) &&
	       is_file(&status, w->device, w->inode);
}

/* Open the FIFO again; -1 if that is not possible now.  Another file of its
 * name is not opened. */
static int open_again(const struct waker *w)
{
	struct stat status;
	int fd;

	if (stat(w->path, &status) || !S_ISFIFO(status.st_mode) ||
	    !is_file(&status, w->device, w->inode))
		return -1;
	fd = open(w->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || has_fifo(w, fd))
		return fd;
	close(fd);
	return -1;
}

/* Called only by the thread that waits, as no other changes the descriptor
 * meanwhile. */
static void look_at_fifo(struct waker *w)
{
	int fd;

	if (!*w->path)
		return;
	if (!has_fifo(w, w->fifo)) {
		fd = open_again(w);
		pthread_mutex_lock(&lock);
		w->fifo = fd;
		pthread_mutex_unlock(&lock);
	}
	if (w->fifo >= 0 && drain(w->fifo))
		pass_on(w);
}

int waker_wait(struct waker *w)
{
	int what = (int)atomic_exchange(&w->triggers, 0);

	while (!what && *w->path) {
		clock_await(&w->posted, clock_deadline(LOOK_NS));
		look_at_fifo(w);
		what = (int)atomic_exchange(&w->triggers, 0);
	}
	return what;
}

/* ---- signals ---------------------------------------------------------- */

static bool is_wanted_locked(int number)
{
	struct waker *w;

	for (w = all; w; w = w->next)
		if (w->is_used && atomic_load(&w->signal) == number)
			return true;
	return false;
}

/* Install the handler, unless it is installed already. */
static int install_locked(int number)
{
	struct sigaction action = { .sa_handler = handle,
		                    .sa_flags = SA_RESTART | SA_ONSTACK };

	if (is_wanted_locked(number))
		return COHORT_OK;
	sigemptyset(&action.sa_mask);
	if (number < 1 || number >= NSIG ||
	    sigaction(number, NULL, &former[number]))
		return error_set(COHORT_INVALID,
		                 "options->dump_signal is %d, not a signal",
		                 number);
	if (former[number].sa_handler != SIG_DFL &&
	    former[number].sa_handler != SIG_IGN)
		return error_set(COHORT_INVALID,
		                 "options->dump_signal is %d, which has a "
		                 "handler already",
		                 number);
	atomic_store_explicit(&process, (int)getpid(), memory_order_relaxed);
	if (sigaction(number, &action, NULL))
		return error_set(COHORT_INVALID,
		                 "options->dump_signal is %d: %s", number,
		                 strerror(errno));
	return COHORT_OK;
}

/* Restore the former action if no waker wants the signal any more, unless the
 * program has set another one. */
static void restore_locked(int number)
{
	struct sigaction now;

	if (number && !is_wanted_locked(number) &&
	    !sigaction(number, NULL, &now) && now.sa_handler == handle)
		sigaction(number, &former[number], NULL);
}

/* ---- FIFOs ------------------------------------------------------------ */

/* An open FIFO that no waker owns yet. */
struct fifo {
	int fd; /* -1: none */
	bool is_made;
	dev_t device;
	ino_t inode;
};

static void drop_fifo(struct fifo *f, const char *path)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->is_made)
		unlink(path);
	f->fd = -1;
}

/* Open the FIFO for reading and writing, so that it never is at its end.  The
 * caller holds fifo_lock. */
static int open_fifo(const char *path, struct fifo *f)
{
	struct stat status;
	int err;

	f->is_made = !mkfifo(path, 0600);
	f->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (f->fd < 0 || fstat(f->fd, &status)) {
		err = errno;
		drop_fifo(f, path);
		return error_set(COHORT_INVALID,
		                 "options->dump_fifo is \"%s\": %s", path,
		                 strerror(err));
	}
	if (!S_ISFIFO(status.st_mode)) {
		drop_fifo(f, path);
		return error_set(COHORT_INVALID,
		                 "options->dump_fifo is \"%s\", which is not a "
		                 "FIFO",
		                 path);
	}
	f->device = status.st_dev;
	f->inode = status.st_ino;
	return COHORT_OK;
}

/* Leave the FIFO to another waker that has it open, if there is one: the waker
 * that is marked as having made it removes it. */
static bool pass_fifo_locked(const struct waker *w)
{
	struct waker *other;

	for (other = all; other; other = other->next)
		if (other != w && other->is_used && *other->path &&
		    other->device == w->device && other->inode == w->inode) {
			other->made_fifo = true;
			return true;
		}
	return false;
}

/* Close and remove the FIFO that @w had.  @w is a copy, as the waker itself may
 * be in use again. */
static void close_fifo(const struct waker *w)
{
	struct stat status;

	if (w->made_fifo && !lstat(w->path, &status) &&
	    is_file(&status, w->device, w->inode))
		unlink(w->path);
	if (has_fifo(w, w->fifo))
		close(w->fifo);
}

/* ---- life ------------------------------------------------------------- */

/* Find a waker that is not used, or make one. */
static struct waker *find_locked(void)
{
	struct waker *w;

	for (w = all; w; w = w->next)
		if (!w->is_used)
			return w;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	sem_init(&w->posted, 0, 0);
	w->fifo = -1;
	w->next = all;
	atomic_store_explicit(&all, w, memory_order_release);
	return w;
}

static int get_locked(int signal, const char *path, const struct fifo *f,
                      struct waker **out)
{
	struct waker *w = find_locked();
	int rc;

	if (!w)
		return error_set(COHORT_NO_MEMORY, "no memory for a waker");
	/* Forget what was meant for the former owner. */
	atomic_store(&w->triggers, 0);
	while (!sem_trywait(&w->posted))
		continue;
	rc = signal ? install_locked(signal) : COHORT_OK;
	if (rc != COHORT_OK)
		return rc;
	w->fifo = f->fd;
	w->made_fifo = f->is_made;
	w->device = f->device;
	w->inode = f->inode;
	snprintf(w->path, sizeof(w->path), "%s", path);
	w->is_used = true;
	atomic_store(&w->signal, signal);
	*out = w;
	return COHORT_OK;
}

static int get(int signal, const char *path, const struct fifo *f,
               struct waker **out)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = get_locked(signal, path, f, out);
	pthread_mutex_unlock(&lock);
	return rc;
}

int waker_get(int signal, const char *path, struct waker **out)
{
	struct fifo f = { .fd = -1 };
	int rc;

	if (!*path)
		return get(signal, path, &f, out);
	pthread_mutex_lock(&fifo_lock);
	rc = open_fifo(path, &f);
	if (rc == COHORT_OK)
		rc = get(signal, path, &f, out);
	if (rc != COHORT_OK)
		drop_fifo(&f, path);
	pthread_mutex_unlock(&fifo_lock);
	return rc;
}

/* Give the waker up.  Returns a copy with what is to be closed. */
static struct waker put(struct waker *w)
{
	struct waker had;
	int signal;

	pthread_mutex_lock(&lock);
	signal = atomic_exchange(&w->signal, 0);
	w->is_used = false;
	restore_locked(signal);
	if (w->made_fifo && pass_fifo_locked(w))
		w->made_fifo = false;
	had = *w;
	w->fifo = -1;
	pthread_mutex_unlock(&lock);
	return had;
}

void waker_put(struct waker *w)
{
	struct waker had;

	if (!*w->path) {
		put(w);
		return;
	}
	pthread_mutex_lock(&fifo_lock);
	had = put(w);
	close_fifo(&had);
	pthread_mutex_unlock(&fifo_lock);
}
