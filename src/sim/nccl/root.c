/* SPDX-License-Identifier: Apache-2.0 */

/* The root, and how a rank speaks to it (see root.h) */

#include "sim/nccl/root.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cohort/sim.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/thread.h"

/* ---- what is sent ----------------------------------------------------- */

enum answer_code {
	ANSWER_MET,
	ANSWER_LEFT, /* the rank has left */
	ANSWER_SPOILED,
	ANSWER_COUNT,
	ANSWER_IDS,
	ANSWER_TWICE,
	ANSWER_DEVICE,
	ANSWER_PROCESSES,
	ANSWER_MEMORY,
};

static const struct {
	ncclResult_t result;
	const char *why;
} answers[] = {
	[ANSWER_MET] = { ncclSuccess, NULL },
	[ANSWER_LEFT] = { ncclInternalError,
	                  "aborted while waiting for other ranks" },
	[ANSWER_SPOILED] = { ncclInvalidUsage, "ncclCommInitRank: a join by "
	                                       "the id was aborted" },
	[ANSWER_COUNT] = { ncclInvalidUsage, "ncclCommInitRank: another rank "
	                                     "has another number of ranks" },
	[ANSWER_IDS] = { ncclInvalidUsage, "ncclCommInitRankScalable: another "
	                                   "rank has other ids" },
	[ANSWER_TWICE] = { ncclInvalidUsage,
	                   "ncclCommInitRank: the rank is there already" },
	[ANSWER_DEVICE] = { ncclInvalidUsage,
	                    "ncclCommInitRank: duplicate device" },
	[ANSWER_PROCESSES] = { ncclInvalidUsage,
	                       "ncclCommInitRank: the ranks are in more than "
	                       "120 processes" },
	[ANSWER_MEMORY] = { ncclSystemError,
	                    "out of memory or of descriptors" },
};

/* What a rank says when it comes; without ranks: the id stays unused. */
struct hello {
	struct segment_process process;
	int n;
	int rank;
	int device;
	uint64_t list; /* a hash of its further ids */
};

/* What it is told. */
struct reply {
	enum answer_code code;
	uint64_t segment;
	uint64_t area;
};

#define FDS_MOST (1 + SEGMENT_FDS * SEGMENT_PROCESSES)

/* Room for the descriptors of one message. */
union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(FDS_MOST * sizeof(int))];
};

/* Milliseconds. */
#define MOST_TRIES 10000

static bool send_fds(int to, const void *data, size_t bytes, const int *fds,
                     int n)
{
	struct iovec part = { (void *)(uintptr_t)data, bytes };
	union control c = { .room = { 0 } };
	struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
	const struct timespec soon = { .tv_nsec = 1000000 };
	int i;

	if (n) {
		m.msg_control = &c;
		m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		c.head.cmsg_level = SOL_SOCKET;
		c.head.cmsg_type = SCM_RIGHTS;
		c.head.cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
		memcpy(CMSG_DATA(&c.head), fds, (size_t)n * sizeof(int));
	}
	/* The system limits how many of a user's descriptors are under way:
	 * wait until others have received theirs. */
	for (i = 0; i < MOST_TRIES; i++) {
		if (sendmsg(to, &m, MSG_NOSIGNAL) == (ssize_t)bytes)
			return true;
		if (errno != ETOOMANYREFS && errno != ENOBUFS && errno != EINTR)
			return false;
		nanosleep(&soon, NULL);
	}
	return false;
}

static void close_all(const int *fds, int n)
{
	while (n--)
		if (fds[n] >= 0)
			close(fds[n]);
}

/* Receive a message that has arrived.  Stores the descriptors, at most @most,
 * and how many there are.  False, and there are none, unless @bytes have
 * come. */
static bool receive_fds(int from, void *data, size_t bytes, int *fds, int most,
                        int *n_out)
{
	struct iovec part = { data, bytes };
	union control c;
	struct msghdr m = { .msg_iov = &part,
		            .msg_iovlen = 1,
		            .msg_control = &c,
		            .msg_controllen =
		                    CMSG_LEN(FDS_MOST * sizeof(int)) };
	const ssize_t got = recvmsg(from, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int all[FDS_MOST], n = 0;

	if (got >= 0 && m.msg_controllen >= CMSG_LEN(0) &&
	    c.head.cmsg_type == SCM_RIGHTS) {
		n = (int)((c.head.cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(all, CMSG_DATA(&c.head), (size_t)n * sizeof(int));
	}
	*n_out = 0;
	if (got != (ssize_t)bytes || n > most || (m.msg_flags & MSG_CTRUNC)) {
		close_all(all, n);
		errno = got > 0 ? EMFILE : ECONNRESET;
		return false;
	}
	memcpy(fds, all, (size_t)n * sizeof(int));
	*n_out = n;
	return true;
}

/* A name that goes with the socket; returns its length. */
static socklen_t set_name(struct sockaddr_un *a, const struct root_id *id)
{
	const int n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1,
	                       "cohort-nccl-%016llx-%llx",
	                       (unsigned long long)id->process,
	                       (unsigned long long)id->number);

	a->sun_family = AF_UNIX;
	a->sun_path[0] = 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
	                   (size_t)n);
}

/* True if the other end is a process of the same user. */
static bool is_own_user(int fd)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
	       who.uid == geteuid();
}

