/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "core/cause.h"

/* Time between checks of a FIFO, see C in trigger.h. */
#define LOOK_NS (NS_PER_S / 10)

/* Maximum number of reads of a FIFO for one trigger. */
#define DRAINS 256

struct fifo {
	int fd; /* descriptor, or -1 */
	bool is_made;
	dev_t device;
	ino_t inode;
};

struct waker {
	sem_t posted;

	/* Atomic; the set of triggers that waker_wait() has not yet
	 * returned. */
	atomic_uint triggers;

	/* Atomic; signal that triggers the waker, or 0.  The signal handler
	 * reads it. */
	atomic_int signal;

	/* Guarded by lock. */
	bool is_used;
	struct fifo fifo;
	char path[512]; /* "" without a FIFO; constant while is_used */

	/* Constant once the waker is in the list. */
	struct waker *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Held while FIFOs are opened or closed, which may hang in the file system.
 * Acquired before `lock`. Wakers without a FIFO do not acquire it. */
static pthread_mutex_t fifo_lock = PTHREAD_MUTEX_INITIALIZER;

/* Atomic; list of all wakers that were ever created.  A writer holds the lock
 * and stores with release; signal handlers load with acquire. */
static struct waker *_Atomic all;

/* Atomic; pid of the process in which the handler acts.  A forked child
 * inherits the handler, which must do nothing there.  Relaxed, because the pid
 * is stored before the handler is installed. */
static atomic_int process;

/* Guarded by lock; for each signal the action that our handler replaced. */
static struct sigaction former[NSIG];

/* Add a trigger.  Post the semaphore unless the trigger was already set. */
static void add(struct waker *w, unsigned what)
{
	if (!(atomic_fetch_or(&w->triggers, what) & what))
		sem_post(&w->posted);
}

/* Handle a signal.  May interrupt any code. */
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

/* Trigger all wakers that have the FIFO of @from.  A write to the FIFO is meant
 * for all of them, but only @from has read it. */
static void wake_all_of_fifo(const struct waker *from)
{
	struct waker *w;

	SCOPED_LOCK(&lock);
	for (w = all; w; w = w->next)
		if (w->is_used && *w->path &&
		    w->fifo.device == from->fifo.device &&
		    w->fifo.inode == from->fifo.inode)
			add(w, TRIGGER_FIFO);
}

/* Empty the FIFO.  Return false if it was empty.  Limit the number of reads,
 * because a process may write faster than this one reads. */
static bool drain(int fd)
{
	char bytes[256];
	int n = 0;

	while (n < DRAINS && read(fd, bytes, sizeof(bytes)) > 0)
		n++;
	return n;
}

static bool is_file(const struct stat *s, const struct fifo *f)
{
	return s->st_dev == f->device && s->st_ino == f->inode;
}

/* Return true if @fd is still the waker's FIFO.  If the program has closed it,
 * the descriptor, and even the inode number, may belong to another file. */
static bool has_fifo(const struct waker *w, int fd)
{
	struct stat status;

	return fd >= 0 && !fstat(fd, &status) && S_ISFIFO(status.st_mode) &&
	       is_file(&status, &w->fifo);
}

/* Open the FIFO again.  Return -1 if this fails, or if the name now belongs to
 * another file. */
static int open_again(const struct waker *w)
{
	struct stat status;
	int fd;

	if (stat(w->path, &status) || !S_ISFIFO(status.st_mode) ||
	    !is_file(&status, &w->fifo))
		return -1;
	fd = open(w->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || has_fifo(w, fd))
		return fd;
	close(fd);
	return -1;
}

/* Check the FIFO, and open it again if necessary.  Called only by the thread in
 * waker_wait(), so no other thread changes the descriptor at the same time. */
static void check_fifo(struct waker *w)
{
	int fd;

	if (!*w->path)
		return;
	if (!has_fifo(w, w->fifo.fd)) {
		fd = open_again(w);
		pthread_mutex_lock(&lock);
		w->fifo.fd = fd;
		pthread_mutex_unlock(&lock);
	}
	if (w->fifo.fd >= 0 && drain(w->fifo.fd))
		wake_all_of_fifo(w);
}

int waker_wait(struct waker *w)
{
	int what = (int)atomic_exchange(&w->triggers, 0);

	while (!what && *w->path) {
		clock_await(&w->posted, clock_deadline(LOOK_NS));
		check_fifo(w);
		what = (int)atomic_exchange(&w->triggers, 0);
	}
	return what;
}

static bool is_wanted_locked(int number)
{
	struct waker *w;

	for (w = all; w; w = w->next)
		if (w->is_used && atomic_load(&w->signal) == number)
			return true;
	return false;
}

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
		                 "options->dump_signal is %d, which is not a "
		                 "signal",
		                 number);
	if (former[number].sa_handler != SIG_DFL &&
	    former[number].sa_handler != SIG_IGN)
		return error_set(COHORT_INVALID,
		                 "options->dump_signal is %d, which has a "
		                 "handler already: use another signal",
		                 number);
	atomic_store_explicit(&process, (int)getpid(), memory_order_relaxed);
	if (sigaction(number, &action, NULL))
		return error_set(COHORT_INVALID,
		                 "options->dump_signal is %d: %s", number,
		                 strerror(errno));
	return COHORT_OK;
}

