/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Connects processes that share no memory: each sends the data that it would
 * write to its page, and the others apply it to a copy
 */

#include <sys/mman.h>

#include "base/scoped_lock.h"
#include "processes/peer_page.h"

struct message {
	uint32_t kind; /* enum message_kind */
	uint32_t place;
	uint64_t number;
};

/* Contents of a message, by kind. */
union content {
	struct cause_entry entry;
	struct missing question;
	struct answer answer;
	uint64_t record[PEERS_RECORD / sizeof(uint64_t)];
	uint64_t identity;
	struct remote_rank parting;
};

struct message_memory {
	struct message head;
	union content content;
};

/* Size of the copy of a page, which has only the answers to this process. */
#define COPY_BYTES                                                             \
	(sizeof(struct page) + sizeof(((struct page *)NULL)->answers[0]))

bool peer_make_far(struct peer *x)
{
	void *page = mmap(NULL, COPY_BYTES, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (page == MAP_FAILED)
		return false;
	x->page = page;
	x->pidfd = x->wake_pipe = -1;
	x->is_far = true;
	atomic_store(&x->state, PEER_HERE);
	return true;
}

void peer_free_far(struct peer *x)
{
	munmap(x->page, COPY_BYTES);
}

/* ---- sending ----------------------------------------------------------- */

void peers_send(struct peers *p, int process, enum message_kind kind, int place,
                uint64_t number, const void *what, size_t bytes)
{
	struct message_memory m = {
		.head = { kind, (uint32_t)place, number },
	};

	if (bytes)
		memcpy(&m.content, what, bytes);
	SCOPED_LOCK(&p->line_lock);
	if (p->line)
		p->line->send(p->line->info, process, &m,
		              sizeof(m.head) + bytes);
}

/* ---- receiving --------------------------------------------------------- */

static void store_question(struct page *page, const struct message_memory *m)
{
	if (m->head.place >= QUESTIONS)
		return;
	put_words(page->asks[m->head.place].question, &m->content.question,
	          WORDS(struct missing));
	atomic_store_explicit(&page->asks[m->head.place].number, m->head.number,
	                      memory_order_release);
}

/* Store an answer on the page.  Zero the entries of ranks beyond the last one
 * in the message. */
static void store_answer(struct page *page, const struct message_memory *m,
                         size_t bytes)
{
	struct answer answer = { .ranks = 0 };
	struct place *place;

	if (m->head.place >= QUESTIONS || bytes > sizeof(answer))
		return;
	memcpy(&answer, &m->content.answer, bytes);
	place = &page->answers[0][m->head.place];
	put_stamped(&place->stamp, place->words, m->head.number, &answer,
	            WORDS(struct answer));
}

/* Store a contribution to an exchange.  A process can be one exchange ahead,
 * and skips no exchange. */
static void store_record(struct page *page, const struct message_memory *m,
                         size_t bytes)
{
	const uint64_t last =
		atomic_load_explicit(&page->exchange, memory_order_relaxed);

	if (m->head.number != last + 1 || bytes > PEERS_RECORD)
		return;
	put_words(page->contribution[m->head.number % 2], m->content.record,
	          bytes / sizeof(uint64_t));
	atomic_store_explicit(&page->exchange, m->head.number,
	                      memory_order_release);
}

static void store_message(struct page *page, const struct message_memory *m,
                          size_t bytes)
{
	switch (m->head.kind) {
	case MESSAGE_LEFT:
		atomic_store_explicit(&page->has_left, 1, memory_order_release);
		break;
	case MESSAGE_CAUSE:
		if (bytes == sizeof(struct cause_entry))
			put_cause_entry(page, &m->content.entry);
		break;
	case MESSAGE_QUESTION:
		if (bytes == sizeof(struct missing))
			store_question(page, m);
		break;
	case MESSAGE_ANSWER:
		store_answer(page, m, bytes);
		break;
	case MESSAGE_RECORD:
		store_record(page, m, bytes);
		break;
	case MESSAGE_PARTING:
		if (bytes == sizeof(struct remote_rank) &&
		    m->head.place < ANSWERED_RANKS)
			put_parting(page, (int)m->head.place,
			            &m->content.parting);
		break;
	case MESSAGE_GAVE_UP:
		if (bytes == sizeof(uint64_t))
			atomic_store_explicit(&page->gave_up,
			                      m->content.identity,
			                      memory_order_release);
		break;
	case MESSAGE_MEMBER:
	case MESSAGE_NOTED:
		if (bytes == sizeof(uint64_t))
			put_identity(m->head.kind == MESSAGE_NOTED
			                     ? &page->noted
			                     : &page->members,
			             m->content.identity);
		break;
	}
}

void peers_receive(struct peers *p, int process, const void *message,
                   size_t bytes)
{
	struct message_memory m;

	if (process < 0 || process >= p->processes ||
	    !p->peers[process].is_far ||
	    atomic_load(&p->peers[process].has_ended) ||
	    bytes < sizeof(m.head) || bytes > sizeof(m))
		return;
	/* Copied because the message may not be aligned. */
	memcpy(&m, message, bytes);
	store_message(p->peers[process].page, &m, bytes - sizeof(m.head));
	peer_wake(p->wake_pipe[1]);
}

void peers_receive_end(struct peers *p, int process)
{
	if (process < 0 || process >= p->processes || !p->peers[process].is_far)
		return;
	atomic_store(&p->peers[process].has_ended, true);
	peer_wake(p->wake_pipe[1]);
}
