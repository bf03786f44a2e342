/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bootstrap that lets the processes of one machine find each other through a
 * file
 *
 * The file has a slot for each process.  A process holds a lock on one byte of
 * the file.  The system releases the lock when the process ends, no matter how
 * it ends, so the other processes know which processes are alive.
 *
 * Each process has two records.  In round k it writes record k % 2, and then
 * writes k to its slot.  No process can be more than one round ahead, so no
 * process overwrites a record that is still being read.
 *
 * The file is accessed with system calls, because access to a mapping would
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
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/cause.h"
#include "processes/launcher.h"

#define FILE_MAGIC UINT32_C(0x63684543)

struct header {
	uint32_t magic;
	uint32_t processes;
	uint64_t bytes; /* size of a record */
};

/* Entry of a process in the file.  Only that process writes it.  The slots
 * follow the header; two records per process follow the slots. */
struct slot {
	uint64_t round; /* round of the last record written; the first is 1 */
	uint64_t pid;
	/* 1 if the process left before all processes had arrived */
	uint64_t has_left;
};

struct view {
	struct header header;
	struct slot slots[];
};

struct environment_bootstrap {
	/* Next in the list.  Guarded by lock. */
	struct environment_bootstrap *next;
	uint64_t name; /* hash of the job and the group's name */

	int process, processes;
	size_t bytes, file_bytes;
	char path[128]; /* name for shm_open() */
	int file;
	bool is_damaged; /* the file was truncated or overwritten */
	/* True if the file was removed before all processes had arrived. */
	bool is_lost;
	struct slot own; /* this process's slot as last written */
	uint64_t round;  /* round of the last request */
	void *recv;      /* destination of the records of the current round */
	int gone;        /* process whose end made the round fail; -1 if none */
	uint64_t timeout_ns; /* maximum time to open the group */
	bool has_entered;    /* this process has locked DOOR at least once */
	bool is_in;          /* this process has its slot in the file */
	/* A round was completed, so all processes have opened the file. */
	bool is_complete;

	struct view *view; /* copy of the header and all slots as last read */
};

/* ---- the name of the file ---------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* List of the bootstraps whose file has, or may have, a name.  Guarded by lock.
 * File locks belong to the process, not to the descriptor, so a process must
 * not open the same file twice. */
static struct environment_bootstrap *list;

static int enlist(struct environment_bootstrap *e)
{
	const struct environment_bootstrap *other;

	SCOPED_LOCK(&lock);
	list_find(other, list, next, other->name == e->name);
	if (!other)
		list_add(list, e, next);
	return !other ? COHORT_OK
	              : error_set(COHORT_STATE,
	                          "this process is opening another group of "
	                          "the same name: give each group its own "
	                          "options->name");
}

static void unlist(struct environment_bootstrap *e)
{
	SCOPED_LOCK(&lock);
	list_remove(list, e, next);
}

void bootstrap_file_name(uint64_t job, char *out, size_t size)
{
	snprintf(out, size, "/cohort-%u-%08x-", (unsigned)geteuid(),
	         (unsigned)job);
}

static int name_file(struct environment_bootstrap *e, const struct launcher *l,
                     const char *name)
{
	e->name = launcher_hash(l, name);
	bootstrap_file_name(launcher_job(l), e->path, sizeof(e->path));
	text_append(e->path, sizeof(e->path), "%016llx",
	            (unsigned long long)e->name);
	return enlist(e);
}

/* ---- locks ------------------------------------------------------------- */

/* Offsets of lockable bytes.  A process locks DOOR while it opens or leaves the
 * file, and keeps its SLOT locked until it leaves or ends.  DOOR is at the same
 * offset for any number of processes. */
#define DOOR 0
#define SLOT(process) (1 + (process))

static struct flock range(int type, int first, int count)
{
	return (struct flock){
		.l_type = (short)type,
		.l_whence = SEEK_SET,
		.l_start = first,
		.l_len = count, /* 0 means to the end */
	};
}

