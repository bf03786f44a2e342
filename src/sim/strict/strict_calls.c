/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/strict/strict_calls.h"

#include <dirent.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/type.h"
#include "sim/cuda/memory.h"
#include "sim/exec/slot.h"
#include "sim/exec/split_round.h"
#include "sim/host.h"

/* Looking memory up takes a lock, which would put threads in an order that they
 * do not have, where ThreadSanitizer looks for races. */
#if defined(__SANITIZE_THREAD__)
static const bool looks_memory_up = false;
#else
static const bool looks_memory_up = true;
#endif

/* A scripted fault has made a call of its fail or differ: its next ones may be out
 * of step with the others'. */
static bool is_struck(const struct ncclComm *comm)
{
	return atomic_load_explicit(&comm->strict.struck, memory_order_relaxed);
}

/* ---- words ------------------------------------------------------------ */

#define WORDS 96

static const char *type_name(int type)
{
	static const char *const names[ncclNumTypes] = {
		[ncclInt8] = "int8",         [ncclUint8] = "uint8",
		[ncclInt32] = "int32",       [ncclUint32] = "uint32",
		[ncclInt64] = "int64",       [ncclUint64] = "uint64",
		[ncclFloat16] = "float16",   [ncclFloat32] = "float32",
		[ncclFloat64] = "float64",   [ncclBfloat16] = "bfloat16",
		[ncclFloat8e4m3] = "f8e4m3", [ncclFloat8e5m2] = "f8e5m2",
	};

	return names[type];
}

static const char *op_name(int op)
{
	static const char *const names[] = {
		[ncclSum] = "sum", [ncclProd] = "prod",
		[ncclMax] = "max", [ncclMin] = "min",
		[ncclAvg] = "avg", [CALL_PRE_MUL_SUM] = "pre-multiplied sum",
	};

	return names[op];
}

static bool has_op(enum call_kind kind)
{
	return kind == CALL_ALL_REDUCE || kind == CALL_REDUCE ||
	       kind == CALL_REDUCE_SCATTER;
}

static const char *root_word(enum call_kind kind)
{
	switch (kind) {
	case CALL_BROADCAST:
	case CALL_REDUCE:
	case CALL_GATHER:
	case CALL_SCATTER:
		return "root";
	case CALL_SEND:
		return "to";
	case CALL_RECV:
		return "from";
	case CALL_ALL_REDUCE:
	case CALL_ALL_GATHER:
	case CALL_REDUCE_SCATTER:
	case CALL_ALL_TO_ALL:
		break;
	}
	return NULL;
}

/* As in "ncclReduce(count 5, float32, sum, root 1)". */
static const char *words(const struct call *c, char text[WORDS])
{
	const char *root = root_word(c->kind);
	int n = snprintf(text, WORDS, "%s(count %zu, %s%s%s",
	                 call_function(c->kind), c->count, type_name(c->type),
	                 has_op(c->kind) ? ", " : "",
	                 has_op(c->kind) ? op_name(c->op) : "");

	if (root)
		snprintf(text + n, WORDS - (size_t)n, ", %s %d)", root,
		         c->root);
	else
		snprintf(text + n, WORDS - (size_t)n, ")");
	return text;
}

/* ---- buffers ---------------------------------------------------------- */

/* What a rank uses of a call's buffers: elements, 0 of one it does not use, and
 * where one may lie in the other. */
struct use {
	size_t send, recv;
	bool may_be_in_place;
	size_t send_at, recv_at; /* elements into the other one */
};

static struct use use_of(const struct ncclComm *comm, const struct call *c)
{
	const size_t n = (size_t)comm->world->n, rank = (size_t)comm->rank;
	const bool is_root = c->root == comm->rank;
	struct use u = { c->count, c->count, .may_be_in_place = true };

