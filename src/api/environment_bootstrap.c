/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The file has a slot for each process.  A process holds a lock on a byte of the
 * file.  The system releases the lock when the process ends, however it ends, so
 * the others can tell which processes are alive.
 *
 * In round k each process writes its record to half k % 2 of its slot, and then
 * k to its round.  Nobody can be more than one round ahead, so nobody overwrites a
 * half that is still being read.
 */

#include "api/own_bootstrap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/launcher.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/cause.h"

#define FILE_MAGIC UINT32_C(0x63684543)

struct header {
	uint32_t magic;
	uint32_t processes;
	uint64_t bytes; /* of a record */
};

struct slot {
	/* Atomic; the round whose record was written last, from 1.  Release and
	 * acquire: the record. */
	_Atomic uint64_t round;
	_Atomic uint64_t pid;

	/* Atomic; 1: the process has left before all had come. */
	_Atomic uint64_t has_left;
	char records[]; /* two */
};

struct environment_bootstrap {
	/* Guarded by lock. */
	struct environment_bootstrap *next;
	uint64_t name; /* a hash of job and group */

	int process, processes;
	size_t bytes, slot_bytes, file_bytes;
	char path[128]; /* as shm_open() takes it */
	int file;
	char *memory;
	uint64_t round;   /* of the last request */
	void *recv;       /* of that */
	int gone;         /* the process whose end has failed it, -1: none */
	bool is_in;       /* it has its slot */
	bool is_complete; /* a round was done: all have the file open */
};

/* ---- the name of the file ---------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock: those whose file has a name, or may have.  Locks of a file are
 * the process's, so that it opens each file once. */
static struct environment_bootstrap *list;

static int enlist(struct environment_bootstrap *e)
{
	const struct environment_bootstrap *other;

	pthread_mutex_lock(&lock);
	for (other = list; other && other->name != e->name; other = other->next)
		;
	if (!other) {
		e->next = list;
		list = e;
	}
	pthread_mutex_unlock(&lock);
	return !other ? COHORT_OK
	              : error_set(COHORT_STATE,
	                          "another group of the name is being opened");
}

static void unlist(struct environment_bootstrap *e)
{
	struct environment_bootstrap **at = &list;

	pthread_mutex_lock(&lock);
	while (*at && *at != e)
		at = &(*at)->next;
	if (*at)
		*at = e->next;
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

/* A process holds the door for a moment, unless it is stopped there. */
#define DOOR_NS (10 * UINT64_C(1000000000))

static bool lock_door(const struct environment_bootstrap *e)
{
	const uint64_t deadline = clock_deadline(DOOR_NS);
	struct backoff b = BACKOFF;

	while (!lock_byte(e, DOOR, F_WRLCK)) {
		if (clock_now() >= deadline)
			return false;
		backoff_wait(&b, deadline);
	}
	return true;
}

/* Another process that holds one of these bytes, 0: none does. */
static pid_t holder(const struct environment_bootstrap *e, int first, int count)
{
	struct flock l = range(F_WRLCK, first, count);

	/* A holder in another namespace of processes has number 0 or -1 here. */
	if (fcntl(e->file, F_GETLK, &l) || l.l_type == F_UNLCK)
		return 0;
	return l.l_pid > 0 ? l.l_pid : -1;
}

static bool is_alone(const struct environment_bootstrap *e)
{
	return !holder(e, SLOT(0), 0);
}

/* ---- the file ---------------------------------------------------------- */

static struct slot *slot(const struct environment_bootstrap *e, int i)
{
	return (struct slot *)(e->memory + sizeof(struct header) +
	                       (size_t)i * e->slot_bytes);
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
	const struct header own = { FILE_MAGIC, (uint32_t)e->processes,
		                    e->bytes };
	const bool is_first = is_alone(e);
	struct stat s;
	int err = 0;

	/* Memory that is there: a full /dev/shm is an error, not a SIGBUS. */
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
	e->memory = mmap(NULL, e->file_bytes, PROT_READ | PROT_WRITE,
	                 MAP_SHARED, e->file, 0);
	if (e->memory == MAP_FAILED) {
		e->memory = NULL;
		return error_set(COHORT_SYSTEM, "/dev/shm%s: %s", e->path,
		                 strerror(errno));
	}
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
		memcpy(e->memory, &own, sizeof(own));
	else if (memcmp(e->memory, &own, sizeof(own)) != 0)
		return error_set(COHORT_INVALID,
		                 "/dev/shm%s is not of this version of the "
		                 "library",
		                 e->path);
	/* What an earlier process of the number has told is void. */
	atomic_store(&slot(e, e->process)->round, 0);
	atomic_store(&slot(e, e->process)->has_left, 0);
	atomic_store(&slot(e, e->process)->pid, (uint64_t)getpid());
	e->is_in = true;
	return COHORT_OK;
}

/* True if the file has no name any more: the last one before has removed it. */
static bool is_removed(const struct environment_bootstrap *e)
{
	struct stat s;

	return !fstat(e->file, &s) && s.st_nlink == 0;
}

/* Open the file, and lock its door. */
static int open_file(struct environment_bootstrap *e)
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
		} else if (!lock_door(e)) {
			rc = error_set(COHORT_SYSTEM,
			               "/dev/shm%s is locked by pid %d",
			               e->path, (int)holder(e, DOOR, 1));
		}
	} while (rc == COHORT_OK && is_removed(e));
	return rc;
}