/* ---- the root --------------------------------------------------------- */

struct guest {
	int fd; /* -1: nobody */
	struct hello hello;
	int fds[SEGMENT_FDS]; /* -1 where one of its process came before */
};

struct root {
	int fd;
	bool spoiled;  /* a rank has left */
	bool complete; /* all are told */
	int n;         /* as the first rank has it; 0: none has come */
	int come;
	struct guest *guests;
};

static void answer(int fd, enum answer_code code)
{
	const struct reply r = { .code = code };

	send_fds(fd, &r, sizeof(r), NULL, 0);
}

static enum answer_code check(const struct root *r, const struct hello *h)
{
	const struct guest *g;

	if (r->spoiled)
		return ANSWER_SPOILED;
	if (!r->n)
		return ANSWER_MET;
	if (r->n != h->n)
		return ANSWER_COUNT;
	if (r->guests[h->rank].fd >= 0)
		return ANSWER_TWICE;
	for (g = r->guests; g < r->guests + r->n; g++)
		if (g->fd >= 0 && g->hello.list != h->list)
			return ANSWER_IDS;
	return ANSWER_MET;
}

static bool make_room(struct root *r, int n)
{
	int i;

	if (r->n)
		return true;
	r->guests = calloc((size_t)n, sizeof(*r->guests));
	if (!r->guests)
		return false;
	for (i = 0; i < n; i++)
		r->guests[i].fd = -1;
	r->n = n;
	return true;
}

/* One of the guests of a process, which has its descriptors; or NULL. */
static const struct guest *first_of(const struct root *r, uint64_t process)
{
	const struct guest *g;

	for (g = r->guests; g < r->guests + r->n; g++)
		if (g->fd >= 0 && g->fds[0] >= 0 &&
		    g->hello.process.number == process)
			return g;
	return NULL;
}

static void sit_down(struct root *r, struct guest *g)
{
	if (first_of(r, g->hello.process.number)) {
		close_all(g->fds, SEGMENT_FDS);
		memset(g->fds, -1, sizeof(g->fds));
	}
	r->guests[g->hello.rank] = *g;
	r->come++;
}

/* Time that a rank has from its connection to its hello. */
#define HELLO_NS (5 * NS_PER_S)

/* Wait for a message, or for HELLO_NS.  A stop of the process interrupts a wait
 * that has a limit, even if no handler runs. */
static void await_message(int fd)
{
	const uint64_t deadline = clock_deadline(HELLO_NS);
	struct pollfd come = { .fd = fd, .events = POLLIN };
	uint64_t now;

	do
		now = clock_now();
	while (poll(&come, 1,
	            now < deadline ? (int)((deadline - now) / 1000000) + 1
	                           : 0) < 0 &&
	       errno == EINTR);
}

/* True if the numbers of a rank of another process can be. */
static bool is_sound(const struct hello *h)
{
	return h->n <= COHORT_SIM_MAX_DEVICES && h->rank >= 0 &&
	       h->rank < h->n && h->device >= 0 &&
	       h->device < COHORT_SIM_MAX_DEVICES;
}

/* A rank has connected: hear it out. */
static void receive(struct root *r, int fd)
{
	struct guest g = { .fd = fd };
	enum answer_code code;
	int n = 0;

	await_message(fd);
	if (!is_own_user(fd) || !receive_fds(fd, &g.hello, sizeof(g.hello),
	                                     g.fds, SEGMENT_FDS, &n)) {
		close(fd);
		return;
	}
	if (!g.hello.n)
		r->complete = !r->n;
	code = n == SEGMENT_FDS && is_sound(&g.hello) ? check(r, &g.hello)
	                                              : ANSWER_MEMORY;
	if (code == ANSWER_MET && !make_room(r, g.hello.n))
		code = ANSWER_MEMORY;
	if (code == ANSWER_MET) {
		sit_down(r, &g);
		return;
	}
	answer(fd, code);
	close_all(g.fds, n);
	close(fd);
}

