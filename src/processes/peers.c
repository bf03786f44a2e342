/* SPDX-License-Identifier: Apache-2.0 */

#include "processes/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "processes/peer_page.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* ---- a process's own page and bell ------------------------------------- */

/* A number that tells the machine from others, and the pid namespace; 0: there
 * is none. */
static uint64_t machine_number(void)
{
	char id[64];
	struct stat pids;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	uint64_t hash;
	ssize_t n;

	n = fd < 0 ? -1 : read(fd, id, sizeof(id));
	if (fd >= 0)
		close(fd);
	if (n <= 0 || stat("/proc/self/ns/pid", &pids))
		return 0;
	hash = hash_bytes(0, id, (size_t)n);
	hash = hash_step(hash_step(hash, pids.st_dev), pids.st_ino);
	return hash ? hash : 1;
}

static size_t page_bytes(const struct peers *p)
{
	return sizeof(struct page) +
	       (size_t)p->processes * sizeof(((struct page *)NULL)->answers[0]);
}

/* Nobody can change its size from now on, or map it to write (Linux 5.1). */
static bool seal(int fd)
{
	const int most = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

	return fcntl(fd, F_ADD_SEALS, most) == 0 ||
	       fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
}

static uint64_t limit_of(int what)
{
	struct rlimit limit;

	return getrlimit(what, &limit) ? 0 : limit.rlim_cur;
}

static struct page *make_page(const struct peers *p, int *fd_out)
{
	struct page *page = MAP_FAILED;
	int fd;

	/* Beyond the limit for files ftruncate() would be a signal. */
	if (limit_of(RLIMIT_FSIZE) < page_bytes(p))
		return NULL;
	fd = memfd_create("cohort", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return NULL;
	if (ftruncate(fd, (off_t)page_bytes(p)) == 0 && fchmod(fd, 0600) == 0)
		page = mmap(NULL, page_bytes(p), PROT_READ | PROT_WRITE,
		            MAP_SHARED, fd, 0);
	if (page != MAP_FAILED && seal(fd) &&
	    madvise(page, page_bytes(p), MADV_DONTFORK) == 0) {
		*fd_out = fd;
		return page;
	}
	if (page != MAP_FAILED)
		munmap(page, page_bytes(p));
	close(fd);
	return NULL;
}

/* Make the page and the bell; without both there is neither, and no machine. */
static void make_own(struct peers *p, struct peer_address *out)
{
	p->page = make_page(p, &p->page_fd);
	if (!p->page)
		return;
	if (getrandom(&out->token, sizeof(out->token), 0) !=
	            (ssize_t)sizeof(out->token) ||
	    pipe2(p->bell, O_CLOEXEC | O_NONBLOCK)) {
		munmap(p->page, page_bytes(p));
		close(p->page_fd);
		p->page = NULL;
		return;
	}
	p->page->magic = PAGE_MAGIC;
	p->page->token = out->token;
	out->machine = machine_number();
	out->page = p->page_fd;
	out->bell = p->bell[1];
}

int peers_create(int process, int processes, const char *group,
                 struct peer_address *out, struct peers **peers)
{
	const size_t n = (size_t)processes;
	struct peers *p = calloc(1, sizeof(*p) + n * sizeof(p->peers[0]));
	int i;

