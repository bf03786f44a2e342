/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Let the processes of a machine find each other by a file
 *
 * The file has a slot for each process.  A process holds a lock on a byte of
 * the file.  The system releases the lock when the process ends, however it
 * ends, so the others can tell which processes are alive.
 *
 * In round k each process writes its record number k % 2, and then k to its
 * slot.  Nobody can be more than one round ahead, so nobody overwrites a record
 * that is still being read.
 *
 * The file is read and written by system calls, as access to a mapping would
 * raise SIGBUS if another process truncated the file.
 */

#include "processes/own_bootstrap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/status.h"
#include "base/util.h"
#include "core/cause.h"
#include "processes/launcher.h"

#define FILE_MAGIC UINT32_C(0x63684543)

struct header {
	uint32_t magic;
	uint32_t processes;
	uint64_t bytes; /* of a record */
};

/* Written by its process alone.  All slots follow the header, and two records
 * for each process follow the slots. */
struct slot {
	uint64_t round; /* of the last record written; the first is 1 */
	uint64_t pid;
	uint64_t has_left; /* 1 if the process has left before all had come */
};

struct view {
	struct header header;
	struct slot slots[];
};

struct environment_bootstrap {
	/* Guarded by lock. */
	struct environment_bootstrap *next;
	uint64_t name; /* a hash of job and group */

	int process, processes;
	size_t bytes, file_bytes;
	char path[128]; /* as shm_open() takes it */
	int file;
	bool is_damaged; /* it was truncated or overwritten */
	bool is_lost;    /* its name was removed before all had come */
	struct slot own; /* as it was written last */
	uint64_t round;  /* of the last request */
	void *recv;      /* of that */
	int gone; /* the process that ended and so failed it; -1 if none */
	uint64_t timeout_ns; /* of the opening */
	bool has_entered;    /* it has locked the door once */
	bool is_in;          /* it has its slot */
	bool is_complete;    /* a round was done: all have the file open */

	struct view *view; /* the start of the file, as it was read last */
};

/* ---- the name of the file ---------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock: those whose file has a name, or may have.  Locks of a file
 * are the process's, so that it opens each file once. */
static struct environment_bootstrap *list;

static int enlist(struct environment_bootstrap *e)
{
	const struct environment_bootstrap *other;

	pthread_mutex_lock(&lock);
	list_find(other, list, next, other->name == e->name);
	if (!other)
		list_add(list, e, next);
	pthread_mutex_unlock(&lock);
	return !other ? COHORT_OK
	              : error_set(COHORT_STATE,
	                          "another group of the name is being opened");
}

static void unlist(struct environment_bootstrap *e)
{
	pthread_mutex_lock(&lock);
	list_remove(list, e, next);
	pthread_mutex_unlock(&lock);
}

static int name_file(struct environment_bootstrap *e, const struct launcher *l,
                     const char *name)
{
	e->name = launcher_hash(l, name);
	snprintf(e->path, sizeof(e->path), "/cohort-%u-%016llx",
	         (unsigned)geteuid(), (unsigned long long)e->name);
	return enlist(e);
}

/* ---- locks ------------------------------------------------------------- */

/* The byte that is locked while the file is made or left, whatever number of
 * processes it is for; and the byte that a process holds. */
#define DOOR 0
#define SLOT(process) (1 + (process))

static struct flock range(int type, int first, int count)
{
	return (struct flock){
		.l_type = (short)type,
		.l_whence = SEEK_SET,
		.l_start = first,
		.l_len = count, /* 0: all that follow */
	};
}

/* Does not wait. */
static bool lock_byte(const struct environment_bootstrap *e, int byte, int type)
{
	struct flock l = range(type, byte, 1);

	return fcntl(e->file, F_SETLK, &l) == 0;
}

/* Wait for the door, which a process locks for a moment, unless it is stopped
 * there.  If errno is EAGAIN then, another process has it; otherwise nobody can
 * lock it. */
static bool lock_door(const struct environment_bootstrap *e,
                      const struct patience *patience)
{
	const uint64_t deadline = clock_deadline(patience->timeout_ns);
	struct backoff b = BACKOFF;

	while (!lock_byte(e, DOOR, F_WRLCK)) {
		if (errno != EAGAIN || patience_is_aborted(patience) ||
		    clock_now() >= deadline)
			return false;
		backoff_wait(&b, deadline);
	}
	return true;
}

/* Lock the door once more, to remove the name.  If that takes long, the name
 * stays: the next group of the name begins the file anew. */
static bool lock_door_again(const struct environment_bootstrap *e)
{
	const struct patience moment = {
		.timeout_ns = MIN(e->timeout_ns, NS_PER_S),
	};

	return e->has_entered && lock_door(e, &moment);
}

