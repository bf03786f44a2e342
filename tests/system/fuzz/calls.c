/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Steps that call collectives. Each rank's buffers have exactly the necessary
 * size, and each result is compared with the reference.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fill.h"
#include "support/reference.h"
#include "system/fuzz/program.h"

/* ---- sizes ------------------------------------------------------------ */

/*
 * Return the number of blocks, each of the call's count, that a rank sends, or
 * 0 if it does not use the send buffer. recv_blocks() does the same for the
 * receive buffer.
 */
static size_t send_blocks(const struct step *s, int rank)
{
	const size_t n = (size_t)s->family->n;

	switch ((enum fuzz_call)s->call) {
	case FUZZ_REDUCE_SCATTER:
	case FUZZ_ALL_TO_ALL:
		return n;
	case FUZZ_SCATTER:
		return rank == s->root ? n : 0;
	case FUZZ_BROADCAST:
	case FUZZ_BCAST:
	case FUZZ_PAIR:
		return rank == s->root;
	default:
		return 1;
	}
}

static size_t recv_blocks(const struct step *s, int rank)
{
	const size_t n = (size_t)s->family->n;

	switch ((enum fuzz_call)s->call) {
	case FUZZ_ALL_GATHER:
	case FUZZ_ALL_TO_ALL:
		return n;
	case FUZZ_GATHER:
		return rank == s->root ? n : 0;
	case FUZZ_REDUCE:
		return rank == s->root;
	case FUZZ_PAIR:
		return rank == s->peer;
	default:
		return 1;
	}
}

static size_t block_bytes(const struct step *s)
{
	return s->count * reference_size(s->type);
}

static void fill(const struct step *s, int rank, void *to)
{
	fill_random(to, send_blocks(s, rank) * s->count, s->type,
	            (uint64_t)s->number << 8 | (unsigned)rank,
	            s->raw[5] & 0x80);
}

/* ---- buffers ---------------------------------------------------------- */

/* Store the factor of a rank's inputs, which differs between ranks. */
static void fill_scalar(const struct step *s, int rank, void *to)
{
	fill_random(to, 1, s->type,
	            (uint64_t)s->number << 8 | 0x80u | (unsigned)rank, false);
}

/*
 * Return whether a step's collective reduces, so that its inputs can be scaled.
 */
static bool scales(const struct step *s)
{
	return s->is_scaled &&
	       (s->call == FUZZ_ALL_REDUCE || s->call == FUZZ_REDUCE ||
	        s->call == FUZZ_REDUCE_SCATTER);
}

typedef cudaError_t (*free_fn)(void *memory);

static cudaError_t nccl_free(void *memory)
{
	return host_ncclMemFree(memory) == ncclSuccess ? cudaSuccess
	                                               : cudaErrorUnknown;
}

static void *buffer_get(const struct step *s, int rank, size_t bytes)
{
	void *memory = NULL;

	expect_cuda(host_cudaSetDevice(s->family->device[rank]),
	            "cudaSetDevice");
	if (s->raw[5] & 0x40)
		expect_cuda(host_cudaMallocHost(&memory, bytes),
		            "cudaMallocHost");
	else if (s->raw[5] & 0x10)
		expect(true, host_ncclMemAlloc(&memory, bytes), "ncclMemAlloc");
	else
		expect_cuda(host_cudaMalloc(&memory, bytes), "cudaMalloc");
	return memory;
}

static void buffer_put(const struct step *s, void *memory)
{
	free_fn put = s->raw[5] & 0x40   ? host_cudaFreeHost
	              : s->raw[5] & 0x10 ? nccl_free
	                                 : host_cudaFree;

	expect_cuda(put(memory), "freeing a buffer");
}

/* Check that a call that was dropped with its group has changed nothing. */
static void check_untouched(const struct part *part)
{
	const struct step *s = part->step;

	if (part->dropped && !s->in_place && s->call != FUZZ_BCAST &&
	    part->recv_bytes &&
	    !fill_guard_intact(part->recv, part->recv_bytes))
		fuzz_fail("step %d was dropped, but changed the output of rank "
		          "%d",
		          s->number, part->rank);
}

static void part_free(struct part *part)
{
	check_untouched(part);
	buffer_put(part->step, part->send_memory);
	buffer_put(part->step, part->recv_memory);
	buffer_put(part->step, part->scalar);
	part->send_memory = part->recv_memory = NULL;
}

