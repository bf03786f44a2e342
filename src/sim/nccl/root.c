/* SPDX-License-Identifier: Apache-2.0 */

/* Runs the root of a unique id, and connects ranks to it (see root.h) */

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
#include "sim/nccl/nccl_comm.h"

/* ---- messages --------------------------------------------------------- */

static const struct {
	ncclResult_t result;
	const char *why;
} answers[] = {
	[ANSWER_MET] = { ncclSuccess, NULL },
	[ANSWER_LEFT] = { ncclInternalError,
	                  "aborted while waiting for other ranks" },
	[ANSWER_SPOILED] = { ncclInvalidUsage, "ncclCommInitRank: a join with "
	                                       "this id was aborted" },
	[ANSWER_COUNT] = { ncclInvalidUsage,
	                   "ncclCommInitRank: another rank passed a different "
	                   "number of ranks" },
	[ANSWER_IDS] = { ncclInvalidUsage, "ncclCommInitRankScalable: another "
	                                   "rank passed different ids" },
	[ANSWER_TWICE] = { ncclInvalidUsage,
	                   "ncclCommInitRank: the rank has already joined" },
	[ANSWER_DEVICE] = { ncclInvalidUsage,
	                    "ncclCommInitRank: another rank has already joined "
	                    "with this device" },
	[ANSWER_PROCESSES] = { ncclInvalidUsage,
	                       "ncclCommInitRank: the ranks are in more than "
	                       "120 processes" },
	[ANSWER_MEMORY] = { ncclSystemError,
	                    "out of memory or of descriptors" },
	[ANSWER_GONE] = { ncclInvalidUsage,
	                  "ncclCommInitRank: the id was already used, or the "
	                  "process that created it has ended" },
};

ncclResult_t answer_error(enum answer_code code)
{
	return code == ANSWER_MET
	               ? ncclSuccess
	               : comm_error(answers[code].result, answers[code].why);
}

/* A rank's first message to the root.  If @n is 0, the message asks the root to
 * end because its id will not be used. */
struct hello {
	struct segment_process process;
	int n;
	int rank;
	int device;
	uint64_t list; /* hash of all ids of the rank except the first */
};

/* The root's reply to a rank. */
struct reply {
	enum answer_code code;
	uint64_t segment;
	uint64_t area;
};

#define FDS_MOST (1 + SEGMENT_FDS * SEGMENT_PROCESSES)

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(FDS_MOST * sizeof(int))];
};

/* Maximum number of attempts to send a message, one per millisecond. */
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
	/* The kernel limits the number of descriptors that a user can have in
	 * flight.  So retry until other processes have received theirs. */
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

/* Receive a message that has arrived.  Store up to @most descriptors and their
 * number.  Return false, and store no descriptors, if the message is not
 * exactly @bytes long or has more than @most descriptors. */
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

/* Set the address of an abstract socket, which disappears with the socket.
 * Return the length of the address. */
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

static bool is_own_user(int fd)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
	       who.uid == geteuid();
}

/* ---- the root --------------------------------------------------------- */

struct guest {
	int fd; /* connection, or -1 if the rank is not connected */
	struct hello hello;
	/* Descriptors of the rank's process, or -1 if another rank of the
	 * process sent them earlier. */
	int fds[SEGMENT_FDS];
};

struct root {
	int fd;
	bool spoiled; /* true if a rank has left */
	/* true once all ranks have a reply, or if the id will not be used */
	bool complete;
	int n; /* number of ranks, or 0 before the first rank arrives */
	int arrived;
	struct guest *guests;
};

static void send_reply(int fd, enum answer_code code)
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

/* Return the connected rank that sent the descriptors of @process, or NULL if
 * none has. */
static const struct guest *first_of(const struct root *r, uint64_t process)
{
	const struct guest *g;

	for (g = r->guests; g < r->guests + r->n; g++)
		if (g->fd >= 0 && g->fds[0] >= 0 &&
		    g->hello.process.number == process)
			return g;
	return NULL;
}

static void seat_guest(struct root *r, struct guest *g)
{
	if (first_of(r, g->hello.process.number)) {
		close_all(g->fds, SEGMENT_FDS);
		memset(g->fds, -1, sizeof(g->fds));
	}
	r->guests[g->hello.rank] = *g;
	r->arrived++;
}

/* Timeout for the first message on a new connection. */
#define HELLO_NS (5 * NS_PER_S)

/* Wait for a message, at most HELLO_NS.  Resume the wait after EINTR: this
 * thread blocks the program's signals, but setuid() on another thread sends it
 * a signal that cannot be blocked. */
