/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the protocols LL and LL128: lines contain the number of the step
 * next to the data, so that a receiver needs no counter to see that a line has
 * arrived
 *
 *   LL      16 bytes: twice 4 bytes of data and the low 4 bytes of the number,
 *           each pair written atomically
 *   LL128   128 bytes: 120 bytes of data, then the number, written last
 *
 * An operation is one step.  (On a GPU, the lines of LL128 have their data in
 * another order, which only the kernels see.)
 */

#include <string.h>

#include "base/util.h"
#include "sim/nvidia/kernel/task.h"

/* Maximum number of bytes that a task moves at a time. */
#define ROOM 7680

/* Number of lines in a group of LL128. */
#define GROUP 16

struct lines {
	size_t data, whole; /* number of bytes of data, and of the whole line */
	bool (*read)(const char *line, uint64_t number, char *data);
	void (*write)(char *line, uint64_t number, const char *data);
};

/* ---- LL ---------------------------------------------------------------- */

static uint64_t pair_of(uint32_t data, uint64_t number)
{
	return data | number << 32;
}

static bool read_ll(const char *line, uint64_t number, char *data)
{
	const uint64_t *pairs = (const uint64_t *)line;

	for (size_t i = 0; i < 2; i++) {
		const uint64_t pair = counter_load(&pairs[i]);
		const uint32_t half = (uint32_t)pair;

		if (pair >> 32 != (uint32_t)number)
			return false;
		memcpy(data + i * sizeof(half), &half, sizeof(half));
	}
	return true;
}

static void write_ll(char *line, uint64_t number, const char *data)
{
	uint64_t *pairs = (uint64_t *)line;
	uint32_t halves[2];

	memcpy(halves, data, sizeof(halves));
	for (int i = 0; i < 2; i++)
		counter_store(&pairs[i], pair_of(halves[i], number));
}

/* ---- LL128 ------------------------------------------------------------- */

#define DATA_128 120

static bool read_ll128(const char *line, uint64_t number, char *data)
{
	if (counter_load((const uint64_t *)(line + DATA_128)) != number)
		return false;
	memcpy(data, line, DATA_128);
	return true;
}

static void write_ll128(char *line, uint64_t number, const char *data)
{
	memcpy(line, data, DATA_128);
	counter_store((uint64_t *)(line + DATA_128), number);
}

static const struct lines all_lines[] = {
	[PROTOCOL_LL] = { 8, 16, read_ll, write_ll },
	[PROTOCOL_LL128] = { DATA_128, DATA_128 + 8, read_ll128, write_ll128 },
};

/* ---- operations -------------------------------------------------------- */

static char *line_memory(const struct task *t, const struct end *e, size_t line)
{
	const size_t step_bytes =
		(size_t)t->comm->buffer_bytes[t->protocol] / STEPS;

	return e->c.buffers[t->protocol] + e->step % STEPS * step_bytes +
	       line * all_lines[t->protocol].whole;
}

static uint64_t number_of(const struct end *e)
{
	return e->step + 1;
}

/* Read up to @most lines that have arrived.  Return the number of lines
 * read. */
static size_t read_lines(const struct task *t, const struct end *e,
                         size_t first, size_t most, char *data)
{
	const struct lines *l = &all_lines[t->protocol];
	size_t n = 0;

	while (n < most && l->read(line_memory(t, e, first + n), number_of(e),
	                           data + n * l->data))
		n++;
	return n;
}

static void write_lines(const struct task *t, const struct end *e, size_t first,
                        size_t n, const char *data)
{
	const struct lines *l = &all_lines[t->protocol];

	for (size_t i = 0; i < n; i++)
		l->write(line_memory(t, e, first + i), number_of(e),
		         data + i * l->data);
}

/* Return the number of lines of the operation that contain data. */
static size_t line_count(const struct task *t)
{
	return DIVIDE_UP(t->op.count * t->combine.size,
	                 all_lines[t->protocol].data);
}

/* Return the number of lines of the operation, including empty lines that fill
 * a group. */
static size_t whole_line_count(const struct task *t)
{
	const size_t n = line_count(t);

	return t->protocol == PROTOCOL_LL128 ? ROUND_UP(n, GROUP) : n;
}

/* Start sending: check that the peers have room, and announce the number of
 * bytes to the threads that serve a network.  Return false if there is no
 * room. */
static bool begin(struct task *t)
{
	const size_t bytes = whole_line_count(t) * all_lines[t->protocol].whole;

	for (int i = 0; !t->aborted && i < t->sends; i++)
		if (!end_has_room(&t->send[i], 1))
			return false;
	for (int i = 0; i < t->sends; i++)
		end_announce(&t->send[i], bytes);
	return true;
}

/* Write empty lines to fill the last group, because the thread that serves a
 * network waits for whole groups. */
static void fill_group(const struct task *t)
{
	static const char nothing[DATA_128];
	const size_t whole = whole_line_count(t);

	for (int i = 0; i < t->sends; i++)
		for (size_t n = line_count(t); n < whole; n++)
			write_lines(t, &t->send[i], n, 1, nothing);
}

static void end(struct task *t)
{
	struct end *e;

	for (e = t->recv; t->op.recv && e < t->recv + t->recvs; e++)
		counter_store(e->c.head, ++e->step);
	for (e = t->send; t->op.send && e < t->send + t->sends; e++) {
		e->step++;
		if (t->protocol == PROTOCOL_LL128 && e->c.slots)
			counter_store(e->c.tail, e->step);
	}
}

/* Move up to @most elements, starting at the beginning of a line.  Return the
 * number of elements moved. */
static size_t move_elements(struct task *t, size_t most)
{
	const struct lines *l = &all_lines[t->protocol];
	const size_t size = t->combine.size, line = t->done * size / l->data;
	size_t lines = DIVIDE_UP(most * size, l->data), count;
	_Alignas(16) char in[MAX_CHILDREN][ROOM], out[ROOM];
	const void *from[1 + MAX_CHILDREN];
	void *to[2];
	int froms = 0, tos = 0;

	if (t->op.from)
		from[froms++] = task_at(t, t->op.from, t->op.from_at + t->done);
	for (int i = 0; t->op.recv && i < t->recvs; i++) {
		lines = read_lines(t, &t->recv[i], line, lines, in[i]);
		from[froms++] = in[i];
	}
	count = lines * l->data / size;
	count = MIN(count, most);
	if (!count)
		return 0;
	if (t->op.to)
		to[tos++] = task_at(t, t->op.to, t->op.to_at + t->done);
	if (t->op.send) {
		memset(out + (lines - 1) * l->data, 0, l->data);
		to[tos++] = out;
	}
	combine(&t->combine, to, tos, from, froms, count, t->op.from == INPUT,
	        t->op.last);
	for (int i = 0; t->op.send && i < t->sends; i++)
		write_lines(t, &t->send[i], line, lines, out);
	return count;
}

bool lines_step(struct task *t, bool *finished)
{
	const size_t most = ROOM / t->combine.size;
	size_t left = t->op.count - t->done, moved;

	/* t->slice is 1 once the operation has started. */
	if (!t->slice) {
		if (t->op.send && !begin(t))
			return false;
		t->slice = 1;
	}
	if (left && !t->aborted) {
		moved = move_elements(t, MIN(left, most));
		t->done += moved;
		if (moved < left)
			return moved;
	}
	if (t->op.send && !t->aborted)
		fill_group(t);
	end(t);
	*finished = true;
	return true;
}