/* For a call in place, let the larger buffer serve as both. */
static void get_in_place(struct part *part)
{
	const struct step *s = part->step;
	size_t skip = (size_t)part->rank * block_bytes(s);
	bool recv_is_larger = part->recv_bytes >= part->send_bytes;
	size_t bytes = recv_is_larger ? part->recv_bytes : part->send_bytes;
	bool same = part->recv_bytes == part->send_bytes;
	char *memory = buffer_get(s, part->rank, bytes);

	part->recv_memory = memory;
	part->send = memory;
	part->recv = memory;
	if (!memory || same || !part->send_bytes || !part->recv_bytes)
		return;
	if (recv_is_larger)
		part->send = memory + skip;
	else
		part->recv = memory + skip;
}

static void get_apart(struct part *part)
{
	const struct step *s = part->step;

	part->send_memory = buffer_get(s, part->rank, part->send_bytes);
	part->recv_memory = buffer_get(s, part->rank, part->recv_bytes);
	part->send = part->send_memory;
	part->recv = part->recv_memory;
}

static void part_begin(struct runner *r, struct step *s, int rank)
{
	struct part *part = &s->parts[rank];

	memset(part, 0, sizeof(*part));
	part->program = r->program;
	part->step = s;
	part->rank = rank;
	part->send_bytes = send_blocks(s, rank) * block_bytes(s);
	part->recv_bytes = recv_blocks(s, rank) * block_bytes(s);
	if (s->in_place || s->call == FUZZ_BCAST)
		get_in_place(part);
	else
		get_apart(part);
	if (scales(s)) {
		part->scalar = buffer_get(s, rank, sizeof(uint64_t));
		fill_scalar(s, rank, part->scalar);
	}
	if (part->recv_bytes)
		fill_guard(part->recv, part->recv_bytes);
	if (part->send_bytes)
		fill(s, rank, part->send);
	part->slot = (s->raw[6] >> 3) % SLOTS;
	if (s->kind == STEP_captured)
		part_capture(part);
	else
		part->stream =
			slot_stream(r, s->family->device[rank], part->slot);
}

/* ---- results ---------------------------------------------------------- */

static void expected(const struct part *part, const void *const in[], void *out)
{
	const struct step *s = part->step;
	int n = s->family->n;

	switch ((enum fuzz_call)s->call) {
	case FUZZ_ALL_REDUCE:
	case FUZZ_REDUCE:
		reference_reduce(out, in, n, s->count, s->type, s->op);
		break;
	case FUZZ_BROADCAST:
		reference_broadcast(out, in, s->count, s->type, s->root);
		break;
	case FUZZ_ALL_GATHER:
		reference_all_gather(out, in, n, s->count, s->type);
		break;
	case FUZZ_REDUCE_SCATTER:
		reference_reduce_scatter(out, in, n, s->count, s->type, s->op,
		                         part->rank);
		break;
	case FUZZ_BCAST:
		reference_broadcast(out, in, s->count, s->type, s->root);
		break;
	case FUZZ_ALL_TO_ALL:
		reference_all_to_all(out, in, n, s->count, s->type, part->rank);
		break;
	case FUZZ_GATHER:
		reference_all_gather(out, in, n, s->count, s->type);
		break;
	case FUZZ_SCATTER:
		reference_scatter(out, in, s->count, s->type, s->root,
		                  part->rank);
		break;
	case FUZZ_RING:
		reference_broadcast(out, in, s->count, s->type,
		                    (part->rank - s->root + n) % n);
		break;
	case FUZZ_PAIR:
		reference_broadcast(out, in, s->count, s->type, s->root);
		break;
	case FUZZ_CALLS:
		break;
	}
}

static void *must_malloc(size_t bytes)
{
	void *memory = malloc(bytes ? bytes : 1);

	if (!memory)
		fuzz_fail("out of memory");
	return memory;
}

static void compare(const struct part *part, const void *is, const void *must,
                    size_t bytes, const char *what)
{
	const struct step *s = part->step;
	size_t count = bytes / reference_size(s->type);
	size_t at = reference_compare(is, must, count, s->type);

	if (at < count)
		fuzz_fail("step %d, call %d, rank %d of %d, type %d, op %d, "
		          "root %d%s: %s differs at %zu of %zu",
		          s->number, s->call, part->rank, s->family->n, s->type,
		          s->op, s->root, s->in_place ? ", in place" : "", what,
		          at, count);
}

static void scale(const struct step *s, int rank, void *in)
{
	uint64_t scalar;

	fill_scalar(s, rank, &scalar);
	reference_scale(in, in, &scalar, send_blocks(s, rank) * s->count,
	                s->type);
}

/* Number of compared results. Accessed relaxed, because it orders nothing. */
static atomic_ulong results;

unsigned long fuzz_results(void)
{
	return atomic_load_explicit(&results, memory_order_relaxed);
}

