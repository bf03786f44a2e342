/* SPDX-License-Identifier: Apache-2.0 */

/* Checks the buffers that a call reads and writes (see buffers.h) */

#include "sim/nccl/buffers.h"

#include <string.h>

#include "base/type.h"
#include "base/util.h"
#include "sim/cuda/memory_table.h"
#include "sim/strict/fault.h"

/* False under ThreadSanitizer, because the lock of a lookup would synchronize
 * threads that the program does not synchronize, and so hide data races. */
#if defined(__SANITIZE_THREAD__)
static const bool looks_memory_up = false;
#else
static const bool looks_memory_up = true;
#endif

/* Numbers of elements that one rank uses in a call's buffers, and the position
 * of one buffer within the other if the call is in place. */
struct use {
	size_t send, recv;
	bool may_be_in_place;
	/* offset of each buffer within the other one if in place, in
	 * elements */
	size_t send_at, recv_at;
};

static struct use use_of(const struct member *m, const struct call *c)
{
	const size_t place = (size_t)m->rank * c->count;
	const int n = m->world->n;
	struct use u = {
		.send = call_sends(c, m->rank, n) * c->count,
		.recv = call_receives(c, m->rank, n) * c->count,
		.may_be_in_place = c->kind != CALL_ALL_TO_ALL || n == 1,
	};

	if (c->kind == CALL_ALL_GATHER || c->kind == CALL_GATHER)
		u.send_at = place;
	if (c->kind == CALL_REDUCE_SCATTER || c->kind == CALL_SCATTER)
		u.recv_at = place;
	return u;
}

static void check_freed(const struct member *m, const struct call *c,
                        const void *p, size_t bytes, const char *which)
{
	struct memory found;
	char text[CALL_WORDS];

	if (bytes && looks_memory_up && memory_find(p, &found) && found.freed)
		member_abort_program(call_function(c->kind), m,
		                     "the %s buffer of %s was freed", which,
		                     call_words(c, text));
}

static void check_memory(const struct member *m, const struct call *c,
                         const void *p, size_t bytes, const char *which)
{
	const char *function = call_function(c->kind);
	struct memory found;
	char text[CALL_WORDS];
	size_t room;

	if (!bytes)
		return;
	call_words(c, text);
	if (!p)
		member_abort_program(function, m, "the %s buffer of %s is NULL",
		                     which, text);
	if (!looks_memory_up || !memory_find(p, &found))
		return;
	if (found.freed || found.ending)
		member_abort_program(function, m,
		                     "the %s buffer of %s was freed", which,
		                     text);
	/* Registered or mapped ranges can be adjacent, so a buffer can extend
	 * into the next range. */
	room = found.bytes - (size_t)((const char *)p - found.start);
	if (room < bytes && found.kind != MEMORY_REGISTERED &&
	    found.kind != MEMORY_MAPPED)
		member_abort_program(
			function, m,
			"the %s buffer of %s has %zu bytes, but needs %zu",
			which, text, room, bytes);
	if (found.kind == MEMORY_DEVICE && found.device != m->device)
		member_abort_program(
			function, m,
			"the %s buffer of %s is memory of device %d", which,
			text, found.device);
}

