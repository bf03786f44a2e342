/* SPDX-License-Identifier: Apache-2.0 */

#include "core/recorder.h"

#include "base/pages.h"
#include "base/status.h"

enum {
	WORD_SUBMITTED,
	/* Kind, type, redop, flags, root and tag: see pack_call().  Changed
	 * once after the record is written, by recorder_set_captured(). */
	WORD_CALL,
	WORD_N, /* number of tensors, and the digest in the high half */
	WORD_COUNT,
	WORD_BYTES,
	WORD_STREAM,
	/* Outcome in 16 bits, changed once more by recorder_end(); label in 16
	 * bits; thread ID in the high half. */
	WORD_OUTCOME,
};

/* Number of low bits of a record_times word that hold the time.  The high bits
 * identify which use of the slot the time belongs to. */
#define TIME_BITS 48
#define TIME_MASK ((UINT64_C(1) << TIME_BITS) - 1)

/* Bit that is set in a time that is an upper bound; see
 * record.finished_at_most. */
#define AT_MOST_BIT (UINT64_C(1) << (TIME_BITS - 1))
#define TIME_MOST (AT_MOST_BIT - 1)

int recorder_init(struct recorder *r, unsigned slots)
{
	r->mask = slots - 1;
	r->bits = (unsigned)__builtin_ctz(slots);
	r->slots = pages_alloc(slots * sizeof(*r->slots));
	r->times = pages_alloc(slots * sizeof(*r->times));
	if (!r->slots || !r->times)
		return error_set(COHORT_NO_MEMORY,
		                 "no memory for %u recorder slots", slots);
	return COHORT_OK;
}

void recorder_forget(struct recorder *r)
{
	pages_forget(r->times, (r->mask + 1) * sizeof(*r->times));
	pages_forget(r->slots, (r->mask + 1) * sizeof(*r->slots));
}

void recorder_fini(struct recorder *r)
{
	pages_free(r->times, (r->mask + 1) * sizeof(*r->times));
	pages_free(r->slots, (r->mask + 1) * sizeof(*r->slots));
}

static struct record_slot *slot_of(const struct recorder *r, uint64_t ticket)
{
	return &r->slots[ticket & r->mask];
}

#define BATCH_BIT (UINT64_C(1) << 31)
#define CAPTURED_BIT (UINT64_C(1) << 30)
#define HOST_BIT (UINT64_C(1) << 29)

/* Return the first call of @op, or @op itself if it is an empty batch. */
static const struct op *first_call(const struct op *op)
{
	return op->kind == OP_BATCH && op->n ? op->calls : op;
}

static uint64_t pack_call(const struct op *op, unsigned tag)
{
	const struct op *first = first_call(op);
	int type = first->tensors ? first->tensors[0].type : 0;

	return (uint64_t)first->kind | (uint64_t)type << 8 |
	       (uint64_t)redop_kind(first->redop) << 16 |
	       (op->kind == OP_BATCH ? BATCH_BIT : 0) |
	       (op->from_host ? HOST_BIT : 0) |
	       (uint64_t)(uint16_t)first->root << 32 | (uint64_t)tag << 48;
}

static size_t count_of(const struct op *op)
{
	const struct op *first = first_call(op);

	return first->tensors ? first->tensors[0].count : 0;
}

/* Store a word of a record.  The release makes a reader that sees a new word
 * also see that the ticket was cleared before. */
static void store_slot_word(struct record_slot *s, int word, uint64_t value)
{
	atomic_store_explicit(&s->words[word], value, memory_order_release);
}

/* Read a word of a record.  The acquire pairs with store_slot_word(). */
static uint64_t load_slot_word(const struct record_slot *s, int word)
{
	return atomic_load_explicit(&s->words[word], memory_order_acquire);
}

/* Return how many times the slot of @ticket was used before @ticket, shifted to
 * the position of this number in a time word. */
static uint64_t use_of(const struct recorder *r, uint64_t ticket)
{
	return ticket >> r->bits << TIME_BITS;
}

static struct record_times *times_of(const struct recorder *r, uint64_t ticket)
{
	return &r->times[ticket & r->mask];
}

#define OUTCOME_MASK UINT64_C(0xffff)

static uint64_t pack_outcome(int outcome, unsigned label, unsigned tid)
{
	return (uint16_t)outcome | (uint64_t)label << 16 | (uint64_t)tid << 32;
}

static unsigned label_of(struct recorder *r, const struct op *op)
{
	if (!op->label)
		return 0;
	tag_set(&r->labels, op->label);
	return r->labels.now;
}

