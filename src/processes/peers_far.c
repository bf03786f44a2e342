/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes that share no memory with this one: what they would write to their
 * pages they send, and each has a copy of the others' pages
 */

#include <sys/mman.h>

#include "processes/peer_page.h"

struct message {
	uint32_t kind; /* enum message_kind */
	uint32_t place;
	uint64_t number;
};

/* What it brings. */
union content {
	struct told told;
	struct missing question;
	struct answer answer;
	uint64_t record[PEERS_RECORD / sizeof(uint64_t)];
	uint64_t identity;
};

struct message_memory {
	struct message head;
	union content content;
};

/* With the answers to this process only. */
#define COPY_BYTES                                                             \
	(sizeof(struct page) + sizeof(((struct page *)NULL)->answers[0]))

bool peer_make_far(struct peer *x)
{
	void *page = mmap(NULL, COPY_BYTES, PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (page == MAP_FAILED)
		return false;
	x->page = page;
	x->pidfd = x->bell = -1;
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
	pthread_mutex_lock(&p->line_lock);
	if (p->line)
		p->line->send(p->line->info, process, &m,
		              sizeof(m.head) + bytes);
	pthread_mutex_unlock(&p->line_lock);
}

/* ---- hearing ----------------------------------------------------------- */

static void hear_question(struct page *page, const struct message_memory *m)
{
	if (m->head.place >= QUESTIONS)
		return;
	put_words(page->asks[m->head.place].question, &m->content.question,
	          WORDS(struct missing));
	atomic_store_explicit(&page->asks[m->head.place].number, m->head.number,
	                      memory_order_release);
}

/* The ranks behind the last one that is sent are zero. */
static void hear_answer(struct page *page, const struct message_memory *m,
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

/* A process can be ahead by one exchange, and leaves none out. */
static void hear_record(struct page *page, const struct message_memory *m,
                        size_t bytes)
{
	const uint64_t last =
		atomic_load_explicit(&page->exchange, memory_order_relaxed);

	if (m->head.number != last + 1 || bytes > PEERS_RECORD)
		return;
	put_words(page->brought[m->head.number % 2], m->content.record,
	          bytes / sizeof(uint64_t));
	atomic_store_explicit(&page->exchange, m->head.number,
	                      memory_order_release);
}

static void hear(struct page *page, const struct message_memory *m,
                 size_t bytes)
{
	switch (m->head.kind) {
	case MESSAGE_LEFT:
		atomic_store_explicit(&page->has_left, 1, memory_order_release);
		break;
	case MESSAGE_CAUSE:
		if (bytes == sizeof(struct told))
			put_told(page, &m->content.told);
		break;
	case MESSAGE_QUESTION:
		if (bytes == sizeof(struct missing))
			hear_question(page, m);
		break;
	case MESSAGE_ANSWER:
		hear_answer(page, m, bytes);
		break;
	case MESSAGE_RECORD:
		hear_record(page, m, bytes);
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

void peers_hear(struct peers *p, int process, const void *message, size_t bytes)
{
	struct message_memory m;

	if (process < 0 || process >= p->processes ||
	    !p->peers[process].is_far ||
	    atomic_load(&p->peers[process].has_ended) ||
	    bytes < sizeof(m.head) || bytes > sizeof(m))
		return;
	/* It may not be aligned. */
	memcpy(&m, message, bytes);
	hear(p->peers[process].page, &m, bytes - sizeof(m.head));
	peer_ring(p->bell[1]);
}

void peers_hear_end(struct peers *p, int process)
{
	if (process < 0 || process >= p->processes || !p->peers[process].is_far)
		return;
	atomic_store(&p->peers[process].has_ended, true);
	peer_ring(p->bell[1]);
}