	if (!p)
		return error_set(COHORT_NO_MEMORY, "no memory for %d processes",
		                 processes);
	*out = (struct peer_address){ .pid = getpid() };
	atomic_store(&p->references, 1);
	p->remote = remote_near;
	p->process = process;
	p->processes = processes;
	for (i = 0; i < processes; i++)
		p->peers[i].pidfd = p->peers[i].bell = p->peers[i].end = -1;
	text_copy(p->group, sizeof(p->group), group);
	gethostname(p->host, sizeof(p->host) - 1);
	lock_init(&p->lock);
	lock_init(&p->line_lock);
	/* Alone it is watched by nobody. */
	if (processes > 1)
		make_own(p, out);
	*peers = p;
	return COHORT_OK;
}

/* ---- the others' ------------------------------------------------------- */

/* Open descriptor @fd of process @pid once more. */
static int open_of(int64_t pid, int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%lld/fd/%d", (long long)pid, fd);
	return open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Map the page behind @fd if it is one, and cannot shrink under its readers. */
static struct page *map_page(const struct peers *p, int fd, uint64_t token)
{
	const int least = F_SEAL_SHRINK | F_SEAL_GROW;
	const int seals = fcntl(fd, F_GET_SEALS); /* -1: it cannot have any */
	struct page *page;
	struct stat s;

	if (fstat(fd, &s) || s.st_uid != geteuid() ||
	    s.st_size != (off_t)page_bytes(p) || seals < 0 ||
	    (seals & least) != least)
		return NULL;
	page = mmap(NULL, page_bytes(p), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return NULL;
	if (page->magic == PAGE_MAGIC && page->token == token)
		return page;
	munmap(page, page_bytes(p));
	return NULL;
}

static bool is_pipe(int fd)
{
	struct stat s;

	return fstat(fd, &s) == 0 && S_ISFIFO(s.st_mode);
}

static bool is_unknown(int64_t pid)
{
	return kill((pid_t)pid, 0) && errno == ESRCH;
}

/* Open what the address tells of.  The pidfd comes first: if the page is the
 * right one, that process had the pid before, too.
 *
 * A process may have ended since it sent the address, or be about to: then its
 * number is unknown, or its descriptors are gone. */
static void connect_one(const struct peers *p, struct peer *x,
                        const struct peer_address *a)
{
	int fd;

	x->pid = a->pid;
	x->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)a->pid, 0);
	if (x->pidfd < 0 && errno != ENOSYS && errno != EPERM) {
		if (errno == ESRCH)
			atomic_store(&x->state, PEER_ENDED);
		return;
	}
	fd = open_of(a->pid, a->page, O_RDONLY);
	x->page = fd < 0 ? NULL : map_page(p, fd, a->token);
	if (fd >= 0)
		close(fd);
	x->bell = x->page ? open_of(a->pid, a->bell, O_WRONLY) : -1;
	if (x->bell >= 0 && is_pipe(x->bell)) {
		atomic_store(&x->state, PEER_HERE);
		return;
	}
	if (x->bell >= 0)
		close(x->bell);
	if (x->page)
		munmap(x->page, page_bytes(p));
	x->page = NULL;
	x->bell = -1;
	if (x->pidfd >= 0)
		atomic_store(&x->state, PEER_UNCLEAR);
	else if (is_unknown(a->pid))
		atomic_store(&x->state, PEER_ENDED);
}

static void disconnect(const struct peers *p, struct peer *x)
{
	if (x->page && x->is_far)
		peer_free_far(x);
	else if (x->page)
		munmap(x->page, page_bytes(p));
	if (x->bell >= 0)
		close(x->bell);
	if (x->pidfd >= 0)
		close(x->pidfd);
	x->page = NULL;
	x->pidfd = x->bell = -1;
}

/* Two descriptors for each process must leave room for the program's. */
static bool has_room_for(const struct peers *p)
{
	return 4 * (uint64_t)p->processes <= limit_of(RLIMIT_NOFILE);
}

static bool is_on_one_machine(const struct peers *p,
                              const struct peer_address *all)
{
	int i;

	for (i = 0; i < p->processes; i++)
		if (!all[i].machine || all[i].machine != all[0].machine)
			return false;
	return true;
}

/* If one is far, all are, so that what reaches the others is the same for
 * all. */
static void connect_all(struct peers *p, const struct peer_address *all,
                        bool has_line)
{
	const bool are_far = has_line && !is_on_one_machine(p, all);
	const uint64_t machine = all[p->process].machine;
	int i;

	for (i = 0; i < p->processes; i++) {
		if (i == p->process)
			continue;
		if (are_far && peer_make_far(&p->peers[i]))
			p->peers[i].pid = all[i].pid;
		if (!are_far && machine && all[i].machine == machine &&
		    has_room_for(p))
			connect_one(p, &p->peers[i], &all[i]);
	}
}

/* A message to a process of another host passes the launcher's.  So a question
 * and its answer pass the network between hosts four times at the most. */
#define FAR_NS UINT64_C(600000000)

void peers_connect(struct peers *p, const struct peer_address *all,
                   const struct peer_line *line)
{
	bool has_any = false, has_far = false;
	int i;

	if (p->page)
		connect_all(p, all, line != NULL);
	for (i = 0; i < p->processes; i++) {
		has_any |= peer_may_end(&p->peers[i]);
		has_far |= p->peers[i].is_far;
	}
	if (has_far)
		p->remote.patience_ns = FAR_NS;
	p->has_thread = has_any && peers_start(p);
	if (p->has_thread && has_far) {
		p->line = line;
		line->listen(line->info, p);
	}
	if (p->has_thread)
		return;
	for (i = 0; i < p->processes; i++) {
		if (peer_may_end(&p->peers[i]))
			atomic_store(&p->peers[i].state, PEER_UNWATCHED);
		disconnect(p, &p->peers[i]);
	}
}

void peers_settle(struct peers *p)
{
	atomic_store(&p->is_settled, true);
}

uint64_t peers_patience_ns(const struct peers *p)
{
	return p->remote.patience_ns;
}

void peers_get(struct peers *p)
{
	atomic_fetch_add(&p->references, 1);
}

void peers_put(struct peers *p)
{
	int i;

	if (atomic_fetch_sub(&p->references, 1) > 1)
		return;
	for (i = 0; i < p->processes; i++)
		disconnect(p, &p->peers[i]);
	if (p->page) {
		munmap(p->page, page_bytes(p));
		close(p->page_fd);
		close(p->bell[0]);
		close(p->bell[1]);
	}
	pthread_mutex_destroy(&p->line_lock);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* From now on nothing is sent or heard. */
static void hang_up(struct peers *p)
{
	const struct peer_line *line;

	pthread_mutex_lock(&p->line_lock);
	line = p->line;
	p->line = NULL;
	pthread_mutex_unlock(&p->line_lock);
	if (line)
		line->listen(line->info, NULL);
}

void peers_leave(struct peers *p)
{
	if (p->page)
		atomic_store_explicit(&p->page->has_left, 1,
		                      memory_order_release);
	peers_send(p, -1, MESSAGE_LEFT, 0, 0, NULL, 0);
	hang_up(p);
	if (p->has_thread) {
		atomic_store(&p->stop, true);
		peer_ring(p->bell[1]);
		pthread_join(p->thread, NULL);
	}
	peers_set_ranks(p, NULL);
	peers_put(p);
}

bool peers_watches(const struct peers *p, int i)
{
	return i == p->process || p->peers[i].page;
}

bool peers_has_ended(const struct peers *p, int i)
{
	return atomic_load(&p->peers[i].state) == PEER_ENDED;
}

void peers_add_end(const struct peers *p, int i, struct text *t)
{
	thread_add_end(t, p->peers[i].end);
}