void recorder_begin(struct recorder *r, uint64_t ticket, const struct op *op,
                    uint32_t digest, int tid, uint64_t now_ns)
{
	struct record_slot *s = slot_of(r, ticket);
	struct record_times *t = times_of(r, ticket);
	uint64_t use = use_of(r, ticket), bytes = op_bytes(op);

	atomic_store_explicit(&s->ticket, 0, memory_order_relaxed);
	/* Because of this release and those below, a thread that reads a word
	 * of the new record cannot set a time of the slot's previous record. */
	atomic_store_explicit(&t->started, use, memory_order_release);
	atomic_store_explicit(&t->finished, use, memory_order_release);
	store_slot_word(s, WORD_SUBMITTED, now_ns);
	store_slot_word(s, WORD_CALL, pack_call(op, r->tags.now));
	store_slot_word(s, WORD_N, (uint32_t)op->n | (uint64_t)digest << 32);
	store_slot_word(s, WORD_COUNT, count_of(op));
	store_slot_word(s, WORD_BYTES, bytes);
	atomic_store_explicit(
		&r->bytes,
		atomic_load_explicit(&r->bytes, memory_order_relaxed) + bytes,
		memory_order_relaxed);
	store_slot_word(s, WORD_STREAM, (uintptr_t)op->stream);
	store_slot_word(s, WORD_OUTCOME,
	                pack_outcome(COHORT_TIMED_OUT, label_of(r, op),
	                             (unsigned)tid));
	/* The release makes the words visible before the ticket.  It pairs with
	 * the acquire in recorder_read(). */
	atomic_store_explicit(&s->ticket, ticket, memory_order_release);
}

void recorder_end(struct recorder *r, uint64_t ticket, int outcome)
{
	struct record_slot *s = slot_of(r, ticket);

	store_slot_word(s, WORD_OUTCOME,
	                (load_slot_word(s, WORD_OUTCOME) & ~OUTCOME_MASK) |
	                        (uint16_t)outcome);
}

void recorder_set_captured(struct recorder *r, uint64_t ticket)
{
	struct record_slot *s = slot_of(r, ticket);

	store_slot_word(s, WORD_CALL,
	                load_slot_word(s, WORD_CALL) | CAPTURED_BIT);
}

static uint64_t time_word(const struct recorder *r, uint64_t ticket,
                          uint64_t now_ns)
{
	uint64_t submitted = load_slot_word(slot_of(r, ticket), WORD_SUBMITTED);
	uint64_t since = now_ns > submitted ? now_ns - submitted : 0;

	return use_of(r, ticket) | (since < TIME_MOST ? since + 1 : TIME_MOST);
}

/* Set one of a ticket's times.  Return false if it was set before, or if the
 * slot now belongs to another ticket.  @bit is AT_MOST_BIT or 0. */
static bool try_set_time(struct recorder *r, uint64_t ticket,
                         _Atomic uint64_t *time, uint64_t now_ns, uint64_t bit)
{
	uint64_t unset = use_of(r, ticket);

	/* The acquire pairs with the release in recorder_begin(). */
	if (atomic_load_explicit(time, memory_order_acquire) != unset)
		return false;
	/* Relaxed, because only the time is published.  The exchange fails if
	 * time_word() has read the words of a later use of the slot. */
	return atomic_compare_exchange_strong_explicit(
		time, &unset, time_word(r, ticket, now_ns) | bit,
		memory_order_relaxed, memory_order_relaxed);
}

bool recorder_set_started(struct recorder *r, uint64_t ticket, uint64_t now_ns)
{
	return try_set_time(r, ticket, &times_of(r, ticket)->started, now_ns,
	                    0);
}

bool recorder_set_finished(struct recorder *r, uint64_t ticket, uint64_t now_ns)
{
	return try_set_time(r, ticket, &times_of(r, ticket)->finished, now_ns,
	                    AT_MOST_BIT);
}

bool recorder_observed_end(struct recorder *r, uint64_t ticket, uint64_t now_ns)
{
	_Atomic uint64_t *time = &times_of(r, ticket)->finished;
	uint64_t word;

	if (try_set_time(r, ticket, time, now_ns, 0))
		return true;
	word = atomic_load_explicit(time, memory_order_relaxed);
	if ((word & ~TIME_MASK) == use_of(r, ticket) && word & AT_MOST_BIT)
		atomic_compare_exchange_strong_explicit(time, &word,
		                                        word & ~AT_MOST_BIT,
		                                        memory_order_relaxed,
		                                        memory_order_relaxed);
	return false;
}

