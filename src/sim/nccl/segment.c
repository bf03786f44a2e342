/* SPDX-License-Identifier: Apache-2.0 */

/* Creates, maps and divides up shared segments (see segment.h) */

#include "sim/nccl/segment.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/list.h"
#include "base/process.h"
#include "base/scoped_lock.h"
#include "sim/cuda/memory_table.h"

/* Address space of a segment, enough for several communicators of
 * COHORT_SIM_MAX_DEVICES ranks.  Only pages that are touched use memory. */
#define SEGMENT_BYTES ((size_t)1 << 34)

#define SEGMENT_CLASSES 34

struct area {
	size_t bytes;  /* bytes in the area; constant after the first use */
	uint64_t next; /* offset of the next free area */
	_Alignas(CACHE_LINE) char memory[];
};

struct segment_head {
	uint64_t id; /* The id and the list of processes are constant. */
	int processes;
	struct segment_process of[SEGMENT_PROCESSES];

	/* Atomic; number of bytes allocated so far.  It never decreases. */
	_Atomic uint64_t top;

	/* Atomic; stacks of free areas, one per power of two.  The low half is
	 * the offset of the top area in units of CACHE_LINE, the high half a
	 * counter that changes on every update (to avoid the ABA problem). */
	_Atomic uint64_t free[SEGMENT_CLASSES];
};

/* Another process whose memory this process has mapped. */
struct peer {
	struct peer *next;
	uint64_t number;
	int users;
	struct span_window window;
};

/* Guards the lists of segments and peers. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct segment *segments;
static struct peer *peers;

/* ---- this process ----------------------------------------------------- */

/* A pipe whose write end stays open until this process ends, and the pid of the
 * process that created the pipe.  Guarded by lock. */
static int life[2] = { -1, -1 };
static pid_t life_of;

static bool create_life_pipe(void)
{
	SCOPED_LOCK(&lock);
	if (life_of != getpid())
		life_of = pipe2(life, O_CLOEXEC) == 0 ? getpid() : 0;
	return life_of;
}

bool segment_describe_self(struct segment_process *out, int fds[SEGMENT_FDS])
{
	struct arena_share share;

	out->number = process_number();
	if (!out->number || !memory_share(&share) || !create_life_pipe())
		return false;
	CPU_ZERO(&out->cpus);
	sched_getaffinity(0, sizeof(out->cpus), &out->cpus);
	out->start = share.start;
	out->bytes = share.bytes;
	fds[SEGMENT_MEMORY] = share.fd;
	fds[SEGMENT_LIFE] = life[0];
	return true;
}

/* ---- creating --------------------------------------------------------- */

static struct segment_head *map_head(int fd)
{
	void *p = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE,
	               MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, SEGMENT_BYTES, MADV_DONTDUMP);
	return p;
}

int segment_make(const struct segment_process *of, int n, uint64_t *id_out)
{
	int fd = memfd_create("cohort-nccl", MFD_CLOEXEC);
	struct segment_head *h = NULL;

	if (fd >= 0 && ftruncate(fd, (off_t)SEGMENT_BYTES) == 0 &&
	    getrandom(id_out, sizeof(*id_out), 0) == (ssize_t)sizeof(*id_out))
		h = map_head(fd);
	if (!h) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	h->id = *id_out;
	h->processes = n;
	memcpy(h->of, of, (size_t)n * sizeof(*of));
	atomic_store(&h->top,
	             (sizeof(*h) + CACHE_LINE) / CACHE_LINE * CACHE_LINE);
	munmap(h, SEGMENT_BYTES);
	return fd;
}

/* ---- mapping ---------------------------------------------------------- */

static void peer_put_locked(struct peer *p)
{
	if (--p->users)
		return;
	list_remove(peers, p, next);
	munmap((void *)p->window.here, p->window.bytes);
	close(p->window.life);
	free(p);
}

/*
 * Map the memory of another process, or return MAP_FAILED
 *
 * Processes that run the same program have their buffers at the same offsets.
 * If two such buffers had equal addresses in bits 12 to 27, an access to one
 * would miss the level 1 cache after an access to the other on AMD's Zen, which
 * predicts the cache way from those bits ("Take A Way", Lipp and others, 2020):
 * sums of 1 MiB by two ranks took 87 us instead of 20 us.  So each process's
 * memory is mapped at a different shift.
 */
