/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/peers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#include "watch/peer_page.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* ---- a process's own page and bell ------------------------------------- */

/* A number that tells the machine from others, and the pid namespace: 0: there is
 * none. */
static uint64_t machine_number(void)
{
	char id[64] = "";
	struct stat pids;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	uint64_t hash = 0;
	ssize_t n, i;

	n = fd < 0 ? -1 : read(fd, id, sizeof(id));
	if (fd >= 0)
		close(fd);
	if (n <= 0 || stat("/proc/self/ns/pid", &pids))
		return 0;
	for (i = 0; i < n; i++)
		hash = hash_step(hash, (unsigned char)id[i]);
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

static uint64_t limit_of(__rlimit_resource_t what)
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

/* Make the page and the bell; without both there is none. */
static void make_own(struct peers *p, struct peer_address *out)
{
	out->machine = machine_number();
	p->page = out->machine ? make_page(p, &p->page_fd) : NULL;
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
	out->page = p->page_fd;
	out->bell = p->bell[1];
}

int peers_create(int process, int processes, const char *group,
                 struct peer_address *out, struct peers **peers)
{
	const size_t n = (size_t)processes;
	struct peers *p = calloc(1, sizeof(*p) + n * sizeof(p->peers[0]));

	if (!p)
		return error_set(COHORT_NO_MEMORY, "no memory for %d processes",
		                 processes);
	*out = (struct peer_address){ .pid = getpid() };
	atomic_store(&p->references, 1);
	p->process = process;
	p->processes = processes;
	text_copy(p->group, sizeof(p->group), group);
	p->pid = getpid();
	lock_init(&p->lock);
	make_own(p, out);
	if (!p->page)
		out->machine = 0;
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

/* Open what the address tells of.  The pidfd comes first: if the page is the right
 * one, that process had the pid before, too. */
static void connect_one(const struct peers *p, struct peer *x,
                        const struct peer_address *a)
{
	int fd;

	x->pid = a->pid;
	x->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)a->pid, 0);
	if (x->pidfd < 0 && errno != ENOSYS && errno != EPERM)
		return;
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
	if (x->pidfd >= 0)
		close(x->pidfd);
	x->page = NULL;
}

static void disconnect(const struct peers *p, struct peer *x)
{
	if (!x->page)
		return;
	munmap(x->page, page_bytes(p));
	close(x->bell);
	if (x->pidfd >= 0)
		close(x->pidfd);
}

/* If nobody reads it that is a SIGPIPE, so the others' bells are rung by threads of
 * the library only, which have signals blocked. */
static void ring(int bell)
{
	/* A full pipe rings as well. */
	ssize_t n = write(bell, "", 1);

	(void)n;
}

/* ---- telling ---------------------------------------------------------- */

void peers_ring(const struct peers *p)
{
	const struct peer *x;

	for (x = p->peers; x < p->peers + p->processes; x++)
		if (x->page && atomic_load(&x->state) == PEER_HERE)
			ring(x->bell);
}

static struct member *find_member(const struct peers *p, const struct clique *q)
{
	struct member *m = p->members;

	while (m && m->clique != q)
		m = m->next;
	return m;
}

/* Put the cause on the page.  Under lock. */
static void put_told(struct page *page, const struct told *told)
{
	const uint64_t n =
		atomic_load_explicit(&page->causes_told, memory_order_relaxed);

	atomic_store_explicit(&page->causes_begun, n + 1, memory_order_relaxed);
	put_words(page->causes[n % CAUSES], told, WORDS(struct told));
	atomic_store_explicit(&page->causes_told, n + 1, memory_order_release);
}

void peers_tell(struct peers *p, const struct clique *q,
                const struct cohort_cause *cause)
{
	const struct told told = { .identity = q->identity, .cause = *cause };
	const struct member *m;
	bool is_news;

	pthread_mutex_lock(&p->lock);
	m = find_member(p, q);
	is_news = p->page && m && !m->was_told &&
	          (!m->parent_end || !cause_any(m->parent_end));
	if (is_news) {
		put_told(p->page, &told);
		peers_ring(p);
	}
	pthread_mutex_unlock(&p->lock);
}

/* ---- what the others tell ---------------------------------------------- */

/* Read the cause in place; false: it is overwritten, or is none. */
static bool read_told(const struct page *page, uint64_t number,
                      struct told *out)
{
	struct cohort_cause *c = &out->cause;