	switch (c->kind) {
	case CALL_ALL_REDUCE:
		break;
	case CALL_BROADCAST:
		u.send = is_root ? c->count : 0;
		break;
	case CALL_REDUCE:
		u.recv = is_root ? c->count : 0;
		break;
	case CALL_ALL_GATHER:
		u.recv = n * c->count;
		u.send_at = rank * c->count;
		break;
	case CALL_REDUCE_SCATTER:
		u.send = n * c->count;
		u.recv_at = rank * c->count;
		break;
	case CALL_ALL_TO_ALL:
		u.send = u.recv = n * c->count;
		u.may_be_in_place = n == 1;
		break;
	case CALL_GATHER:
		u.recv = is_root ? n * c->count : 0;
		u.send_at = rank * c->count;
		break;
	case CALL_SCATTER:
		u.send = is_root ? n * c->count : 0;
		u.recv_at = rank * c->count;
		break;
	case CALL_SEND:
		u.recv = 0;
		break;
	case CALL_RECV:
		u.send = 0;
		break;
	}
	return u;
}

static void check_freed(const struct ncclComm *comm, const struct call *c,
                        const void *p, size_t bytes, const char *which)
{
	struct memory m;
	char text[WORDS];

	if (bytes && looks_memory_up && memory_find(p, &m) && m.freed)
		strict_die(call_function(c->kind), comm,
		           "the %s buffer of %s was freed", which,
		           words(c, text));
}

static void check_memory(const struct ncclComm *comm, const struct call *c,
                         const void *p, size_t bytes, const char *which)
{
	const char *function = call_function(c->kind);
	struct memory m;
	char text[WORDS];
	size_t room;

	if (!bytes)
		return;
	words(c, text);
	if (!p)
		strict_die(function, comm, "the %s buffer of %s is NULL", which,
		           text);
	if (!looks_memory_up || !memory_find(p, &m))
		return;
	if (m.freed || m.ending)
		strict_die(function, comm, "the %s buffer of %s was freed",
		           which, text);
	room = m.bytes - (size_t)((const char *)p - m.start);
	if (room < bytes && m.kind != MEMORY_REGISTERED)
		strict_die(function, comm,
		           "the %s buffer of %s has %zu bytes, which is less "
		           "than %zu",
		           which, text, room, bytes);
	if (m.kind == MEMORY_DEVICE && m.device != comm->device)
		strict_die(function, comm,
		           "the %s buffer of %s is memory of device %d", which,
		           text, m.device);
}