static void dismiss(struct root *r, struct guest *g)
{
	close_all(g->fds, SEGMENT_FDS);
	close(g->fd);
	g->fd = -1;
	r->come--;
}

static void answer_all(struct root *r, enum answer_code code)
{
	struct guest *g;

	for (g = r->guests; g < r->guests + r->n; g++)
		if (g->fd >= 0) {
			answer(g->fd, code);
			dismiss(r, g);
		}
	r->complete = true;
}

static bool has_device_twice(const struct root *r)
{
	int i, k;

	for (i = 0; i < r->n; i++)
		for (k = 0; k < i; k++)
			if (r->guests[i].hello.device ==
			    r->guests[k].hello.device)
				return true;
	return false;
}

/* The processes of the guests, each once. */
struct processes {
	struct segment_process of[SEGMENT_PROCESSES];
	int fds[FDS_MOST]; /* the segment's first */
	int n;
};

/* The index of a guest's process; -1: there are too many. */
static int index_of(const struct root *r, struct processes *p,
                    const struct guest *g)
{
	const uint64_t process = g->hello.process.number;
	int i;

	for (i = 0; i < p->n; i++)
		if (p->of[i].number == process)
			return i;
	if (i == SEGMENT_PROCESSES)
		return -1;
	p->of[i] = g->hello.process;
	memcpy(&p->fds[1 + SEGMENT_FDS * i], first_of(r, process)->fds,
	       sizeof(g->fds));
	p->n++;
	return i;
}

/* The area of the communicator that all guests are to have: 0 without
 * memory. */
static uint64_t make_area(const struct root *r, struct processes *p,
                          const struct segment *s)
{
	const uint64_t area = segment_area(s, r->n);
	struct span_shared *w = area ? segment_at(s, area) : NULL;
	int i;

	for (i = 0; w && i < r->n; i++) {
		w->ranks[i].process = index_of(r, p, &r->guests[i]);
		w->ranks[i].device = r->guests[i].hello.device;
	}
	return area;
}

/* Hand over a segment to all, whose processes are known. */
static enum answer_code hand_over(struct root *r, struct processes *p)
{
	struct reply reply = { .code = ANSWER_MET };
	struct segment *s;
	struct guest *g;

	p->fds[0] = segment_make(p->of, p->n, &reply.segment);
	if (p->fds[0] < 0)
		return ANSWER_MEMORY;
	s = segment_get(reply.segment, p->fds[0], &p->fds[1]);
	if (s)
		reply.area = make_area(r, p, s);
	for (g = r->guests; reply.area && g < r->guests + r->n; g++)
		send_fds(g->fd, &reply, sizeof(reply), p->fds,
		         1 + SEGMENT_FDS * p->n);
	/* The guests' descriptors are in all messages. */
	for (g = r->guests; reply.area && g < r->guests + r->n; g++)
		dismiss(r, g);
	if (s)
		segment_put(s);
	close(p->fds[0]);
	r->complete = reply.area != 0;
	return reply.area ? ANSWER_MET : ANSWER_MEMORY;
}

/* All have come. */
static void complete(struct root *r)
{
	struct processes *p = calloc(1, sizeof(*p));
	enum answer_code code = p ? ANSWER_MET : ANSWER_MEMORY;
	int i;

	if (has_device_twice(r))
		code = ANSWER_DEVICE;
	for (i = 0; i < r->n && code == ANSWER_MET; i++)
		if (index_of(r, p, &r->guests[i]) < 0)
			code = ANSWER_PROCESSES;
	if (code == ANSWER_MET)
		code = hand_over(r, p);
	if (code != ANSWER_MET)
		answer_all(r, code);
	free(p);
}