static void part_check(const struct part *part)
{
	const struct step *s = part->step;
	void *in[MOST_RANKS], *out = must_malloc(part->recv_bytes);
	int r;

	for (r = 0; r < s->family->n; r++) {
		in[r] = must_malloc(send_blocks(s, r) * block_bytes(s));
		fill(s, r, in[r]);
	}
	if (!s->in_place && s->call != FUZZ_BCAST && part->send_bytes)
		compare(part, part->send, in[part->rank], part->send_bytes,
		        "the input");
	for (r = 0; scales(s) && r < s->family->n; r++)
		scale(s, r, in[r]);
	if (part->recv_bytes) {
		expected(part, (const void *const *)in, out);
		compare(part, part->recv, out, part->recv_bytes, "the result");
	}
	for (r = 0; r < s->family->n; r++)
		free(in[r]);
	free(out);
}

/*
 * Return whether everything that was queued for this call is done and was not
 * cut short.
 */
static bool is_done(const struct part *part)
{
	return part->queued && part->step->is_sure && !part->step->is_loss &&
	       is_intact(part->program, part->step->family);
}

void parts_check(struct runner *r, int device, int slot)
{
	struct part **at = &r->parts, *part;

	while ((part = *at)) {
		if (part->step->family->device[part->rank] != device ||
		    (slot >= 0 && part->slot != slot) || !is_done(part)) {
			at = &part->next;
			continue;
		}
		*at = part->next;
		part_check(part);
		atomic_fetch_add_explicit(&results, 1, memory_order_relaxed);
		part->next = r->checked;
		r->checked = part;
	}
}

void parts_free(struct part **list, int device)
{
	struct part *part;

	while ((part = *list)) {
		if (device >= 0 &&
		    part->step->family->device[part->rank] != device) {
			list = &part->next;
			continue;
		}
		*list = part->next;
		part_free(part);
	}
}

/*
 * Return whether the call completes immediately: there is only one rank, and it
 * sends no messages.
 */
static bool is_immediate(const struct step *s)
{
	return s->family->n == 1 && s->call != FUZZ_RING &&
	       s->call != FUZZ_PAIR;
}

static bool is_good(ncclResult_t result)
{
	return result == ncclSuccess || result == ncclInProgress;
}

void parts_end_group(struct runner *r, ncclResult_t result)
{
	struct part *part, *next;
	bool holds;

	for (part = r->pending; part; part = next) {
		next = part->next;
		holds = is_good(result) || is_immediate(part->step);
		part->queued = part->called == ncclSuccess && holds;
		part->dropped = part->called == ncclSuccess && !holds;
		part->next = r->parts;
		r->parts = part;
	}
	r->pending = NULL;
}

/* ---- making the call -------------------------------------------------- */

static ncclResult_t to_ranks(const struct part *part, size_t count, int op,
                             int root)
{
	const struct step *s = part->step;
	ncclComm_t comm = s->family->comm[part->rank];
	ncclDataType_t type = (ncclDataType_t)s->type;
	ncclRedOp_t o = (ncclRedOp_t)op;

	switch ((enum fuzz_call)s->call) {
	case FUZZ_ALL_REDUCE:
		return host_ncclAllReduce(part->send, part->recv, count, type,
		                          o, comm, part->stream);
	case FUZZ_BROADCAST:
		return host_ncclBroadcast(part->send, part->recv, count, type,
		                          root, comm, part->stream);
	case FUZZ_REDUCE:
		return host_ncclReduce(part->send, part->recv, count, type, o,
		                       root, comm, part->stream);
	case FUZZ_ALL_GATHER:
		return host_ncclAllGather(part->send, part->recv, count, type,
		                          comm, part->stream);
	case FUZZ_REDUCE_SCATTER:
		return host_ncclReduceScatter(part->send, part->recv, count,
		                              type, o, comm, part->stream);
	case FUZZ_BCAST:
		return host_ncclBcast(part->recv, count, type, root, comm,
		                      part->stream);
	case FUZZ_ALL_TO_ALL:
		return host_ncclAlltoAll(part->send, part->recv, count, type,
		                         comm, part->stream);
	case FUZZ_GATHER:
		return host_ncclGather(part->send, part->recv, count, type,
		                       root, comm, part->stream);
	case FUZZ_SCATTER:
		return host_ncclScatter(part->send, part->recv, count, type,
		                        root, comm, part->stream);
	default:
		return ncclInternalError;
	}
}

static ncclResult_t first_of(ncclResult_t a, ncclResult_t b)
{
	return a != ncclSuccess ? a : b;
}