bool recorder_has_started(const struct recorder *r, uint64_t ticket)
{
	return atomic_load_explicit(&times_of(r, ticket)->started,
	                            memory_order_relaxed) != use_of(r, ticket);
}

bool recorder_has_finished(const struct recorder *r, uint64_t ticket)
{
	return atomic_load_explicit(&times_of(r, ticket)->finished,
	                            memory_order_relaxed) != use_of(r, ticket);
}

/* Return the time in @word.  Return 0 if @word has no time, or the time of
 * another ticket. */
static uint64_t time_of(const struct recorder *r, uint64_t ticket,
                        uint64_t word, uint64_t submitted_ns)
{
	if (!(word & TIME_MASK) || (word & ~TIME_MASK) != use_of(r, ticket))
		return 0;
	return submitted_ns + (word & TIME_MOST) - 1;
}

bool recorder_read(const struct recorder *r, uint64_t ticket,
                   struct record *out)
{
	const struct record_slot *s = slot_of(r, ticket);
	const struct record_times *t = times_of(r, ticket);
	uint64_t call, outcome, submitted, n, started, finished;

	/* The acquire pairs with the release in recorder_begin(). */
	if (!ticket ||
	    atomic_load_explicit(&s->ticket, memory_order_acquire) != ticket)
		return false;
	submitted = load_slot_word(s, WORD_SUBMITTED);
	call = load_slot_word(s, WORD_CALL);
	n = load_slot_word(s, WORD_N);
	outcome = load_slot_word(s, WORD_OUTCOME);
	started = atomic_load_explicit(&t->started, memory_order_acquire);
	finished = atomic_load_explicit(&t->finished, memory_order_acquire);
	*out = (struct record){
		.ticket = ticket,
		.submitted_ns = submitted,
		.is_batch = call & BATCH_BIT,
		.captured = call & CAPTURED_BIT,
		.from_host = call & HOST_BIT,
		.kind = (enum op_kind)(call & 0xff),
		.type = (int)(call >> 8 & 0xff),
		.redop = (int)(call >> 16 & 0xff),
		.root = (int)(call >> 32 & 0xffff),
		.tag = (unsigned)(call >> 48),
		.n = (uint32_t)n,
		.digest = (uint32_t)(n >> 32),
		.count = load_slot_word(s, WORD_COUNT),
		.bytes = load_slot_word(s, WORD_BYTES),
		.stream = (void *)(uintptr_t)load_slot_word(s, WORD_STREAM),
		.label = (unsigned)(outcome >> 16 & 0xffff),
		.outcome = (int16_t)(outcome & OUTCOME_MASK),
		.tid = (int)(outcome >> 32),
		.started_ns = time_of(r, ticket, started, submitted),
		.finished_ns = time_of(r, ticket, finished, submitted),
	};
	out->finished_at_most = out->finished_ns && finished & AT_MOST_BIT;
	/* Relaxed, because if any word was newer, its acquire made the cleared
	 * ticket visible. */
	return atomic_load_explicit(&s->ticket, memory_order_relaxed) == ticket;
}

void *recorder_stream(const struct recorder *r, uint64_t ticket)
{
	struct record record;

	return recorder_read(r, ticket, &record) ? record.stream : NULL;
}

static void add_root(struct text *t, const struct record *r)
{
	if (op_has_peer(r->kind))
		text_add(t, " %s rank %d", r->kind == OP_SEND ? "to" : "from",
		         r->root);
	else if (op_has_root(r->kind))
		text_add(t, ", root %d", r->root);
}

void record_add(struct text *t, const struct record *r)
{
	if (r->is_batch)
		text_add(t, "batch of %zu call%s", r->n, r->n == 1 ? "" : "s");
	if (r->is_batch && r->kind == OP_BATCH)
		return;
	text_add(t, r->is_batch ? ", the first %s" : "%s",
	         op_full_name(r->kind, r->from_host));
	if (r->n > 1 && !r->is_batch)
		text_add(t, " of %zu tensors, %zu bytes, the first", r->n,
		         r->bytes);
	if (!op_has_no_tensors(r->kind))
		text_add(t, " of %zu %s", r->count, type_name(r->type));
	if (op_has_redop(r->kind))
		text_add(t, ", %s", redop_name(r->redop));
	add_root(t, r);
	if (r->captured)
		text_add(t, ", captured");
}

const char *record_name(const struct record *r)
{
	return r->is_batch ? op_name(OP_BATCH)
	                   : op_full_name(r->kind, r->from_host);
}

const char *record_native_name(const struct record *r)
{
	return op_native_name(r->is_batch ? OP_BATCH : r->kind);
}