/* Restore the former action of a signal that no waker uses, unless the program
 * has installed another handler. */
static void restore_locked(int number)
{
	struct sigaction now;

	if (number && !is_wanted_locked(number) &&
	    !sigaction(number, NULL, &now) && now.sa_handler == handle)
		sigaction(number, &former[number], NULL);
}

static void drop_fifo(const struct fifo *f, const char *path)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->is_made)
		unlink(path);
}

/* Open the FIFO for reading and writing, so that it is never at end of file.
 * The caller holds fifo_lock, and must call drop_fifo() after a failure. */
static int open_fifo(const char *path, struct fifo *f)
{
	struct stat status;

	f->is_made = !mkfifo(path, 0600);
	f->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (f->fd < 0 || fstat(f->fd, &status))
		return error_set(COHORT_INVALID,
		                 "options->dump_fifo is \"%s\": %s", path,
		                 strerror(errno));
	if (!S_ISFIFO(status.st_mode))
		return error_set(COHORT_INVALID,
		                 "options->dump_fifo is \"%s\", which is not a "
		                 "FIFO",
		                 path);
	f->device = status.st_dev;
	f->inode = status.st_ino;
	return COHORT_OK;
}

/* Pass the duty to remove the FIFO to another waker that has it open.  Return
 * false if there is none. */
static bool pass_fifo_locked(const struct waker *w)
{
	struct waker *other;

	for (other = all; other; other = other->next)
		if (other != w && other->is_used && *other->path &&
		    other->fifo.device == w->fifo.device &&
		    other->fifo.inode == w->fifo.inode) {
			other->fifo.is_made = true;
			return true;
		}
	return false;
}

/* Close and remove the FIFO of @w.  @w is a copy, because the waker itself may
 * be in use again. */
static void close_fifo(const struct waker *w)
{
	struct stat status;

	if (w->fifo.is_made && !lstat(w->path, &status) &&
	    is_file(&status, &w->fifo))
		unlink(w->path);
	if (has_fifo(w, w->fifo.fd))
		close(w->fifo.fd);
}

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
	w->fifo.fd = -1;
	w->next = all;
	atomic_store_explicit(&all, w, memory_order_release);
	return w;
}

static int acquire_waker(int signal, const char *path, const struct fifo *f,
                         struct waker **out)
{
	struct waker *w;
	int rc;

	SCOPED_LOCK(&lock);
	w = find_locked();
	if (!w)
		return error_set(COHORT_NO_MEMORY, "no memory for dumps");
	/* Discard triggers that were meant for the previous owner. */
	atomic_store(&w->triggers, 0);
	while (!sem_trywait(&w->posted))
		continue;
	rc = signal ? install_locked(signal) : COHORT_OK;
	if (rc != COHORT_OK)
		return rc;
	w->fifo = *f;
	snprintf(w->path, sizeof(w->path), "%s", path);
	w->is_used = true;
	atomic_store(&w->signal, signal);
	*out = w;
	return COHORT_OK;
}

int waker_get(int signal, const char *path, struct waker **out)
{
	struct fifo f = { .fd = -1 };
	int rc;

	if (!*path)
		return acquire_waker(signal, path, &f, out);
	SCOPED_LOCK(&fifo_lock);
	rc = open_fifo(path, &f);
	if (rc == COHORT_OK)
		rc = acquire_waker(signal, path, &f, out);
	if (rc != COHORT_OK)
		drop_fifo(&f, path);
	return rc;
}

/* Release the waker.  Return a copy of it, whose FIFO the caller must close. */
static struct waker release_waker(struct waker *w)
{
	struct waker had;
	int signal;

	SCOPED_LOCK(&lock);
	signal = atomic_exchange(&w->signal, 0);
	w->is_used = false;
	restore_locked(signal);
	if (w->fifo.is_made && pass_fifo_locked(w))
		w->fifo.is_made = false;
	had = *w;
	w->fifo.fd = -1;
	return had;
}

void waker_put(struct waker *w)
{
	struct waker had;

	if (!*w->path) {
		release_waker(w);
		return;
	}
	SCOPED_LOCK(&fifo_lock);
	had = release_waker(w);
	close_fifo(&had);
}