static bool overlap(const char *a, size_t a_bytes, const char *b,
                    size_t b_bytes)
{
	return a_bytes && b_bytes && (uintptr_t)a < (uintptr_t)b + b_bytes &&
	       (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static void check_overlap(const struct member *m, const struct call *c,
                          const struct use *u)
{
	const size_t size = type_size(c->type);
	const char *send = c->send, *recv = c->recv;
	char text[CALL_WORDS];

	if (!overlap(send, u->send * size, recv, u->recv * size))
		return;
	if (u->may_be_in_place &&
	    send + u->recv_at * size == recv + u->send_at * size)
		return;
	member_abort_program(
		call_function(c->kind), m,
		"the buffers of %s overlap, but the call is not in place",
		call_words(c, text));
}

static void check_call(const struct member *m, const struct call *c)
{
	const struct use u = use_of(m, c);
	const size_t size = type_size(c->type);

	if (member_is_struck(m))
		return;
	check_memory(m, c, c->send, u.send * size, "send");
	check_memory(m, c, c->recv, u.recv * size, "receive");
	check_overlap(m, c, &u);
}

void buffers_check_call(const struct ncclComm *comm, const struct call *c)
{
	check_call(&comm->member, c);
}

static void check_transfers(const struct member *m, const struct transfer *recv,
                            const struct transfer *other)
{
	const struct call c = transfer_call(recv), d = transfer_call(other);
	char text[CALL_WORDS], other_text[CALL_WORDS];

	if (!overlap(recv->buffer, recv->count * type_size(recv->type),
	             other->buffer, other->count * type_size(other->type)))
		return;
	if (other->is_send && other->buffer == recv->buffer &&
	    recv->peer == m->rank && other->peer == m->rank)
		return;
	member_abort_program(
		"ncclRecv", m,
		"the buffer of %s overlaps the buffer of %s in the same group",
		call_words(&c, text), call_words(&d, other_text));
}

void buffers_check_launch(const struct launch *l)
{
	const struct transfer *t = l->transfers;
	struct call c;
	size_t i, k;

	for (i = 0; i < l->call_count; i++)
		check_call(l->member, &l->calls[i]);
	for (i = 0; i < l->transfer_count; i++) {
		c = transfer_call(&t[i]);
		check_call(l->member, &c);
		for (k = 0; !t[i].is_send && k < l->transfer_count; k++)
			if (t[k].is_send || k < i)
				check_transfers(l->member, &t[i], &t[k]);
	}
}

void buffers_check_arrival(const struct launch *l)
{
	struct use u;
	struct call c;
	size_t i, size;

	for (i = 0; i < l->call_count + l->transfer_count; i++) {
		if (i < l->call_count)
			c = l->calls[i];
		else
			c = transfer_call(&l->transfers[i - l->call_count]);
		u = use_of(l->member, &c);
		size = type_size(c.type);
		check_freed(l->member, &c, c.send, u.send * size, "send");
		check_freed(l->member, &c, c.recv, u.recv * size, "receive");
	}
}

/* ---- buffers that other processes cannot map -------------------------- */

/* Allocate a bounce buffer for [@p, @p + @bytes).  Return @p itself if other
 * processes can map it, or NULL if out of memory. */
static void *bounce_alloc(const struct member *m, void *p, size_t bytes)
{
	struct memory bounced = {
		.bytes = bytes,
		.kind = MEMORY_PINNED,
		.device = m->device,
	};

	if (!bytes || span_reaches(m, p, bytes))
		return p;
	return memory_allocate(&bounced) ? bounced.start : NULL;
}

static void bounce_free(const void *bounced, const void *own)
{
	struct memory m;

	if (bounced && bounced != own &&
	    memory_remove(bounced, 1 << MEMORY_PINNED, &m))
		memory_discard(&m);
}

static void bounce_unmap(const struct member *m, const struct call *c,
                         const struct call *bounced, bool done)
{
	const struct use u = use_of(m, c);

	if (done && bounced->recv != c->recv && u.recv)
		memcpy(c->recv, bounced->recv, u.recv * type_size(c->type));
	bounce_free(bounced->send, c->send);
	if (bounced->recv != bounced->send)
		bounce_free(bounced->recv, c->recv);
}

/* Largest bounce buffer of a call that can be split into parts.  Small enough
 * that the results are still in the core's own cache when they are copied from
 * the buffer. */
#define BOUNCE_BYTES ((size_t)512 * 1024)

/* Return the number of elements for which a call's bounce buffers have room.
 * It is less than the call's count if the call must be split into parts. */
static size_t bounce_count(const struct member *m, const struct call *c)
{
	const struct use u = use_of(m, c);
	const size_t size = type_size(c->type);

	if ((c->kind != CALL_ALL_REDUCE && c->kind != CALL_REDUCE &&
	     c->kind != CALL_BROADCAST) ||
	    (span_reaches(m, c->send, u.send * size) &&
	     span_reaches(m, c->recv, u.recv * size)))
		return c->count;
	return MIN(c->count, BOUNCE_BYTES / size);
}

static bool bounce_map(const struct member *m, const struct call *c,
                       struct call *bounced)
{
	const size_t size = type_size(c->type);
	struct use u;

	*bounced = *c;
	bounced->count = bounce_count(m, c);
	u = use_of(m, bounced);
	bounced->send =
		bounce_alloc(m, (void *)(uintptr_t)c->send, u.send * size);
	/* The receiver itself copies a message, so no other process needs to
	 * map the receive buffer. */
	if (c->recv == c->send && u.recv == u.send)
		bounced->recv = (void *)(uintptr_t)bounced->send;
	else if (c->kind != CALL_RECV)
		bounced->recv = bounce_alloc(m, c->recv, u.recv * size);
	if ((!bounced->send && u.send) || (!bounced->recv && u.recv)) {
		bounce_unmap(m, c, bounced, false);
		fault_fail_device(m->device, cudaErrorMemoryAllocation);
		return false;
	}
	if (bounced->send != c->send)
		memcpy((void *)(uintptr_t)bounced->send, c->send,
		       u.send * size);
	return true;
}

const struct bounce_ops buffers_bounce = {
	.map = bounce_map,
	.unmap = bounce_unmap,
};