	get_words(out, page->causes[number % CAUSES], WORDS(struct told));
	if (atomic_load_explicit(&page->causes_begun, memory_order_relaxed) >
	    number + CAUSES)
		return false;
	c->text[sizeof(c->text) - 1] = '\0';
	if (c->rank < -1 || c->rank >= COHORT_MAX_RANKS)
		c->rank = -1;
	if (c->kind < 0 || c->kind >= COUNTED_KINDS)
		c->kind = COHORT_VERDICT_NONE;
	return c->status < COHORT_OK;
}

/* End a member with a cause of another process, which is not told again. */
static void end_member(struct member *m, const struct cohort_cause *cause)
{
	struct cohort_cause what = *cause;

	if (what.rank >= m->clique->world)
		what.rank = -1;
	/* Before the lock is released, which peers_tell() waits for. */
	if (cause_set(m->clique->end, &what) == COHORT_OK)
		m->was_told = true;
}

/* The cause of process @i, as it is told here. */
static struct cohort_cause relayed(const struct peers *p, int i,
                                   const struct cohort_cause *from)
{
	struct cohort_cause cause = *from;

	text_set(cause.text, sizeof(cause.text), "process %d (pid %lld): %s", i,
	         (long long)p->peers[i].pid, from->text);
	return cause;
}

/* Give the causes from @from on to @only, NULL: all members.  Under lock. */
static void take_causes(struct peers *p, int i, uint64_t from,
                        struct member *only)
{
	const struct page *page = p->peers[i].page;
	const uint64_t told =
		atomic_load_explicit(&page->causes_told, memory_order_acquire);
	struct cohort_cause cause;
	struct member *m;
	struct told t;
	uint64_t n;

	for (n = told > from + CAUSES ? told - CAUSES : from; n < told; n++) {
		if (!read_told(page, n, &t))
			continue;
		cause = relayed(p, i, &t.cause);
		for (m = p->members; m; m = m->next)
			if ((!only || m == only) &&
			    m->clique->identity == t.identity)
				end_member(m, &cause);
	}
	if (!only)
		p->peers[i].seen = told;
}

/* Give @m the end of process @i, if it has ranks in it.  That is told to others, too,
 * who may not watch the process.  Under lock. */
static void take_end(const struct peers *p, int i, struct member *m)
{
	const struct cohort_process *f = p->facts ? &p->facts[i] : NULL;
	struct cohort_cause cause = {
		.status = COHORT_PROCESS_EXITED,
		.kind = COHORT_VERDICT_PROCESS_EXITED,
	};
	struct text t = { cause.text, sizeof(cause.text) };
	int r;

	/* What was split from it ends with it. */
	if (!f || !f->ranks || m->parent_end)
		return;
	cause.rank = f->first_rank;
	for (r = 0; r < f->ranks; r++)
		rank_set_add(cause.missing, f->first_rank + r);
	text_add(&t, "process %d (host %s, pid %lld) has exited with rank%s ",
	         i, f->host, (long long)f->pid, f->ranks == 1 ? "" : "s");
	rank_set_spell(&t, cause.missing);
	cause_set(m->clique->end, &cause);
}

/* Note whether a process with ranks has ended.  Under lock. */
static void note_vain(struct peers *p)
{
	bool is_vain = false;
	int i;

	for (i = 0; p->facts && i < p->processes; i++)
		is_vain |= p->facts[i].ranks &&
		           atomic_load(&p->peers[i].state) == PEER_ENDED;
	atomic_store(&p->is_vain, is_vain);
}

/* Look at process @i, which has ended if @is_over.  Under lock. */
static void look_at_peer(struct peers *p, int i, bool is_over)
{
	struct peer *x = &p->peers[i];
	struct member *m;

	if (!x->page || atomic_load(&x->state) != PEER_HERE)
		return;
	take_causes(p, i, x->seen, NULL);
	if (atomic_load_explicit(&x->page->has_left, memory_order_acquire))
		atomic_store(&x->state, PEER_LEFT);
	else if (is_over)
		atomic_store(&x->state, PEER_ENDED);
	note_vain(p);
	for (m = p->members; m && atomic_load(&x->state) == PEER_ENDED;
	     m = m->next)
		take_end(p, i, m);
}