/* Return the pid of another process that has locked one of these bytes, or 0. */
static pid_t holder(const struct environment_bootstrap *e, int first, int count)
{
	struct flock l = range(F_WRLCK, first, count);

	/* A holder in another namespace of processes has number 0 or -1
	 * here. */
	if (fcntl(e->file, F_GETLK, &l) || l.l_type == F_UNLCK)
		return 0;
	return l.l_pid > 0 ? l.l_pid : -1;
}

static bool is_alone(const struct environment_bootstrap *e)
{
	return !holder(e, SLOT(0), 0);
}

/* ---- the file ---------------------------------------------------------- */

static struct header own_header(const struct environment_bootstrap *e)
{
	return (struct header){ FILE_MAGIC, (uint32_t)e->processes, e->bytes };
}

/* The offset of process @i's slot, and of its record of the current round. */
static off_t slot_at(int i)
{
	return (off_t)(sizeof(struct header) + (size_t)i * sizeof(struct slot));
}

static off_t record_at(const struct environment_bootstrap *e, int i)
{
	const size_t k = 2 * (size_t)i + (e->round & 1);

	return slot_at(e->processes) + (off_t)(k * e->bytes);
}

static bool put(struct environment_bootstrap *e, off_t at, const void *data,
                size_t bytes)
{
	const bool ok = pwrite(e->file, data, bytes, at) == (ssize_t)bytes;

	e->is_damaged |= !ok;
	return ok;
}

static bool get(struct environment_bootstrap *e, off_t at, void *data,
                size_t bytes)
{
	const bool ok = pread(e->file, data, bytes, at) == (ssize_t)bytes;

	e->is_damaged |= !ok;
	return ok;
}

static bool put_slot(struct environment_bootstrap *e)
{
	const struct slot own = e->own;

	/* The record was written before.  By POSIX, a process that reads the
	 * new slot from the file also reads the new record. */
	return put(e, slot_at(e->process), &own, sizeof(own));
}

/* Read the header and all slots; false if the file is damaged. */
static bool get_slots(struct environment_bootstrap *e)
{
	const struct header own = own_header(e);

	if (!get(e, 0, e->view, (size_t)slot_at(e->processes)))
		return false;
	e->is_damaged |= memcmp(&e->view->header, &own, sizeof(own)) != 0;
	return !e->is_damaged;
}

/* Nobody else may have made it, or write to it. */
static int file_check(const struct environment_bootstrap *e)
{
	struct stat s;

	if (fstat(e->file, &s))
		return error_set(COHORT_SYSTEM, "/dev/shm%s: %s", e->path,
		                 strerror(errno));
	if (!S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 077))
		return error_set(COHORT_SYSTEM,
		                 "/dev/shm%s is not a file that only this user "
		                 "can write to",
		                 e->path);
	return COHORT_OK;
}

/* With the door locked: begin anew if nobody is there, whatever was left. */
static int begin(struct environment_bootstrap *e)
{
	const struct header own = own_header(e);
	const bool is_first = is_alone(e);
	struct stat s;
	int err = 0;

	/* A full /dev/shm is an error now, rather than later. */
	if (is_first)
		err = ftruncate(e->file, 0)
		              ? errno
		              : posix_fallocate(e->file, 0,
		                                (off_t)e->file_bytes);
	if (err)
		return error_set(COHORT_SYSTEM, "/dev/shm%s: %s", e->path,
		                 strerror(err));
	if (fstat(e->file, &s) || s.st_size != (off_t)e->file_bytes)
		return error_set(
			COHORT_INVALID,
			"another process of the job has another number "
			"of processes than %d, or another version of "
			"the library",
			e->processes);
	if (holder(e, SLOT(e->process), 1))
		return error_set(COHORT_INVALID,
		                 "process %d of the job is there already, as "
		                 "pid %d",
		                 e->process,
		                 (int)holder(e, SLOT(e->process), 1));
	if (!lock_byte(e, SLOT(e->process), F_WRLCK))
		return error_set(COHORT_SYSTEM, "/dev/shm%s: %s", e->path,
		                 strerror(errno));
	if (is_first)
		put(e, 0, &own, sizeof(own));
	if (!get_slots(e))
		return error_set(COHORT_INVALID,
		                 "/dev/shm%s is not of this version of the "
		                 "library",
		                 e->path);
	/* What an earlier process of the number has told is void. */
	e->own = (struct slot){ .pid = (uint64_t)getpid() };
	if (!put_slot(e))
		return error_set(COHORT_SYSTEM, "/dev/shm%s: %s", e->path,
		                 strerror(errno));
	e->is_in = true;
	return COHORT_OK;
}

/* True if the file has no name any more: the last one before has removed it. */
static bool is_removed(const struct environment_bootstrap *e)
{
	struct stat s;

	return !fstat(e->file, &s) && s.st_nlink == 0;
}