static void await_message(int fd)
{
	const uint64_t deadline = clock_deadline(HELLO_NS);
	struct pollfd arrived = { .fd = fd, .events = POLLIN };
	uint64_t now;

	do
		now = clock_now();
	while (poll(&arrived, 1,
	            now < deadline ? (int)((deadline - now) / 1000000) + 1
	                           : 0) < 0 &&
	       errno == EINTR);
}

/* Return true if the numbers in a message from another process are in range. */
static bool is_sound(const struct hello *h)
{
	return h->n <= COHORT_SIM_MAX_DEVICES && h->rank >= 0 &&
	       h->rank < h->n && h->device >= 0 &&
	       h->device < COHORT_SIM_MAX_DEVICES;
}

/* Receive the first message on a new connection.  Let the rank join, or reply
 * with an error and close the connection. */
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
		seat_guest(r, &g);
		return;
	}
	send_reply(fd, code);
	close_all(g.fds, n);
	close(fd);
}

static void dismiss(struct root *r, struct guest *g)
{
	close_all(g->fds, SEGMENT_FDS);
	close(g->fd);
	g->fd = -1;
	r->arrived--;
}

static void answer_all(struct root *r, enum answer_code code)
{
	struct guest *g;

	for (g = r->guests; g < r->guests + r->n; g++)
		if (g->fd >= 0) {
			send_reply(g->fd, code);
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

struct processes {
	struct segment_process of[SEGMENT_PROCESSES];
	/* the segment's descriptor, then the descriptors of the processes */
	int fds[FDS_MOST];
	int n;
};

/* Return the index of a rank's process, and add the process if it is new.
 * Return -1 if there are too many processes. */
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

/* Allocate the area of the new communicator and fill in its ranks.  Return 0 if
 * out of memory. */
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

static enum answer_code send_segment(struct root *r, struct processes *p)
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
	/* Each message contains the descriptors of all ranks, so close the
	 * descriptors only after the last message. */
	for (g = r->guests; reply.area && g < r->guests + r->n; g++)
		dismiss(r, g);
	if (s)
		segment_put(s);
	close(p->fds[0]);
	r->complete = reply.area != 0;
	return reply.area ? ANSWER_MET : ANSWER_MEMORY;
}

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
		code = send_segment(r, p);
	if (code != ANSWER_MET)
		answer_all(r, code);
	free(p);
}

static void receive_all(struct root *r)
{
	struct pollfd arrived = { .fd = r->fd, .events = POLLIN };
	int fd;

	while (!r->complete && poll(&arrived, 1, 0) > 0) {
		fd = accept4(r->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			receive(r, fd);
		else if (errno == EMFILE || errno == ENFILE)
			answer_all(r, ANSWER_MEMORY);
	}
}

/* Wait until a rank connects or closes its connection.  If a rank has closed
 * its connection, the init never completes.  Connections that were made before
 * the close are accepted first. */
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
			send_reply(r->guests[i].fd, ANSWER_LEFT);
			dismiss(r, &r->guests[i]);
			r->spoiled = true;
		}
	if (r->n && r->arrived == r->n && !r->spoiled)
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
	} while (!r->complete && !(r->spoiled && !r->arrived));
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

static int connect_to_root(const struct root_id *id)
{
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un name;
	int error;

	if (fd < 0)
		return -1; /* socket() has set errno */
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
	const int fd = connect_to_root(id);

	if (fd < 0)
		return;
	send_fds(fd, &h, sizeof(h), NULL, 0);
	close(fd);
}

int root_connect(const struct root_id *id, int n, int rank, int device,
                 uint64_t list, struct root_answer *a)
{
	struct hello h = {
		.n = n, .rank = rank, .device = device, .list = list
	};
	int fds[SEGMENT_FDS], fd;

	set_code(a, ANSWER_MEMORY);
	if (!segment_describe_self(&h.process, fds))
		return -1;
	fd = connect_to_root(id);
	if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
		set_code(a, ANSWER_GONE);
	if (fd >= 0 && !send_fds(fd, &h, sizeof(h), fds, SEGMENT_FDS)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void store_reply(struct root_answer *a, const struct reply *r,
                        const int *fds, int n)
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

bool root_poll_reply(int fd, struct root_answer *a)
{
	struct pollfd arrived = { .fd = fd, .events = POLLIN };
	struct reply reply;
	int fds[FDS_MOST], n;

	if (poll(&arrived, 1, 0) <= 0)
		return false;
	if (receive_fds(fd, &reply, sizeof(reply), fds, FDS_MOST, &n)) {
		store_reply(a, &reply, fds, n);
		close_all(fds, n);
	} else if (errno == EMFILE) {
		set_code(a, ANSWER_MEMORY);
	} else {
		set_code(a, ANSWER_GONE);
	}
	return true;
}

void root_leave(int fd)
{
	shutdown(fd, SHUT_WR);
}
