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

#include "base/backoff.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "processes/peer_page.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* ---- a process's own page and wake pipe ------------------------------ */

/* Return a number that identifies the machine and the pid namespace, or 0 if it
 * cannot be determined. */
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

/* Seal the page, so that its size cannot change and, from Linux 5.1 on, no
 * other process can map it writable. */
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

	/* Checked because ftruncate() beyond this limit would raise SIGXFSZ. */
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

/* Create this process's page and wake pipe.  If either fails, create neither,
 * and leave out->machine at 0. */
static void make_own(struct peers *p, struct peer_address *out)
{
	p->page = make_page(p, &p->page_fd);
	if (!p->page)
		return;
	if (getrandom(&out->token, sizeof(out->token), 0) !=
	            (ssize_t)sizeof(out->token) ||
	    pipe2(p->wake_pipe, O_CLOEXEC | O_NONBLOCK)) {
		munmap(p->page, page_bytes(p));
		close(p->page_fd);
		p->page = NULL;
		return;
	}
	p->page->magic = PAGE_MAGIC;
	p->page->token = out->token;
	out->machine = machine_number();
	out->page = p->page_fd;
	out->wake_pipe = p->wake_pipe[1];
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
		p->peers[i].pidfd = p->peers[i].wake_pipe = p->peers[i].end =
			-1;
	text_copy(p->group, sizeof(p->group), group);
	gethostname(p->host, sizeof(p->host) - 1);
	lock_init(&p->lock);
	lock_init(&p->line_lock);
	/* Without other processes, no process would read the page. */
	if (processes > 1)
		make_own(p, out);
	*peers = p;
	return COHORT_OK;
}

/* ---- pages of other processes ------------------------------------------ */

/* Open descriptor @fd of process @pid through /proc. */
static int open_of(int64_t pid, int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%lld/fd/%d", (long long)pid, fd);
	return open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

/* Map the page that @fd refers to, if the file is a page and is sealed, so that
 * it cannot shrink while it is read. */
static struct page *map_page(const struct peers *p, int fd, uint64_t token)
{
	const int least = F_SEAL_SHRINK | F_SEAL_GROW;
	const int seals = fcntl(fd, F_GET_SEALS); /* -1 if it cannot be
	                                           * sealed */
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

/* Open the page and the wake pipe of one process.  The pidfd is opened first:
 * if the page then proves to be the right one, its process still had the pid
 * when the pidfd was opened.
 *
 * The process may be ending, or may have ended after it sent the address.  In
 * these cases its pid is unknown, or its descriptors cannot be opened. */
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
	x->wake_pipe = x->page ? open_of(a->pid, a->wake_pipe, O_WRONLY) : -1;
	if (x->wake_pipe >= 0 && is_pipe(x->wake_pipe)) {
		atomic_store(&x->state, PEER_HERE);
		return;
	}
	if (x->wake_pipe >= 0)
		close(x->wake_pipe);
	if (x->page)
		munmap(x->page, page_bytes(p));
	x->page = NULL;
	x->wake_pipe = -1;
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
	if (x->wake_pipe >= 0)
		close(x->wake_pipe);
	if (x->pidfd >= 0)
		close(x->pidfd);
	x->page = NULL;
	x->pidfd = x->wake_pipe = -1;
}

/* Return true if the process can open two descriptors for each other process
 * and still leave enough for the program. */
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

/* Connect to all other processes.  If there is a line and any process is far,
 * treat all processes as far, so that each message is sent to all of them in
 * the same way. */
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
		close(p->wake_pipe[0]);
		close(p->wake_pipe[1]);
	}
	pthread_mutex_destroy(&p->line_lock);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Stop sending and receiving messages. */
static void close_line(struct peers *p)
{
	const struct peer_line *line;

	pthread_mutex_lock(&p->line_lock);
	line = p->line;
	p->line = NULL;
	pthread_mutex_unlock(&p->line_lock);
	if (line)
		line->listen(line->info, NULL);
}

void peers_announce_leave(struct peers *p)
{
	if (p->page) {
		atomic_store_explicit(&p->page->has_left, 1,
		                      memory_order_release);
		peers_request_wake(p);
	}
	peers_send(p, -1, MESSAGE_LEFT, 0, 0, NULL, 0);
}

void peers_leave(struct peers *p)
{
	peers_announce_leave(p);
	close_line(p);
	if (p->has_thread) {
		atomic_store(&p->stop, true);
		peer_wake(p->wake_pipe[1]);
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

/* ---- exchanging records among the processes that have not ended --------- */

static bool has_contributed(const struct page *page, uint64_t exchange)
{
	return atomic_load_explicit(&page->exchange, memory_order_acquire) >=
	       exchange;
}

/* Return true if a process will make no further contribution.  If so, its
 * earlier contributions are visible. */
static bool is_gone(const struct peer *x)
{
	const int state = atomic_load(&x->state);

	return state == PEER_ENDED || state == PEER_LEFT;
}

/* Wait for the contribution of a process.  Return COHORT_OK, COHORT_ALREADY if
 * the process will not contribute, COHORT_TIMED_OUT or COHORT_ABORTED. */
static int await_contribution(const struct peer *x, uint64_t exchange,
                              const struct patience *patience,
                              uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;
	bool gone;

	for (;;) {
		gone = is_gone(x); /* read before has_contributed() */
		if (has_contributed(x->page, exchange))
			return COHORT_OK;
		if (gone)
			return COHORT_ALREADY;
		if (patience_is_aborted(patience))
			return COHORT_ABORTED;
		if (clock_now() >= deadline_ns)
			return COHORT_TIMED_OUT;
		backoff_wait(&b, deadline_ns);
	}
}

int peers_gather(struct peers *p, const void *mine, size_t bytes, void *out,
                 uint64_t *came, const struct patience *patience)
{
	const uint64_t deadline_ns = clock_deadline(patience->timeout_ns);
	const uint64_t n = ++p->exchange;
	const size_t words = bytes / sizeof(uint64_t);
	const struct page *page;
	int i, rc = COHORT_OK, one;

	put_words(p->page->contribution[n % 2], mine, words);
	atomic_store_explicit(&p->page->exchange, n, memory_order_release);
	peers_send(p, -1, MESSAGE_RECORD, 0, n, mine, bytes);
	memset(came, 0, COHORT_RANK_WORDS * sizeof(*came));
	for (i = 0; i < p->processes; i++) {
		page = i == p->process ? p->page : p->peers[i].page;
		if (!page)
			continue;
		one = i == p->process
		              ? COHORT_OK
		              : await_contribution(&p->peers[i], n, patience,
		                                   deadline_ns);
		if (one == COHORT_TIMED_OUT || one == COHORT_ABORTED)
			rc = one;
		if (one != COHORT_OK)
			continue;
		get_words((char *)out + (size_t)i * bytes,
		          page->contribution[n % 2], words);
		rank_set_add(came, i);
	}
	return rc;
}