/* With the door locked: remove the name, unless it is another file's. */
static void remove_name(const struct environment_bootstrap *e)
{
	char path[sizeof(e->path) + 16];
	struct stat own, named;

	snprintf(path, sizeof(path), "/dev/shm%s", e->path);
	if (!fstat(e->file, &own) && !stat(path, &named) &&
	    own.st_dev == named.st_dev && own.st_ino == named.st_ino)
		shm_unlink(e->path);
}

/* Everybody has the file: it needs no name, and a next try gets another. */
static void all_have_come(struct environment_bootstrap *e)
{
	if (e->is_complete)
		return;
	e->is_complete = true;
	if (lock_door(e)) {
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
		atomic_store(&slot(e, e->process)->has_left, 1);
		atomic_store(&slot(e, e->process)->round, 0);
	}
	if (lock_door(e) && (e->is_complete || is_alone(e)))
		remove_name(e);
	if (e->memory)
		munmap(e->memory, e->file_bytes);
	close(e->file);
}

/* ---- gathering --------------------------------------------------------- */

static char *record(const struct environment_bootstrap *e, int i)
{
	return slot(e, i)->records + (e->round & 1) * e->bytes;
}

static bool has_come(const struct environment_bootstrap *e, int i)
{
	return atomic_load_explicit(&slot(e, i)->round, memory_order_acquire) >=
	       e->round;
}

static int gather(void *send, void *recv, size_t bytes, void *info,
                  void **request)
{
	struct environment_bootstrap *e = info;

	e->round++;
	e->recv = recv;
	e->gone = -1;
	memcpy(record(e, e->process), send, bytes);
	atomic_store_explicit(&slot(e, e->process)->round, e->round,
	                      memory_order_release);
	*request = e;
	return 0;
}

/* True if process @i has left before all had come. */
static bool has_left(const struct environment_bootstrap *e, int i)
{
	return atomic_load(&slot(e, i)->has_left);
}

/* True if process @i has been here, and has ended without coming to this
 * round. */
static bool has_ended(const struct environment_bootstrap *e, int i)
{
	return atomic_load(&slot(e, i)->pid) && i != e->process &&
	       !holder(e, SLOT(i), 1) && !has_come(e, i) && !has_left(e, i);
}

static bool all_are_here(const struct environment_bootstrap *e)
{
	int i = 0;

	while (i < e->processes && has_come(e, i))
		i++;
	return i == e->processes;
}

/* True if somebody else has removed the file's name: those that have not come yet will
 * make another file.  The last process to come removes it, but has come then. */
static bool is_lost(const struct environment_bootstrap *e)
{
	return !e->is_complete && is_removed(e) && !all_are_here(e);
}

/* The first process that nobody needs to wait for, -1: there is none.  One that has left
 * is named only if all others are here: if not, the time of all ends soon, because of the
 * process that has not come. */
static int find_gone(const struct environment_bootstrap *e)
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

	e->gone = find_gone(e);
	if (e->gone >= 0)
		return -1;
	if (!all_are_here(e))
		return is_lost(e) ? -1 : 1;
	for (int i = 0; i < e->processes; i++)
		memcpy((char *)e->recv + (size_t)i * e->bytes, record(e, i),
		       e->bytes);
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
                  size_t bytes)
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
	e->slot_bytes = sizeof(struct slot) + 2 * bytes;
	e->slot_bytes = (e->slot_bytes + 63) / 64 * 64;
	e->file_bytes =
		sizeof(struct header) + (size_t)e->processes * e->slot_bytes;
	rc = name_file(e, l, name);
	if (rc == COHORT_OK)
		rc = open_file(e);
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

	if (e->gone >= 0) {
		text_add(t, "; process %d (pid %llu) has ended, or has left",
		         e->gone,
		         (unsigned long long)atomic_load(
				 &slot(e, e->gone)->pid));
		return;
	}
	for (i = 0; i < e->processes; i++)
		if (has_come(e, i) || has_left(e, i))
			rank_set_add(came, i);
	bootstrap_add_absent(came, e->processes, t);
	if (is_lost(e))
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
	free(e);
}

int environment_bootstrap_create(const char *name, size_t bytes,
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
	rc = create(e, name, bytes);
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