/* With the door locked, or if nobody can lock it: remove the name, unless it is
 * another file's. */
static void remove_name(const struct environment_bootstrap *e)
{
	char path[sizeof(e->path) + 16];
	struct stat own, named;

	snprintf(path, sizeof(path), "/dev/shm%s", e->path);
	if (!fstat(e->file, &own) && !stat(path, &named) &&
	    own.st_dev == named.st_dev && own.st_ino == named.st_ino)
		shm_unlink(e->path);
}

/* Explain why the door was not locked, with errno as lock_door() has left
 * it. */
static int door_error(const struct environment_bootstrap *e,
                      const struct patience *patience)
{
	const int err = errno;
	struct stat s;

	if (err != EAGAIN) {
		if (!fstat(e->file, &s) && !s.st_size)
			remove_name(e);
		return error_set(
			COHORT_SYSTEM,
			"/dev/shm%s: fcntl(F_SETLK): %s; allow locks, or "
			"pass a bootstrap table of your own",
			e->path, strerror(err));
	}
	if (patience_is_aborted(patience))
		return patience_error(patience);
	return error_set(COHORT_INIT_TIMEOUT,
	                 "/dev/shm%s has been locked by pid %d for %llu ms: is "
	                 "that process stopped?",
	                 e->path, (int)holder(e, DOOR, 1),
	                 (unsigned long long)(patience->timeout_ns / 1000000));
}

/* Open the file, and lock its door. */
static int open_file(struct environment_bootstrap *e,
                     const struct patience *patience)
{
	int rc = COHORT_OK;

	do {
		if (e->file >= 0)
			close(e->file);
		e->file = shm_open(e->path, O_RDWR | O_CREAT | O_NOFOLLOW,
		                   S_IRUSR | S_IWUSR);
		if (e->file < 0)
			return error_set(COHORT_SYSTEM, "/dev/shm%s: %s",
			                 e->path, strerror(errno));
		rc = file_check(e);
		if (rc != COHORT_OK) { /* touch no lock of it */
			close(e->file);
			e->file = -1;
		} else if (!lock_door(e, patience)) {
			rc = door_error(e, patience);
		}
	} while (rc == COHORT_OK && is_removed(e));
	e->has_entered = rc == COHORT_OK;
	return rc;
}

/* Everybody has the file: it needs no name, and a next try gets another. */
static void all_have_come(struct environment_bootstrap *e)
{
	if (e->is_complete)
		return;
	e->is_complete = true;
	if (lock_door_again(e)) {
		remove_name(e);
		lock_byte(e, DOOR, F_UNLCK);
	}
	unlist(e);
}

/* Close the file, which gives back its locks. */
static void leave(struct environment_bootstrap *e)
{
	if (e->file < 0)
		return;
	if (e->is_in && !e->is_complete) {
		e->own.has_left = 1;
		e->own.round = 0;
		put_slot(e);
	}
	if (lock_door_again(e) && (e->is_complete || is_alone(e)))
		remove_name(e);
	close(e->file);
}

/* ---- gathering --------------------------------------------------------- */

/* By the slots that were read last. */
static bool has_come(const struct environment_bootstrap *e, int i)
{
	return e->view->slots[i].round >= e->round;
}

static bool has_left(const struct environment_bootstrap *e, int i)
{
	return e->view->slots[i].has_left;
}

static int gather(void *send, void *recv, size_t bytes, void *info,
                  void **request)
{
	struct environment_bootstrap *e = info;

	e->round++;
	e->recv = recv;
	e->gone = -1;
	e->own.round = e->round;
	if (put(e, record_at(e, e->process), send, bytes))
		put_slot(e);
	*request = e;
	return 0;
}

/* True if process @i has been here, and has ended without coming to this
 * round. */
static bool has_ended(struct environment_bootstrap *e, int i)
{
	if (!e->view->slots[i].pid || i == e->process || has_come(e, i) ||
	    has_left(e, i) || holder(e, SLOT(i), 1))
		return false;
	/* It may have come, and ended, since its slot was read. */
	return get(e, slot_at(i), &e->view->slots[i], sizeof(struct slot)) &&
	       !has_come(e, i) && !has_left(e, i);
}

static bool all_are_here(const struct environment_bootstrap *e)
{
	int i = 0;

	while (i < e->processes && has_come(e, i))
		i++;
	return i == e->processes;
}

/* True if somebody else has removed the file's name: those that have not come
 * yet will make another file.  The last process to come removes it, but has
 * come then. */
static bool is_lost(struct environment_bootstrap *e)
{
	return !e->is_complete && is_removed(e) && get_slots(e) &&
	       !all_are_here(e);
}