/* ---- the thread ------------------------------------------------------- */

/* Ask which processes are over, one after the other.  Where the system does not let
 * the thread wait for all at once, this is done a hundred times a second. */
static void ask_each(const struct peers *p, bool *over)
{
	struct pollfd polled[2];
	const struct peer *x;
	int i;

	poll(NULL, 0, 10);
	for (i = 0; i < p->processes; i++) {
		x = &p->peers[i];
		polled[0] = (struct pollfd){ .fd = x->bell };
		polled[1] = (struct pollfd){ .fd = x->pidfd, .events = POLLIN };
		over[i] = x->page && poll(polled, 2, 0) > 0 &&
		          (polled[0].revents & POLLERR ||
		           polled[1].revents & POLLIN);
	}
}

/* Wait for the bell or an end.  Which processes are over is in @over. */
static void await_any(const struct peers *p, struct pollfd *polled, bool *over)
{
	const struct peer *x;
	char rung[64];
	int i, n = 1;

	polled[0] = (struct pollfd){ .fd = p->bell[0], .events = POLLIN };
	for (i = 0; i < p->processes; i++) {
		x = &p->peers[i];
		over[i] = false;
		if (!x->page || atomic_load(&x->state) != PEER_HERE)
			continue;
		polled[n++] = (struct pollfd){ .fd = x->bell };
		if (x->pidfd >= 0)
			polled[n++] = (struct pollfd){ .fd = x->pidfd,
				                       .events = POLLIN };
	}
	if ((poll(polled, (nfds_t)n, -1) < 0 && errno != EINTR) ||
	    polled[0].revents & POLLNVAL) {
		ask_each(p, over);
		return;
	}
	for (i = 0, n = 1; i < p->processes; i++) {
		x = &p->peers[i];
		if (!x->page || atomic_load(&x->state) != PEER_HERE)
			continue;
		over[i] = polled[n++].revents & POLLERR;
		if (x->pidfd >= 0)
			over[i] |= polled[n++].revents & POLLIN;
	}
	while (read(p->bell[0], rung, sizeof(rung)) == (ssize_t)sizeof(rung))
		;
}

struct peers_thread {
	struct peers *peers;
	bool *over;
	struct pollfd polled[];
};

static void *peers_main(void *arg)
{
	struct peers_thread *t = arg;
	struct peers *p = t->peers;
	int i;

	while (!atomic_load(&p->stop)) {
		await_any(p, t->polled, t->over);
		pthread_mutex_lock(&p->lock);
		for (i = 0; i < p->processes; i++) {
			look_at_peer(p, i, t->over[i]);
			peers_answer(p, i);
		}
		pthread_mutex_unlock(&p->lock);
	}
	peers_ring(p);
	free(t->over);
	free(t);
	return NULL;
}

static bool start(struct peers *p)
{
	const size_t n = (size_t)p->processes;
	struct peers_thread *t =
		calloc(1, sizeof(*t) + (2 * n + 1) * sizeof(t->polled[0]));

	if (!t)
		return false;
	t->peers = p;
	t->over = calloc(n, sizeof(*t->over));
	if (t->over &&
	    !thread_start(&p->thread, peers_main, t, "%.8s/peers", p->group))
		return true;
	free(t->over);
	free(t);
	return false;
}

/* Two descriptors for each process must leave room for the program's. */
static bool has_room(const struct peers *p)
{
	return p->page && 4 * (uint64_t)p->processes <= limit_of(RLIMIT_NOFILE);
}