static void *map_apart(int fd, size_t bytes)
{
	static unsigned count; /* guarded by lock */
	const size_t slack = (size_t)32 << 20;
	const size_t shift = (size_t)(1 + count++ % 31) << 20;
	char *p = mmap(NULL, bytes + slack, PROT_NONE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	void *here;

	if (p == MAP_FAILED)
		return p;
	here = mmap(p + shift, bytes, PROT_READ | PROT_WRITE,
	            MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
	munmap(p, here == MAP_FAILED ? bytes + slack : shift);
	if (here != MAP_FAILED && slack > shift)
		munmap(p + shift + bytes, slack - shift);
	return here;
}

/* Map the memory of a process, or acquire a reference if it is already mapped.
 * Return NULL on failure. */
static struct peer *peer_get_locked(const struct segment_process *of,
                                    const int fds[SEGMENT_FDS])
{
	struct peer *p;
	void *here;

	list_find(p, peers, next, p->number == of->number);
	if (p) {
		p->users++;
		return p;
	}
	p = calloc(1, sizeof(*p));
	here = map_apart(fds[SEGMENT_MEMORY], of->bytes);
	if (p)
		p->window.life = fcntl(fds[SEGMENT_LIFE], F_DUPFD_CLOEXEC, 0);
	if (!p || here == MAP_FAILED || p->window.life < 0) {
		if (here != MAP_FAILED)
			munmap(here, of->bytes);
		if (p && p->window.life >= 0)
			close(p->window.life);
		free(p);
		return NULL;
	}
	madvise(here, of->bytes, MADV_DONTDUMP);
	p->number = of->number;
	p->users = 1;
	p->window.there = of->start;
	p->window.here = (uintptr_t)here;
	p->window.bytes = of->bytes;
	list_add(peers, p, next);
	return p;
}

static void segment_clear_locked(struct segment *s)
{
	int i;

	for (i = 0; i < s->processes; i++)
		if (s->peers[i])
			peer_put_locked(s->peers[i]);
	munmap(s->head, SEGMENT_BYTES);
	free(s);
}

static bool add_windows_locked(struct segment *s, const int *fds)
{
	const struct segment_process *of = s->head->of;
	int i;

	for (i = 0; i < s->head->processes; i++, s->processes++) {
		if (of[i].number == process_number()) {
			s->windows[i] =
				(struct span_window){ of[i].start, of[i].start,
				                      of[i].bytes, -1 };
			continue;
		}
		s->peers[i] = peer_get_locked(&of[i], &fds[SEGMENT_FDS * i]);
		if (!s->peers[i])
			return false;
		s->windows[i] = s->peers[i]->window;
	}
	return true;
}

/* Return the number of CPUs on which at least one of the processes may run.
 * Return at least 1, even if no process knows its CPUs. */
static int count_cores(const struct segment_head *h)
{
	cpu_set_t all;
	int i;

	CPU_ZERO(&all);
	for (i = 0; i < h->processes; i++)
		CPU_OR(&all, &all, &h->of[i].cpus);
	return CPU_COUNT(&all) > 0 ? CPU_COUNT(&all) : 1;
}

static struct segment *segment_create_locked(uint64_t id, int fd,
                                             const int *fds)
{
	struct segment *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->id = id;
	s->head = map_head(fd);
	if (!s->head) {
		free(s);
		return NULL;
	}
	s->cores = count_cores(s->head);
	if (!add_windows_locked(s, fds)) {
		segment_clear_locked(s);
		return NULL;
	}
	list_add(segments, s, next);
	return s;
}

struct segment *segment_get(uint64_t id, int fd, const int *fds)
{
	struct segment *s;

	SCOPED_LOCK(&lock);
	list_find(s, segments, next, s->id == id);
	if (!s)
		s = segment_create_locked(id, fd, fds);
	if (s)
		s->users++;
	return s;
}

void segment_retain(struct segment *s)
{
	SCOPED_LOCK(&lock);
	s->users++;
}

void segment_put(struct segment *s)
{
	SCOPED_LOCK(&lock);
	if (--s->users == 0) {
		list_remove(segments, s, next);
		segment_clear_locked(s);
	}
}

int segment_self(const struct segment *s)
{
	int i = 0;

	while (s->peers[i])
		i++;
	return i;
}

/* ---- areas ------------------------------------------------------------ */

static struct area *area_at(const struct segment *s, uint64_t offset)
{
	return (struct area *)(void *)((char *)s->head + offset);
}

/* Return a word for a stack of free areas with @offset on top, and with a new
 * counter.  @before is the previous word. */
static uint64_t free_word(uint64_t offset, uint64_t before)
{
	return ((before >> 32) + 1) << 32 | offset / CACHE_LINE;
}

static uint64_t free_offset(uint64_t word)
{
	return (word & UINT32_MAX) * CACHE_LINE;
}

static _Atomic uint64_t *free_of(const struct segment *s, size_t bytes)
{
	return &s->head->free[__builtin_ctzll(bytes)];
}

/* Zero memory of the segment.  Whole pages are returned to the system, so that
 * a large area uses memory only for the pages that are touched. */
static void clear(char *p, size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t before = -(uintptr_t)p % page;
	const size_t inside =
		bytes > before ? (bytes - before) / page * page : 0;

	if (!inside || madvise(p + before, inside, MADV_REMOVE)) {
		memset(p, 0, bytes);
		return;
	}
	memset(p, 0, before);
	memset(p + before + inside, 0, bytes - before - inside);
}

/* Return a zeroed area from the stack of free areas, or 0 if the stack is
 * empty. */
static uint64_t take_free(const struct segment *s, size_t bytes)
{
	_Atomic uint64_t *free = free_of(s, bytes);
	uint64_t word = atomic_load(free), offset;

	do {
		offset = free_offset(word);
		if (!offset)
			return 0;
	} while (!atomic_compare_exchange_weak(
		free, &word, free_word(area_at(s, offset)->next, word)));
	clear(area_at(s, offset)->memory, bytes);
	return offset;
}

static uint64_t take_new(const struct segment *s, size_t bytes)
{
	const size_t all = sizeof(struct area) + bytes;
	uint64_t top = atomic_load(&s->head->top);

	do
		if (all > SEGMENT_BYTES - top)
			return 0;
	while (!atomic_compare_exchange_weak(&s->head->top, &top, top + all));
	area_at(s, top)->bytes = bytes;
	return top;
}

uint64_t segment_area(const struct segment *s, int n)
{
	const size_t least = span_bytes(n) + (size_t)n * sizeof(struct card);
	size_t bytes = CACHE_LINE;
	uint64_t offset;

	while (bytes < least)
		bytes *= 2;
	if (bytes > SEGMENT_BYTES / 2)
		return 0;
	offset = take_free(s, bytes);
	if (!offset)
		offset = take_new(s, bytes);
	if (offset) {
		segment_at(s, offset)->n = n;
		segment_at(s, offset)->is_crowded = n > s->cores;
	}
	return offset;
}

void segment_free_area(const struct segment *s, uint64_t offset)
{
	_Atomic uint64_t *free = free_of(s, area_at(s, offset)->bytes);
	uint64_t word = atomic_load(free);

	do
		area_at(s, offset)->next = free_offset(word);
	while (!atomic_compare_exchange_weak(free, &word,
	                                     free_word(offset, word)));
}

struct span_shared *segment_at(const struct segment *s, uint64_t offset)
{
	return (struct span_shared *)(void *)area_at(s, offset)->memory;
}

struct card *segment_cards(struct span_shared *shared)
{
	return (struct card *)(void *)((char *)shared + span_bytes(shared->n));
}

_Static_assert(sizeof(struct span_rank) % CACHE_LINE == 0 &&
                       sizeof(struct span_lane) % CACHE_LINE == 0 &&
                       sizeof(struct card) % CACHE_LINE == 0,
               "what is in an area is aligned");