/* The first process that nobody needs to wait for, -1: there is none.  One that
 * has left is named only if all others are here: if not, the time of all ends
 * soon, because of the process that has not come. */
static int find_gone(struct environment_bootstrap *e)
{
	int i, left = -1;
	bool all_came = true;

	for (i = 0; i < e->processes; i++) {
		if (has_ended(e, i))
			return i;
		if (has_left(e, i))
			left = left < 0 ? i : left;
		else
			all_came &= has_come(e, i);
	}
	return all_came ? left : -1;
}

static int test(void *request)
{
	struct environment_bootstrap *e = request;

	if (e->is_damaged || !get_slots(e))
		return -1;
	e->gone = find_gone(e);
	if (e->gone >= 0 || e->is_damaged)
		return -1;
	if (!all_are_here(e)) {
		e->is_lost = is_lost(e);
		return e->is_lost || e->is_damaged ? -1 : 1;
	}
	for (int i = 0; i < e->processes; i++)
		if (!get(e, record_at(e, i),
		         (char *)e->recv + (size_t)i * e->bytes, e->bytes))
			return -1;
	all_have_come(e);
	return 0;
}

static int release(void *request)
{
	(void)request;
	return 0;
}

/* ---- creating ---------------------------------------------------------- */

static int create(struct environment_bootstrap *e, const char *name,
                  size_t bytes, const struct patience *patience)
{
	const struct launcher *l = launcher_find();
	int rc = l ? COHORT_OK : launcher_check();

	if (rc != COHORT_OK)
		return rc;
	if (!l)
		return error_set(COHORT_INVALID,
		                 "bootstrap->kind is COHORT_BOOTSTRAP_ENV, but "
		                 "no launcher has set its variables in the "
		                 "environment");
	rc = launcher_read(l, &e->process, &e->processes);
	if (rc != COHORT_OK)
		return rc;
	e->bytes = bytes;
	e->timeout_ns = patience->timeout_ns;
	e->file_bytes = (size_t)slot_at(e->processes) +
	                2 * bytes * (size_t)e->processes;
	e->view = calloc(1, (size_t)slot_at(e->processes));
	if (!e->view)
		return error_set(COHORT_NO_MEMORY, "no memory for a group");
	rc = name_file(e, l, name);
	if (rc == COHORT_OK)
		rc = open_file(e, patience);
	if (rc == COHORT_OK)
		rc = begin(e);
	if (e->file >= 0)
		lock_byte(e, DOOR, F_UNLCK);
	return rc;
}

void bootstrap_add_absent(const uint64_t *came, int n, struct text *t)
{
	uint64_t absent[COHORT_RANK_WORDS] = { 0 };
	int i, count = 0;

	for (i = 0; i < n; i++)
		if (!rank_set_has(came, i)) {
			rank_set_add(absent, i);
			count++;
		}
	if (!count)
		return;
	text_add(t, count > 1 ? "; processes " : "; process ");
	rank_set_spell(t, absent);
	text_add(t, count > 1 ? " have not come" : " has not come");
}

static void explain(const void *info, struct text *t)
{
	const struct environment_bootstrap *e = info;
	uint64_t came[COHORT_RANK_WORDS] = { 0 };
	int i;

	if (e->is_damaged) {
		text_add(t,
		         "; /dev/shm%s, by which processes find each other, "
		         "was truncated or overwritten",
		         e->path);
		return;
	}
	if (e->gone >= 0) {
		text_add(t, "; process %d (pid %llu) has ended, or has left",
		         e->gone,
		         (unsigned long long)e->view->slots[e->gone].pid);
		return;
	}
	for (i = 0; i < e->processes; i++)
		if (has_come(e, i) || has_left(e, i))
			rank_set_add(came, i);
	bootstrap_add_absent(came, e->processes, t);
	if (e->is_lost)
		text_add(t,
		         "; /dev/shm%s, by which processes find each other, "
		         "was removed",
		         e->path);
}

static void end(void *info)
{
	struct environment_bootstrap *e = info;

	leave(e);
	unlist(e);
	free(e->view);
	free(e);
}

int environment_bootstrap_create(const char *name, size_t bytes,
                                 const struct patience *patience,
                                 struct cohort_bootstrap *table,
                                 const struct own_bootstrap **own)
{
	static const struct own_bootstrap functions = {
		.explain = explain,
		.free = end,
	};
	struct environment_bootstrap *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return error_set(COHORT_NO_MEMORY, "no memory for a group");
	e->file = -1;
	e->gone = -1;
	rc = create(e, name, bytes, patience);
	if (rc != COHORT_OK) {
		end(e);
		return rc;
	}
	table->process = e->process;
	table->processes = e->processes;
	table->allgather = gather;
	table->req_test = test;
	table->req_free = release;
	table->info = e;
	*own = &functions;
	return COHORT_OK;
}