void peers_connect(struct peers *p, const struct peer_address *all)
{
	bool has_any = false;
	struct peer *x;
	int i;

	for (i = 0; i < p->processes; i++) {
		x = &p->peers[i];
		if (i == p->process)
			continue;
		if (has_room(p) && all[i].machine == all[p->process].machine)
			connect_one(p, x, &all[i]);
		has_any |= x->page != NULL;
	}
	p->has_thread = has_any && start(p);
	if (p->has_thread)
		return;
	for (i = 0; i < p->processes; i++) {
		disconnect(p, &p->peers[i]);
		p->peers[i].page = NULL;
	}
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
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void peers_leave(struct peers *p)
{
	if (p->page)
		atomic_store_explicit(&p->page->has_left, 1,
		                      memory_order_release);
	if (p->has_thread) {
		atomic_store(&p->stop, true);
		ring(p->bell[1]);
		pthread_join(p->thread, NULL);
	}
	peers_set_ranks(p, NULL);
	peers_put(p);
}

/* ---- members ---------------------------------------------------------- */

int peers_attach(struct peers *p, struct clique *q,
                 struct cohort_abort *parent_end)
{
	struct member *m = calloc(1, sizeof(*m));
	int i;

	if (!m)
		return error_set(COHORT_NO_MEMORY, "no memory for a watch");
	m->clique = q;
	m->parent_end = parent_end;
	if (parent_end)
		cause_get(parent_end);
	pthread_mutex_lock(&p->lock);
	m->next = p->members;
	p->members = m;
	/* Another process may have told its cause before this one was ready. */
	for (i = 0; i < p->processes; i++) {
		if (!p->peers[i].page)
			continue;
		take_causes(p, i, 0, m);
		if (atomic_load(&p->peers[i].state) == PEER_ENDED)
			take_end(p, i, m);
	}
	pthread_mutex_unlock(&p->lock);
	return COHORT_OK;
}

void peers_detach(struct peers *p, struct clique *q)
{
	struct member **at, *m;

	pthread_mutex_lock(&p->lock);
	for (at = &p->members; *at && (*at)->clique != q;)
		at = &(*at)->next;
	m = *at;
	if (m)
		*at = m->next;
	pthread_mutex_unlock(&p->lock);
	if (m && m->parent_end)
		cause_put(m->parent_end);
	free(m);
}

void peers_set_ranks(struct peers *p, const struct cohort_process *facts)
{
	pthread_mutex_lock(&p->lock);
	p->facts = facts;
	note_vain(p);
	pthread_mutex_unlock(&p->lock);
}

const atomic_bool *peers_is_vain(const struct peers *p)
{
	return &p->is_vain;
}

bool peers_watches(const struct peers *p, int i)
{
	return i == p->process || p->peers[i].page;
}

bool peers_has_ended(const struct peers *p, int i)
{
	return atomic_load(&p->peers[i].state) == PEER_ENDED;
}

/* ---- exchanges -------------------------------------------------------- */

static bool has_brought(const struct page *page, uint64_t exchange)
{
	return atomic_load_explicit(&page->exchange, memory_order_acquire) >=
	       exchange;
}

bool peers_has_brought(const struct peers *p, int i, uint64_t number)
{
	return has_brought(p->peers[i].page, number);
}

/* True if process @i will not bring anything any more; what it brought before that
 * is then there to see. */
static bool is_gone(const struct peer *x)
{
	const int state = atomic_load(&x->state);

	return state == PEER_ENDED || state == PEER_LEFT;
}

/* Wait for what process @i brings: COHORT_OK, COHORT_ALREADY if it never does, or
 * COHORT_TIMED_OUT. */
static int await_brought(const struct peer *x, uint64_t exchange,
                         uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;
	bool gone;

	for (;;) {
		gone = is_gone(x); /* before the last look */
		if (has_brought(x->page, exchange))
			return COHORT_OK;
		if (gone)
			return COHORT_ALREADY;
		if (clock_now() >= deadline_ns)
			return COHORT_TIMED_OUT;
		backoff_wait(&b, deadline_ns);
	}
}

int peers_gather(struct peers *p, const void *mine, size_t bytes, void *out,
                 uint64_t *came, uint64_t deadline_ns)
{
	const uint64_t n = ++p->exchange;
	const size_t words = bytes / sizeof(uint64_t);
	const struct page *page;
	int i, rc = COHORT_OK, one;

	put_words(p->page->brought[n % 2], mine, words);
	atomic_store_explicit(&p->page->exchange, n, memory_order_release);
	memset(came, 0, COHORT_RANK_WORDS * sizeof(*came));
	for (i = 0; i < p->processes; i++) {
		page = i == p->process ? p->page : p->peers[i].page;
		one = i == p->process
		              ? COHORT_OK
		              : await_brought(&p->peers[i], n, deadline_ns);
		if (one == COHORT_TIMED_OUT)
			rc = one;
		if (one != COHORT_OK)
			continue;
		get_words((char *)out + (size_t)i * bytes, page->brought[n % 2],
		          words);
		rank_set_add(came, i);
	}
	return rc;
}