/* Hear out the ranks that have connected. */
static void receive_all(struct root *r)
{
	struct pollfd come = { .fd = r->fd, .events = POLLIN };
	int fd;

	while (!r->complete && poll(&come, 1, 0) > 0) {
		fd = accept4(r->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			receive(r, fd);
		else if (errno == EMFILE || errno == ENFILE)
			answer_all(r, ANSWER_MEMORY);
	}
}

/* Wait for something, and do it.  A rank that hangs up leaves; ranks that
 * connected before that are heard first. */
static void serve(struct root *r, struct pollfd *fds)
{
	const int n = r->n;
	int i;

	fds[0] = (struct pollfd){ .fd = r->fd, .events = POLLIN };
	for (i = 0; i < n; i++)
		fds[1 + i] = (struct pollfd){ .fd = r->guests[i].fd,
			                      .events = POLLRDHUP };
	if (poll(fds, (nfds_t)(1 + n), -1) <= 0)
		return;
	receive_all(r);
	for (i = 0; i < n; i++)
		if (fds[1 + i].revents && r->guests[i].fd >= 0) {
			answer(r->guests[i].fd, ANSWER_LEFT);
			dismiss(r, &r->guests[i]);
			r->spoiled = true;
		}
	if (r->n && r->come == r->n && !r->spoiled)
		complete(r);
}

static void root_free(struct root *r)
{
	close(r->fd);
	free(r->guests);
	free(r);
}

static void *root_main(void *arg)
{
	struct root *r = arg;
	struct pollfd *fds = NULL, *more;

	do {
		more = realloc(fds, (size_t)(1 + r->n) * sizeof(*fds));
		if (!more)
			break;
		fds = more;
		serve(r, fds);
	} while (!r->complete && !(r->spoiled && !r->come));
	free(fds);
	root_free(r);
	return NULL;
}

bool root_open(uint64_t number)
{
	const struct root_id id = { process_number(), number };
	struct root *r = calloc(1, sizeof(*r));
	struct sockaddr_un name;
	pthread_t thread;
	bool ok;

	if (!r)
		return false;
	r->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ok = r->fd >= 0 &&
	     bind(r->fd, (struct sockaddr *)&name, set_name(&name, &id)) == 0 &&
	     listen(r->fd, SOMAXCONN) == 0 &&
	     thread_start(&thread, root_main, r, "nccl-root") == 0;
	if (ok) {
		pthread_detach(thread);
		return true;
	}
	if (r->fd >= 0)
		close(r->fd);
	free(r);
	return false;
}

/* ---- ranks ------------------------------------------------------------ */

static void set_code(struct root_answer *a, enum answer_code code)
{
	*a = (struct root_answer){ answers[code].result, answers[code].why,
		                   NULL, 0 };
}

static void set_gone(struct root_answer *a)
{
	*a = (struct root_answer){
		ncclInvalidUsage,
		"ncclCommInitRank: the id was used before, or the process that "
		"made it has ended",
		NULL, 0
	};
}

/* A socket that is connected to the root, or -1. */
static int reach(const struct root_id *id)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un name;
	int error;

	if (fd < 0)
		return -1; /* with errno */
	do
		error = connect(fd, (struct sockaddr *)&name,
		                set_name(&name, id));
	while (error && errno == EINTR);
	if (!error && is_own_user(fd))
		return fd;
	close(fd);
	return -1;
}

void root_dismiss(const struct root_id *id)
{
	const struct hello h = { .n = 0 };
	const int fd = reach(id);

	if (fd < 0)
		return;
	send_fds(fd, &h, sizeof(h), NULL, 0);
	close(fd);
}

int root_come(const struct root_id *id, int n, int rank, int device,
              uint64_t list, struct root_answer *a)
{
	struct hello h = {
		.n = n, .rank = rank, .device = device, .list = list
	};
	int fds[SEGMENT_FDS], fd;

	set_code(a, ANSWER_MEMORY);
	if (!segment_introduce(&h.process, fds))
		return -1;
	fd = reach(id);
	if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
		set_gone(a);
	if (fd >= 0 && !send_fds(fd, &h, sizeof(h), fds, SEGMENT_FDS)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void take(struct root_answer *a, const struct reply *r, const int *fds,
                 int n)
{
	set_code(a, r->code <= ANSWER_MEMORY ? r->code : ANSWER_MEMORY);
	if (r->code != ANSWER_MET)
		return;
	a->area = r->area;
	if (n > 1 && (n - 1) % SEGMENT_FDS == 0)
		a->segment = segment_get(r->segment, fds[0], fds + 1);
	if (!a->segment)
		set_code(a, ANSWER_MEMORY);
}

bool root_ask(int fd, struct root_answer *a)
{
	struct pollfd come = { .fd = fd, .events = POLLIN };
	struct reply reply;
	int fds[FDS_MOST], n;

	if (poll(&come, 1, 0) <= 0)
		return false;
	if (receive_fds(fd, &reply, sizeof(reply), fds, FDS_MOST, &n)) {
		take(a, &reply, fds, n);
		close_all(fds, n);
	} else if (errno == EMFILE) {
		set_code(a, ANSWER_MEMORY);
	} else {
		set_gone(a);
	}
	return true;
}

void root_leave(int fd)
{
	shutdown(fd, SHUT_WR);
}