/* Set the lock of one byte without waiting. */
static bool lock_byte(const struct environment_bootstrap *e, int byte, int type)
{
	struct flock l = range(type, byte, 1);

	return fcntl(e->file, F_SETLK, &l) == 0;
}

/* Lock DOOR.  Other processes hold it only briefly, unless they are stopped.
 * On failure, errno is EAGAIN if another process holds DOOR.  Any other errno
 * means that the file system does not support locks. */
static bool lock_init_byte(const struct environment_bootstrap *e,
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

/* Lock DOOR again to remove the file's name.  If this takes too long, the name
 * stays, and the next group of that name reinitializes the file. */
static bool lock_init_byte_again(const struct environment_bootstrap *e)
{
	const struct patience moment = {
		.timeout_ns = MIN(e->timeout_ns, NS_PER_S),
	};

	return e->has_entered && lock_init_byte(e, &moment);
}

/* Return the pid of another process that has locked one of the @count bytes at
 * offset @first, -1 if its pid is unknown, or 0 if there is no such process. */
static pid_t holder(const struct environment_bootstrap *e, int first, int count)
{
	struct flock l = range(F_WRLCK, first, count);

	/* F_GETLK reports 0 or -1 for a process in another pid namespace. */
	if (fcntl(e->file, F_GETLK, &l) || l.l_type == F_UNLCK)
		return 0;
	return l.l_pid > 0 ? l.l_pid : -1;
}

static bool is_alone(const struct environment_bootstrap *e)
{
	return !holder(e, SLOT(0), 0);
}

/* ---- the file ---------------------------------------------------------- */

static int file_error(const struct environment_bootstrap *e, int err)
{
	return error_set(COHORT_SYSTEM, "/dev/shm%s: %s", e->path,
	                 strerror(err));
}

static struct header own_header(const struct environment_bootstrap *e)
{
	return (struct header){ FILE_MAGIC, (uint32_t)e->processes, e->bytes };
}

static off_t slot_at(int i)
{
	return (off_t)(sizeof(struct header) + (size_t)i * sizeof(struct slot));
}

/* Return the file offset of process @i's record of the current round. */
static off_t record_at(const struct environment_bootstrap *e, int i)
{
	const size_t k = 2 * (size_t)i + (e->round & 1);

	return slot_at(e->processes) + (off_t)(k * e->bytes);
}

static bool write_at(struct environment_bootstrap *e, off_t at,
                     const void *data, size_t bytes)
{
	const bool ok = pwrite(e->file, data, bytes, at) == (ssize_t)bytes;

	e->is_damaged |= !ok;
	return ok;
}

static bool read_at(struct environment_bootstrap *e, off_t at, void *data,
                    size_t bytes)
{
	const bool ok = pread(e->file, data, bytes, at) == (ssize_t)bytes;

	e->is_damaged |= !ok;
	return ok;
}

static bool put_slot(struct environment_bootstrap *e)
{
	const struct slot own = e->own;

	/* The record was written before the slot.  According to POSIX, a
	 * process that reads the new slot from the file therefore reads the new
	 * record as well. */
	return write_at(e, slot_at(e->process), &own, sizeof(own));
}

/* Read the header and all slots.  Return false if the file is damaged. */
static bool get_slots(struct environment_bootstrap *e)
{
	const struct header own = own_header(e);

	if (!read_at(e, 0, e->view, (size_t)slot_at(e->processes)))
		return false;
	e->is_damaged |= memcmp(&e->view->header, &own, sizeof(own)) != 0;
	return !e->is_damaged;
}

/* Check that no other user has created the file or can write to it. */
static int file_check(const struct environment_bootstrap *e)
{
	struct stat s;

	if (fstat(e->file, &s))
		return file_error(e, errno);
	if (!S_ISREG(s.st_mode) || s.st_uid != geteuid() || (s.st_mode & 077))
		return error_set(COHORT_SYSTEM,
		                 "/dev/shm%s is not a file that only this user "
		                 "can write to: remove it",
		                 e->path);
	return COHORT_OK;
}

/* Take this process's slot.  If no other process has a slot, first clear the
 * file.  The caller holds DOOR. */
static int begin(struct environment_bootstrap *e)
{
	const struct header own = own_header(e);
	const bool is_first = is_alone(e);
	struct stat s;
	int err = 0;

	/* Reserve the space now, because a later write to a full /dev/shm would
	 * fail. */
	if (is_first)
		err = ftruncate(e->file, 0)
		              ? errno
		              : posix_fallocate(e->file, 0,
		                                (off_t)e->file_bytes);
	if (err)
		return file_error(e, err);
	if (fstat(e->file, &s) || s.st_size != (off_t)e->file_bytes)
		return error_set(
			COHORT_INVALID,
			"this process expects %d processes, but another "
			"process of this job expects a different number or has "
			"a different version of the library",
			e->processes);
	if (holder(e, SLOT(e->process), 1))
		return error_set(COHORT_INVALID,
		                 "process %d of this job is already running "
		                 "(pid %d)",
		                 e->process,
		                 (int)holder(e, SLOT(e->process), 1));
	if (!lock_byte(e, SLOT(e->process), F_WRLCK))
		return file_error(e, errno);
	if (is_first)
		write_at(e, 0, &own, sizeof(own));
	if (!get_slots(e))
		return error_set(COHORT_INVALID,
		                 "/dev/shm%s was created by a different "
		                 "version of the library",
		                 e->path);
	/* Discard what an earlier process with this number has written. */
	e->own = (struct slot){ .pid = (uint64_t)getpid() };
	if (!put_slot(e))
		return file_error(e, errno);
	e->is_in = true;
	return COHORT_OK;
}

/* Return true if the file no longer has a name.  The last process that leaves
 * the file removes the name. */
static bool is_removed(const struct environment_bootstrap *e)
{
	struct stat s;

	return !fstat(e->file, &s) && s.st_nlink == 0;
}

/* Remove the file's name, unless the name belongs to another file now.  The
 * caller holds DOOR, or no process can lock it. */
static void remove_name(const struct environment_bootstrap *e)
{
	char path[sizeof(e->path) + 16];
	struct stat own, named;

	snprintf(path, sizeof(path), "/dev/shm%s", e->path);
	if (!fstat(e->file, &own) && !stat(path, &named) &&
	    own.st_dev == named.st_dev && own.st_ino == named.st_ino)
		shm_unlink(e->path);
}

/* Set the error for a call of lock_init_byte() that has failed.  errno still
 * has the value that lock_init_byte() has set. */
static int init_byte_error(const struct environment_bootstrap *e,
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

/* Open the file and lock its DOOR. */
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
			return file_error(e, errno);
		rc = file_check(e);
		if (rc != COHORT_OK) { /* not ours: do not touch its locks */
			close(e->file);
			e->file = -1;
		} else if (!lock_init_byte(e, patience)) {
			rc = init_byte_error(e, patience);
		}
	} while (rc == COHORT_OK && is_removed(e));
	e->has_entered = rc == COHORT_OK;
	return rc;
}