static bool overlap(const char *a, size_t a_bytes, const char *b,
                    size_t b_bytes)
{
	return a_bytes && b_bytes && (uintptr_t)a < (uintptr_t)b + b_bytes &&
	       (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static void check_overlap(const struct ncclComm *comm, const struct call *c,
                          const struct use *u)
{
	const size_t size = type_size(c->type);
	const char *send = c->send, *recv = c->recv;
	char text[WORDS];

	if (!overlap(send, u->send * size, recv, u->recv * size))
		return;
	if (u->may_be_in_place &&
	    send + u->recv_at * size == recv + u->send_at * size)
		return;
	strict_die(call_function(c->kind), comm,
	           "the buffers of %s overlap, and not as in place",
	           words(c, text));
}

void strict_check_call(const struct ncclComm *comm, const struct call *c)
{
	const struct use u = use_of(comm, c);
	const size_t size = type_size(c->type);

	if (is_struck(comm))
		return;
	check_memory(comm, c, c->send, u.send * size, "send");
	check_memory(comm, c, c->recv, u.recv * size, "receive");
	check_overlap(comm, c, &u);
}

static void check_transfers(const struct ncclComm *comm,
                            const struct transfer *recv,
                            const struct transfer *other)
{
	const struct call c = transfer_call(recv), d = transfer_call(other);
	char text[WORDS], other_text[WORDS];

	if (!overlap(recv->buffer, recv->count * type_size(recv->type),
	             other->buffer, other->count * type_size(other->type)))
		return;
	if (other->is_send && other->buffer == recv->buffer &&
	    recv->peer == comm->rank && other->peer == comm->rank)
		return;
	strict_die("ncclRecv", comm,
	           "the buffer of %s overlaps that of %s in the same group",
	           words(&c, text), words(&d, other_text));
}

void strict_check_launch(const struct launch *l)
{
	const struct transfer *t = l->transfers;
	struct call c;
	size_t i, k;

	for (i = 0; i < l->call_count; i++)
		strict_check_call(l->comm, &l->calls[i]);
	for (i = 0; i < l->transfer_count; i++) {
		c = transfer_call(&t[i]);
		strict_check_call(l->comm, &c);
		for (k = 0; !t[i].is_send && k < l->transfer_count; k++)
			if (t[k].is_send || k < i)
				check_transfers(l->comm, &t[i], &t[k]);
	}
}

void strict_check_arrival_locked(const struct launch *l)
{
	struct use u;
	struct call c;
	size_t i, size;

	for (i = 0; i < l->call_count + l->transfer_count; i++) {
		if (i < l->call_count)
			c = l->calls[i];
		else
			c = transfer_call(&l->transfers[i - l->call_count]);
		u = use_of(l->comm, &c);
		size = type_size(c.type);
		check_freed(l->comm, &c, c.send, u.send * size, "send");
		check_freed(l->comm, &c, c.recv, u.recv * size, "receive");
	}
}

/* ---- ranks that do not fit together ----------------------------------- */

static const struct call *next_call(const struct world *w, int rank,
                                    size_t same)
{
	const struct launch *l = w->comms[rank]->joined;
	size_t i = l->calls_done + same;

	return i < l->call_count ? &l->calls[i] : NULL;
}

void strict_check_round_locked(const struct world *w, size_t same)
{
	const struct call *first = NULL, *c;
	const struct ncclComm *of = NULL;
	char text[WORDS], other[WORDS];
	int r;

	for (r = 0; r < w->n; r++) {
		c = next_call(w, r, same);
		if (!c || is_struck(w->comms[r]))
			continue;
		if (!first) {
			first = c;
			of = w->comms[r];
		}
		if (call_is_same(first, c))
			continue;
		strict_die(call_function(c->kind), w->comms[r],
		           "calls %s where rank %d, device %d calls %s",
		           words(c, text), of->rank, of->device,
		           words(first, other));
	}
}

void strict_check_message_locked(const struct transfer *send)
{
	const struct transfer *recv = send->partner;
	const struct call c = transfer_call(send), d = transfer_call(recv);
	const struct ncclComm *to = recv->launch->comm;
	char text[WORDS], other[WORDS];

	if (is_struck(send->launch->comm) || is_struck(to) ||
	    (send->count == recv->count && send->type == recv->type))
		return;
	strict_die("ncclSend", send->launch->comm,
	           "%s meets %s of rank %d, device %d", words(&c, text),
	           words(&d, other), to->rank, to->device);
}

/* The collectives of the round for which all slots of @l have come; 0 if they are not the
 * same, so that a rank opens a round. */
static size_t lined_up(const struct world *w, const struct launch *l)
{
	if (split_round_is_list(w, l))
		return l->call_count;
	return slots_are_one(w, l) ? 1 : 0;
}

/* How many collectives of a launch that has arrived need no other rank to arrive any
 * more, whether or not somebody has seen that yet. */
static size_t calls_met(const struct launch *l)
{
	const struct world *w = l->comm->world;
	size_t n = 0;

	if (l->calls_done == l->call_count || !l->joined)
		return l->calls_done;
	if (launch_way(l) != WAY_COUNTED)
		n = slots_are_met(w, l) ? lined_up(w, l) : 0;
	if (!n && atomic_load(&w->phase) >= l->phase)
		n = l->call_count - l->calls_done == 1 ? 1 : w->round.span;
	return l->calls_done + n;
}

/* What keeps @l from its end until the launch @other of another rank, which has
 * arrived too, has come to its own: false if nothing. */
static bool waits_for(const struct launch *l, const struct launch *other,
                      struct call *why)
{
	size_t i;

	for (i = 0; i < l->transfer_count; i++)
		if (l->transfers[i].peer == other->comm->rank &&
		    !l->transfers[i].partner) {
			*why = transfer_call(&l->transfers[i]);
			return true;
		}
	if (calls_met(l) == l->call_count ||
	    calls_met(other) < other->call_count)
		return false;
	*why = l->calls[calls_met(l)];
	return true;
}

/* True if @from waits for @to, in @why, maybe by way of others that have not been
 * asked. */
static bool reaches(const struct world *w, const struct launch *from,
                    const struct launch *to, bool asked[], struct call *why)
{
	const struct launch *next;
	struct call its;
	int r;

	asked[from->comm->rank] = true;
	if (waits_for(from, to, why))
		return true;
	for (r = 0; r < w->n; r++) {
		next = w->comms[r]->joined;
		if (next && !asked[r] && waits_for(from, next, why) &&
		    reaches(w, next, to, asked, &its))
			return true;
	}
	return false;
}

void strict_check_circle_locked(const struct launch *l)
{
	const struct world *w = l->comm->world;
	const struct launch *next;
	char text[WORDS], other[WORDS];
	struct call why, its;
	int r;

	for (r = 0; r < w->n; r++) {
		bool asked[HOST_MAX_RANKS] = { false };

		next = w->comms[r]->joined;
		if (!next || next == l || is_struck(w->comms[r]) ||
		    !waits_for(l, next, &why) ||
		    !reaches(w, next, l, asked, &its))
			continue;
		strict_die(call_function(why.kind), l->comm,
		           "%s waits in a circle: rank %d, device %d is in %s",
		           words(&why, text), next->comm->rank,
		           next->comm->device, words(&its, other));
	}
}

/* ---- a thread that waits for itself ----------------------------------- */

/* Long enough not to be in the way of what is only slow. */
#define SOON_NS UINT64_C(5000000)

/* True if all other threads of the process are streams' own: those count
 * themselves only when they are there to be seen. */
static bool is_only_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	int n = 0;

	if (!tasks)
		return false;
	while ((entry = readdir(tasks)))
		n += entry->d_name[0] != '.';
	closedir(tasks);
	return n - stream_own_threads() == 1;
}

/* True if @l needs rank @other, which has nothing queued; stores for what. */
static bool needs_locked(const struct launch *l, const struct ncclComm *other,
                         struct call *why)
{
	size_t i;

	if (other->rounds != other->turn || is_struck(other))
		return false;
	for (i = 0; i < l->transfer_count; i++)
		if (l->transfers[i].peer == other->rank &&
		    !l->transfers[i].partner) {
			*why = transfer_call(&l->transfers[i]);
			return true;
		}
	if (calls_met(l) == l->call_count)
		return false;
	*why = l->calls[calls_met(l)];
	return true;
}

static void check_wait_locked(const struct launch *l)
{
	const struct world *w = l->comm->world;
	const struct ncclComm *other;
	char text[WORDS];
	struct call why;
	int r;

	for (r = 0; r < w->n; r++) {
		other = w->comms[r];
		if (other == l->comm || !needs_locked(l, other, &why))
			continue;
		strict_die(call_function(why.kind), l->comm,
		           "%s is waited for, outside a group, by the only "
		           "thread, and rank %d, device %d has queued nothing",
		           words(&why, text), other->rank, other->device);
	}
}

static void check_wait(const struct launch *l)
{
	struct world *w = l->comm->world;

	pthread_mutex_lock(&w->lock);
	if (l->joined && !launch_is_over(l) && !world_is_broken(w))
		check_wait_locked(l);
	pthread_mutex_unlock(&w->lock);
}

void strict_check_wait(struct stream *s, uint64_t since_ns)
{
	if (clock_now() - since_ns > SOON_NS && is_only_thread())
		stream_first_launch(s, check_wait);
}