/* Make a rank's sends and receives, inside a group. */
static ncclResult_t to_one(const struct part *part, size_t count, int root)
{
	const struct step *s = part->step;
	const int n = s->family->n, rank = part->rank;
	const bool ring = s->call == FUZZ_RING;
	ncclComm_t comm = s->family->comm[rank];
	ncclDataType_t type = (ncclDataType_t)s->type;
	ncclResult_t sent = ncclSuccess, received = ncclSuccess;

	if (ring || rank == s->root)
		sent = host_ncclSend(part->send, count, type,
		                     ring ? (rank + root) % n : s->peer, comm,
		                     part->stream);
	if (ring || rank == s->peer)
		received = host_ncclRecv(part->recv, count, type,
		                         ring ? (rank - root + n) % n : s->root,
		                         comm, part->stream);
	return first_of(sent, received);
}

static ncclResult_t call_with(const struct part *part, size_t count, int op,
                              int root)
{
	if (part->step->call == FUZZ_RING || part->step->call == FUZZ_PAIR)
		return to_one(part, count, root);
	return to_ranks(part, count, op, root);
}

/* Make the call. A scaled call gets its own operation, which is destroyed right
 * after the call. */
static ncclResult_t call(const struct part *part, size_t count, int op,
                         int root)
{
	const struct step *s = part->step;
	const bool on_device = s->raw[5] & 0x20;
	ncclComm_t comm = s->family->comm[part->rank];
	uint64_t scalar;
	ncclRedOp_t own;
	ncclResult_t result;

	if (!scales(s))
		return call_with(part, count, op, root);
	memcpy(&scalar, part->scalar, sizeof(scalar));
	result = host_ncclRedOpCreatePreMulSum(
		&own, on_device ? part->scalar : &scalar,
		(ncclDataType_t)s->type,
		on_device ? ncclScalarDevice : ncclScalarHostImmediate, comm);
	if (result != ncclSuccess)
		return result;
	result = call_with(part, count, (int)own, root);
	memset(&scalar, 0xff, sizeof(scalar));
	expect(true, host_ncclRedOpDestroy(own, comm), "ncclRedOpDestroy");
	return result;
}

/*
 * Make the odd rank's call, which differs from the other ranks' calls. Return
 * -1 if it makes none. The odd rank becomes a root only if it has a root's
 * input, because NCCL may read that before it detects the mismatch.
 */
static int call_oddly(const struct part *part)
{
	const struct step *s = part->step;
	const int root = (s->root + 1) % s->family->n;

	if (s->raw[7] % 3 == 0)
		return -1;
	if (s->raw[7] % 3 == 2 && root != part->rank)
		return (int)call_with(part, s->count, (s->op + 1) % ncclAvg,
		                      root);
	return (int)call(part, s->count ? s->count - 1 : 0, s->op, s->root);
}

void call_rank(struct runner *r, struct step *s, int rank)
{
	struct part *part = &s->parts[rank];
	int result;

	part_begin(r, s, rank);
	part->next = r->pending;
	r->pending = part;
	part->called = ncclInternalError;
	if (!go_inside(r, s->family, rank))
		return;
	if (s->may_hang)
		wait_begin(r->program, true);
	result = rank == s->odd_rank
	                 ? call_oddly(part)
	                 : (int)call(part, s->count, s->op, s->root);
	if (s->may_hang)
		wait_end(r->program, true);
	if (result < 0)
		return;
	if (s->family->is_async && result == ncclInProgress)
		result = ncclSuccess;
	part->called = (ncclResult_t)result;
	expect(!r->program->is_wild, part->called, "a collective");
}

static bool takes_part(const struct step *s, int rank)
{
	return s->call != FUZZ_PAIR || rank == s->root || rank == s->peer;
}

/*
 * Run a collective. A thread with several ranks calls for them in one group. A
 * rank that both sends and receives also needs a group.
 */
void run_collective(struct runner *r, struct step *s)
{
	struct family *f = s->family;
	int rank, n = 0, before;
	bool group;

	host_cudaGetDevice(&before);
	for (rank = 0; rank < f->n; rank++)
		n += f->owner[rank] == r->index && takes_part(s, rank);
	group = n > 1 || (n && s->call == FUZZ_RING) ||
	        (n && s->call == FUZZ_PAIR && s->root == s->peer);
	if (group)
		fuzz_group_start(r);
	r->group_is_loose |= r->program->is_wild || f->is_async;
	for (rank = 0; rank < f->n; rank++)
		if (f->owner[rank] == r->index && takes_part(s, rank))
			call_rank(r, s, rank);
	expect_cuda(host_cudaSetDevice(before), "cudaSetDevice");
	if (group)
		fuzz_group_end(r, s->may_hang);
	else if (!r->depth)
		parts_end_group(r, ncclSuccess);
	settle(r);
	for (rank = 0; f->is_async && rank < f->n; rank++)
		if (f->owner[rank] == r->index)
			expect(true, await_state(r, f, rank), "a state");
}