/* Remove the file's name, because all processes have opened the file.  The next
 * group of this name then gets a new file. */
static void remove_name_when_complete(struct environment_bootstrap *e)
{
	if (e->is_complete)
		return;
	e->is_complete = true;
	if (lock_init_byte_again(e)) {
		remove_name(e);
		lock_byte(e, DOOR, F_UNLCK);
	}
	unlist(e);
}

/* Mark this process as having left, remove the file's name if no process needs
 * it, and close the file, which releases its locks. */
static void leave(struct environment_bootstrap *e)
{
	if (e->file < 0)
		return;
	if (e->is_in && !e->is_complete) {
		e->own.has_left = 1;
		e->own.round = 0;
		put_slot(e);
	}
	if (lock_init_byte_again(e) && (e->is_complete || is_alone(e)))
		remove_name(e);
	close(e->file);
}

/* ---- gathering --------------------------------------------------------- */

/* Return true if process @i has written its record of the current round,
 * according to the slots that were last read. */
static bool has_arrived(const struct environment_bootstrap *e, int i)
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
	if (write_at(e, record_at(e, e->process), send, bytes))
		put_slot(e);
	*request = e;
	return 0;
}

/* Return true if process @i had a slot and has ended without writing its record
 * of the current round. */
static bool has_ended(struct environment_bootstrap *e, int i)
{
	if (!e->view->slots[i].pid || i == e->process || has_arrived(e, i) ||
	    has_left(e, i) || holder(e, SLOT(i), 1))
		return false;
	/* Read the slot again, because the process may have written its record
	 * and ended after the slot was read. */
	return read_at(e, slot_at(i), &e->view->slots[i],
	               sizeof(struct slot)) &&
	       !has_arrived(e, i) && !has_left(e, i);
}

