/* SPDX-License-Identifier: Apache-2.0 */

#include "processes/peers_join.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/thread.h"
#include "processes/peer_page.h"

/* Descriptor in the address of a process that could not join. */
#define FAILED (-1)

/* The file has an address for each rank.  It is accessed with system calls, for
 * the reason given in environment_bootstrap.c. */
struct peers_join {
	struct peers *peers;
	struct peer_address address; /* of this process */
	char path[64];               /* name for shm_open() */
	int file;
	int size; /* number of ranks in all processes */
};

/* Open the file, unless another user could have written to it. */
static int open_file(const char *path)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
	int file = shm_open(path, flags, 0600);
	struct stat s;

	if (file < 0 || (fstat(file, &s) == 0 && S_ISREG(s.st_mode) &&
	                 s.st_uid == geteuid() && !(s.st_mode & 077)))
		return file;
	close(file);
	return -1;
}

struct peers_join *peers_join_begin(const void *id, size_t bytes, int size,
                                    const char *name)
{
	struct peers_join *j = calloc(1, sizeof(*j));

	if (!j || peers_create(0, size, name, &j->address, &j->peers)) {
		free(j);
		return NULL;
	}
	j->size = size;
	snprintf(j->path, sizeof(j->path), "/cohort-%u-join-%016llx",
	         (unsigned)geteuid(),
	         (unsigned long long)hash_bytes(0, id, bytes));
	j->file = j->address.machine ? open_file(j->path) : -1;
	if (j->file >= 0)
		return j;
	peers_leave(j->peers);
	free(j);
	return NULL;
}

void peers_join_add(const struct peers_join *j, int rank)
{
	const size_t bytes = sizeof(j->address);

	/* If this fails, the rank is not watched. */
	(void)!pwrite(j->file, &j->address, bytes, (off_t)bytes * rank);
}

/* Read the addresses of all ranks.  The address of a rank that was not added
 * is zero. */
static void read_addresses(const struct peers_join *j, struct peer_address *out)
{
	const size_t bytes = (size_t)j->size * sizeof(*out);

	memset(out, 0, bytes);
	(void)!pread(j->file, out, bytes, 0);
}

void peers_join_list(const struct peers_join *j, uint64_t *ranks)
{
	struct peer_address all[COHORT_MAX_RANKS];
	int r;

	read_addresses(j, all);
	for (r = 0; r < j->size; r++)
		if (all[r].pid)
			rank_set_add(ranks, r);
}

/* Return true if the process at @a, which has not connected all its ranks, has
 * ended or failed, and append which. */
static bool cannot_connect(const struct peer_address *a, struct text *why)
{
	struct pollfd polled = { .events = POLLIN };
	bool has_ended;

	if (a->page == FAILED) {
		text_add(why, "has given up");
		return true;
	}
	polled.fd = (int)syscall(SYS_pidfd_open, (pid_t)a->pid, 0);
	has_ended = polled.fd >= 0 ? poll(&polled, 1, 0) > 0 : errno == ESRCH;
	if (has_ended)
		thread_add_end(why, thread_process_end(a->pid, polled.fd));
	if (polled.fd >= 0)
		close(polled.fd);
	return has_ended;
}

bool peers_join_is_futile(const struct peers_join *j, struct text *why)
{
	struct peer_address all[COHORT_MAX_RANKS];
	char how[64] = "";
	struct text t = { how, sizeof(how) };
	int r = 0;

	read_addresses(j, all);
	while (r < j->size &&
	       (!all[r].pid || all[r].token == j->address.token ||
	        !cannot_connect(&all[r], &t)))
		r++;
	if (r == j->size)
		return false;
	text_add(why, "rank %d cannot join: its process (pid %lld) %s", r,
	         (long long)all[r].pid, how);
	return true;
}

/* Number the processes by their lowest ranks.  Store their addresses in @out
 * and their ranks in the peers, and return their number. */
static int number_processes(const struct peers_join *j,
                            struct peer_address *out)
{
	struct peer_address all[COHORT_MAX_RANKS];
	struct peers *p = j->peers;
	int r, i, n = 0;

	read_addresses(j, all);
	SCOPED_LOCK(&p->lock);
	for (r = 0; r < j->size; r++) {
		if (!all[r].pid)
			continue;
		for (i = 0; i < n && out[i].token != all[r].token; i++)
			;
		if (i == n)
			out[n++] = all[r];
		rank_set_add(p->peers[i].ranks, r);
		if (all[r].token == j->address.token)
			p->process = i;
	}
	return n;
}

/* Free everything but the peers. */
static void join_free(struct peers_join *j)
{
	shm_unlink(j->path);
	close(j->file);
	free(j);
}

struct peers *peers_join_connect(struct peers_join *j)
{
	struct peer_address all[COHORT_MAX_RANKS] = { { 0 } };
	struct peers *p = j->peers;

	if (number_processes(j, all) < 2) {
		peers_leave(p);
		join_free(j);
		return NULL;
	}
	join_free(j);
	peers_connect(p, all, NULL);
	return p;
}

void peers_join_abandon(struct peers_join *j, int status)
{
	struct peer_address all[COHORT_MAX_RANKS];
	int r;

	/* The other processes have timeouts of their own. */
	if (status != COHORT_INIT_TIMEOUT) {
		read_addresses(j, all);
		j->address.page = FAILED;
		for (r = 0; r < j->size; r++)
			if (all[r].token == j->address.token)
				peers_join_add(j, r);
	}
	peers_leave(j->peers);
	join_free(j);
}

/* Return the error of a process that has not attached its clique. */
static int error_of(const struct peers *p, const int64_t *all,
                    const uint64_t *came, const struct patience *patience)
{
	char names[256] = "";
	struct text t = { names, sizeof(names) };
	int i;

	for (i = 0; i < p->processes; i++) {
		if (!peers_watches(p, i) || i == p->process ||
		    (rank_set_has(came, i) && all[i] == COHORT_OK))
			continue;
		text_add(&t, "%s", *names ? ", " : "");
		peers_name(p, i, &t);
		if (rank_set_has(came, i))
			return error_set(status_sanitize((int)all[i]),
			                 "%s could not join: %s", names,
			                 cohort_status_text((int)all[i]));
	}
	return error_set(COHORT_INIT_TIMEOUT, "not joined by %s within %llu ms",
	                 names,
	                 (unsigned long long)(patience->timeout_ns / 1000000));
}

int peers_join_agree(struct peers *p, int status,
                     const struct patience *patience)
{
	uint64_t came[COHORT_RANK_WORDS];
	int64_t mine = status, all[COHORT_MAX_RANKS];
	int i, rc = peers_gather(p, &mine, sizeof(mine), all, came, patience);

	if (status != COHORT_OK)
		return status;
	if (rc == COHORT_ABORTED)
		return patience_error(patience);
	for (i = 0; i < p->processes && rc == COHORT_OK; i++)
		if (rank_set_has(came, i) && all[i] != COHORT_OK)
			rc = (int)all[i];
	peers_settle(p);
	return rc == COHORT_OK ? rc : error_of(p, all, came, patience);
}
