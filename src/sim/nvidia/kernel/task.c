/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connects tasks to their peers, and advances them from phase to phase (see
 * task.h)
 */

#include "sim/nvidia/kernel/task.h"

#include "base/util.h"
#include "sim/nvidia/kernel/layout_read.h"
/* ---- connections ------------------------------------------------------- */

static enum way way_of(const struct task *t, const struct connection *c)
{
	if (!t->registered || t->protocol != PROTOCOL_SIMPLE ||
	    !(c->flags & (CONNECTION_P2P_WRITE | CONNECTION_P2P_READ)))
		return BY_STEPS;
	if (t->is_message)
		return c->flags & CONNECTION_P2P_WRITE ? BY_WRITING
		                                       : BY_READING;
	return t->coll->direct & CONNECTION_P2P_READ ? BY_READING : BY_WRITING;
}

static void open_end(const struct task *t, struct end *e, int rank)
{
	e->rank = rank;
	e->way = way_of(t, &e->c);
	e->exchanged = e->way == BY_STEPS;
	e->step = *e->c.step;
	/* Start at a multiple of a chunk's steps.  The skipped steps are
	 * unused. */
	if (t->protocol == PROTOCOL_SIMPLE)
		e->step = ROUND_UP(e->step,
		                   (uint64_t)(t->slices * t->slice_steps));
}

void task_connect(struct task *t, const struct layout *layout,
                  const struct channel *channel, const int *recv, int max_recv,
                  const int *send, int max_send, int index)
{
	struct end *e;

	for (int i = 0; i < max_recv && recv[i] >= 0; i++) {
		e = &t->recv[t->recvs++];
		e->c = read_connection(layout, channel->peers[recv[i]], false,
		                       index);
		open_end(t, e, recv[i]);
		/* Let the sender use the skipped steps. */
		if (t->protocol == PROTOCOL_SIMPLE)
			counter_store(e->c.head, e->step);
	}
	for (int i = 0; i < max_send && send[i] >= 0; i++) {
		e = &t->send[t->sends++];
		e->c = read_connection(layout, channel->peers[send[i]], true,
		                       index);
		open_end(t, e, send[i]);
	}
}

/* ---- registered buffers ------------------------------------------------ */

/*
 * Bit that is set in each of the two words in which an end passes the
 * operation's scalar, so that the words are never 0.
 *
 * To let the other end access its buffer directly, one end passes the buffer's
 * address through a word, which is NULL while no address is being passed.  If
 * the buffer is the sender's, NCCL versions that support it also pass the
 * scalar.
 */
#define SCALAR_MARK (UINT64_C(1) << 32)

static void *word_load(void **word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void word_store(void **word, void *value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Return the address at which the peer sees this rank's buffer. */
static char *name_for_peer(const struct task *t, const struct end *e,
                           enum buffer buffer)
{
	const struct coll_work *w = t->coll;
	int peer;

	if (t->is_message)
		return buffer == INPUT ? t->input : t->output;
	peer = t->comm->local_ranks ? t->comm->local_ranks[e->rank] : e->rank;
	if (buffer == INPUT)
		return (char *)(w->send_offset + w->send_remote[peer]);
	return (char *)(w->recv_offset + w->recv_remote[peer]);
}

/* As the receiver, pass the sender the address to write to.  Return false if
 * the word is still in use. */
static bool post_output(struct task *t, struct end *e)
{
	if (word_load(e->c.pointer_exchange))
		return false;
	e->memory = t->output;
	word_store(e->c.pointer_exchange, name_for_peer(t, e, OUTPUT));
	return true;
}

/* As the sender, pass the receiver the address to read from.  In a collective,
 * this is the address of the output buffer, from which the sender forwards
 * data.  Return false if the words are still in use. */
static bool post_input(struct task *t, struct end *e)
{
	const enum buffer buffer = t->is_message ? INPUT : OUTPUT;
	const uint64_t scalar = t->coll ? t->coll->scalar : 0;
	uint64_t *words = e->c.scalar_exchange;

	if (word_load(e->c.pointer_exchange) ||
	    (words && (counter_load(&words[0]) || counter_load(&words[1]))))
		return false;
	e->memory = NULL;
	if (words) {
		counter_store(&words[0], SCALAR_MARK | (uint32_t)scalar);
		counter_store(&words[1], SCALAR_MARK | (scalar >> 32));
	}
	word_store(e->c.pointer_exchange, name_for_peer(t, e, buffer));
	return true;
}

static bool receive_address(struct end *e, bool with_scalar)
{
	e->memory = word_load(e->c.pointer_exchange);
	if (!e->memory)
		return false;
	if (with_scalar && e->c.scalar_exchange) {
		counter_store(&e->c.scalar_exchange[0], 0);
		counter_store(&e->c.scalar_exchange[1], 0);
	}
	word_store(e->c.pointer_exchange, NULL);
	return true;
}

static bool exchange(struct task *t, struct end *e, bool sends)
{
	if (e->exchanged)
		return false;
	if (t->aborted || !e->c.pointer_exchange)
		e->exchanged = true;
	else if (e->way == BY_WRITING)
		e->exchanged =
			sends ? receive_address(e, false) : post_output(t, e);
	else
		e->exchanged =
			sends ? post_input(t, e) : receive_address(e, true);
	return e->exchanged;
}

static bool connect_ends(struct task *t)
{
	bool progress = false, complete = true;

	for (int i = 0; i < t->recvs; i++) {
		progress |= exchange(t, &t->recv[i], false);
		complete &= t->recv[i].exchanged;
	}
	for (int i = 0; i < t->sends; i++) {
		progress |= exchange(t, &t->send[i], true);
		complete &= t->send[i].exchanged;
	}
	if (complete)
		t->phase = OPERATE;
	return progress || complete;
}

/* ---- operations -------------------------------------------------------- */

static void store_steps(struct task *t)
{
	for (int i = 0; i < t->recvs; i++)
		*t->recv[i].c.step = t->recv[i].step;
	for (int i = 0; i < t->sends; i++)
		*t->send[i].c.step = t->send[i].step;
}

static bool operate(struct task *t)
{
	bool finished = false, progress;

	if (!t->begun) {
		t->op = (struct operation_step){ .from = NOWHERE,
			                         .input = t->input,
			                         .output = t->output };
		if (!t->program(t, t->number, &t->op)) {
			store_steps(t);
			t->phase = LEAVE;
			return true;
		}
		t->number++;
		t->slice = 0;
		t->done = 0;
		t->begun = true;
	}
	progress = t->protocol == PROTOCOL_SIMPLE ? simple_step(t, &finished)
	                                          : lines_step(t, &finished);
	t->begun = !finished;
	return progress;
}

/* Finish the task.  The sender of a message must wait until the receiver has
 * read the sender's buffer; until then, return false. */
static bool leave(struct task *t)
{
	const struct end *e = t->send;

	if (!t->aborted && t->is_message && t->sends && e->way == BY_READING &&
	    counter_load(e->c.tail) > counter_load(e->c.head))
		return false;
	t->phase = DONE;
	return true;
}

bool task_step(struct task *t)
{
	switch (t->phase) {
	case CONNECT:
		return connect_ends(t);
	case OPERATE:
		return operate(t);
	case LEAVE:
		return leave(t);
	case DONE:
		break;
	}
	return false;
}