static bool all_have_arrived(const struct environment_bootstrap *e)
{
	int i = 0;

	while (i < e->processes && has_arrived(e, i))
		i++;
	return i == e->processes;
}

/* Return true if another program has removed the file's name, so that processes
 * that arrive later would create another file.  The last process to arrive
 * removes the name as well, but only after all have arrived. */
static bool is_lost(struct environment_bootstrap *e)
{
	return !e->is_complete && is_removed(e) && get_slots(e) &&
	       !all_have_arrived(e);
}

/* Return the first process whose record will never arrive, or -1.  Return a
 * process that has left only after all others have arrived, because until then
 * the wait can time out with an error that names the missing processes. */
static int find_missing_process(struct environment_bootstrap *e)
{
	int i, left = -1;
	bool all_arrived = true;

	for (i = 0; i < e->processes; i++) {
		if (has_ended(e, i))
			return i;
		if (has_left(e, i))
			left = left < 0 ? i : left;
		else
			all_arrived &= has_arrived(e, i);
	}
	return all_arrived ? left : -1;
}

static int test(void *request)
{
	struct environment_bootstrap *e = request;

	if (e->is_damaged || !get_slots(e))
		return -1;
	e->gone = find_missing_process(e);
	if (e->gone >= 0 || e->is_damaged)
		return -1;
	if (!all_have_arrived(e)) {
		e->is_lost = is_lost(e);
		return e->is_lost || e->is_damaged ? -1 : 1;
	}
	for (int i = 0; i < e->processes; i++)
		if (!read_at(e, record_at(e, i),
		             (char *)e->recv + (size_t)i * e->bytes, e->bytes))
			return -1;
	remove_name_when_complete(e);
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
		                 "no launcher has set its variables: start the "
		                 "program with cohort launch, mpirun, srun or "
		                 "torchrun");
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

bool bootstrap_add_stop(int process, int64_t pid, struct text *t)
{
	const char *how = thread_process_stop(pid);

	if (how)
		text_add(t, "; process %d (pid %lld) %s", process,
		         (long long)pid, how);
	return how;
}

void bootstrap_add_absent(const uint64_t *came, int n, struct text *t)
{
	uint64_t absent[COHORT_RANK_WORDS] = { 0 };
	int i, count;

	for (i = 0; i < n; i++)
		if (!rank_set_has(came, i))
			rank_set_add(absent, i);
	count = rank_set_count(absent);
	if (!count)
		return;
	text_add(t, count > 1 ? "; processes " : "; process ");
	rank_set_format(t, absent);
	text_add(t, count > 1 ? " have not arrived" : " has not arrived");
}

static void explain(const void *info, struct text *t)
{
	const struct environment_bootstrap *e = info;
	uint64_t came[COHORT_RANK_WORDS] = { 0 };
	pid_t pid;
	int i;

	if (e->is_damaged) {
		text_add(t,
		         "; /dev/shm%s, by which processes find each other, "
		         "was truncated or overwritten",
		         e->path);
		return;
	}
	if (e->gone >= 0) {
		text_add(t, "; process %d (pid %llu) has ended or left",
		         e->gone,
		         (unsigned long long)e->view->slots[e->gone].pid);
		return;
	}
	for (i = 0; i < e->processes; i++) {
		pid = holder(e, SLOT(i), 1);
		if (has_arrived(e, i) || has_left(e, i) ||
		    (pid > 0 && bootstrap_add_stop(i, pid, t)))
			rank_set_add(came, i);
	}
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
