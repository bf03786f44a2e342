/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PEER_PAGE_H
#define PROCESSES_PEER_PAGE_H

/*
 * What a process's page has, and what the process knows of the others: for the
 * sources whose names begin with "peers" only
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "core/remote.h"
#include "processes/peers.h"
#include "processes/remote_agreement.h"

#define PAGE_MAGIC UINT64_C(0x6368705f70656575)

/* Causes that a page keeps.  A group's own cause is its last one, because what
 * was split from it and ends with it tells nothing.  So it is missed by a
 * process that is this many causes behind only if so many split communicators
 * end by themselves in the next generation before that process looks. */
#define CAUSES 64

#define WORDS(type) (sizeof(type) / sizeof(uint64_t))

/* A cause as it is told. */
struct told {
	uint64_t identity; /* of the clique */
	struct cohort_cause cause;
};

_Static_assert(sizeof(struct told) % sizeof(uint64_t) == 0, "it is words");

/* How many of a process's cliques show what they have called, at a time. */
#define CALL_PLACES 16

/* Questions of a process at a time, of different cliques; and of how many ranks
 * a process answers. */
#define QUESTIONS 4
#define ANSWERED_RANKS 32

struct answer {
	uint64_t ranks; /* that were looked at; 0: there is no such clique */
	struct remote_rank of[ANSWERED_RANKS];
};

_Static_assert(sizeof(struct answer) % sizeof(uint64_t) == 0, "it is words");
_Static_assert(sizeof(struct missing) % sizeof(uint64_t) == 0, "it is words");

/* What is written to a page more than once: which number it has. */
struct stamp {
	_Atomic uint64_t begun; /* being written */
	_Atomic uint64_t done;  /* written; release and acquire: the words */
};

/* The cliques that were noted last, more than a process has at a time. */
#define IDENTITIES 256

struct identities {
	_Atomic uint64_t n;
	/* Number k is in place k % IDENTITIES. */
	_Atomic uint64_t of[IDENTITIES];
};

/* Atomic words, as another process may read them at any time. */
struct page {
	uint64_t magic, token; /* constant */

	/* 1: the process has closed its group. */
	_Atomic uint64_t has_left;

	/* The last clique that the process failed to make; 0: none. */
	_Atomic uint64_t gave_up;

	/* How many causes were told.  Release and acquire: the causes.  Cause
	 * number n, from 1, is in place (n - 1) % CAUSES. */
	_Atomic uint64_t causes_told;
	struct {
		struct stamp stamp;
		_Atomic uint64_t words[WORDS(struct told)];
	} causes[CAUSES];

	/* The cliques that the process has, or had; and those of which it has
	 * noted what was done, or which it has no more. */
	struct identities members, noted;

	/* What the cliques that the process has have called. */
	struct call_words calls[CALL_PLACES];

	/* What this process asks the others, and how often it has asked in that
	 * place.  Release and acquire: the question. */
	struct {
		_Atomic uint64_t number;
		_Atomic uint64_t question[WORDS(struct missing)];
	} asks[QUESTIONS];

	/* The last exchange that this process has brought something to, from 1.
	 * Release and acquire: what it brought, which is in place exchange % 2:
	 * no process can be further ahead than one. */
	_Atomic uint64_t exchange;
	_Atomic uint64_t brought[2][PEERS_RECORD / sizeof(uint64_t)];

	/* Answers, by the process that has asked and the place of its
	 * question. */
	struct place {
		struct stamp stamp; /* the question's number */
		_Atomic uint64_t words[WORDS(struct answer)];
	} answers[][QUESTIONS];
};

enum peer_state {
	PEER_UNWATCHED, /* it cannot be, or this is the process itself */
	PEER_HERE,
	PEER_LEFT,    /* it has closed its group */
	PEER_ENDED,   /* without that, or before it was watched */
	PEER_UNCLEAR, /* its page is out of reach, perhaps because it ends */
};

struct peer {
	struct page *page; /* constant, and mapped to read; NULL: not watched */
	int pidfd;         /* -1: the system has none, or it is not needed */
	int bell;          /* -1: it is far, or not watched */

	/* The page is a copy: what messages have brought, on the line's thread.
	 * Of the answers it has those to this process. */
	bool is_far; /* constant, once connected */
	/* The line says so; no message counts any more. */
	atomic_bool has_ended;

	int64_t pid;
	uint64_t seen;                /* causes; guarded by lock */
	uint64_t answered[QUESTIONS]; /* guarded by lock */

	/* enum peer_state; written under lock, once the process is watched. */
	atomic_int state;

	/* How it has ended: a status as waitpid() stores it, -1 if that is not
	 * known.  Written before the state. */
	int end;
};

struct member {
	struct member *next;
	struct clique *clique;
	struct cohort_abort *parent_end; /* a reference; NULL: it is no child */
	bool was_told; /* its cause came from another process */
	bool has_told; /* the others have it from this one */
};

struct peers {
	struct remote remote; /* with the patience that these processes need */
	atomic_int references;
	int process, processes;
	char group[16];
	char host[64];     /* this process's */
	struct page *page; /* its own; NULL: there is none */
	int page_fd, bell[2];
	uint64_t exchange; /* the last one */
	pthread_t thread;
	bool has_thread;
	atomic_bool stop, must_ring;

	atomic_bool is_settled; /* no process is PEER_UNCLEAR any more */

	pthread_mutex_t lock; /* short; guards: */
	struct member *members;
	const struct cohort_process *facts;
	uint64_t opening; /* the clique that is being made, or was last */
	bool has_calls[CALL_PLACES]; /* a clique's are there */

	/* The thread's room for an answer. */
	struct answer answer;

	/* Atomic; a watchdog has that place for its question. */
	atomic_bool is_asking[QUESTIONS];

	/* Atomic; written under lock: a process with ranks in @facts has ended,
	 * or could not make @opening. */
	atomic_bool is_vain;

	/* Held while a message is sent; acquired after lock, and before the
	 * line's. */
	pthread_mutex_t line_lock;
	const struct peer_line *line; /* NULL: there is none, or not any more */

	struct peer peers[];
};

static inline struct peers *peers_of_remote(const struct remote *r)
{
	return (struct peers *)((char *)(uintptr_t)r -
	                        offsetof(struct peers, remote));
}

/* The peers of @q, which was attached to them. */
static inline struct peers *peers_of(const struct clique *q)
{
	return peers_of_remote(q->remote);
}

/* ---- words ------------------------------------------------------------ */

/* Release and acquire: whoever reads a word that overwrites another one sees
 * that this was begun. */
static inline void put_words(_Atomic uint64_t *to, const void *from, size_t n)
{
	uint64_t word;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&word, (const char *)from + i * sizeof(word),
		       sizeof(word));
		atomic_store_explicit(&to[i], word, memory_order_release);
	}
}

static inline void get_words(void *to, const _Atomic uint64_t *from, size_t n)
{
	uint64_t word;
	size_t i;

	for (i = 0; i < n; i++) {
		word = atomic_load_explicit(&from[i], memory_order_acquire);
		memcpy((char *)to + i * sizeof(word), &word, sizeof(word));
	}
}

/* Write words with this number.  By one thread at a time. */
static inline void put_stamped(struct stamp *stamp, _Atomic uint64_t *to,
                               uint64_t number, const void *from, size_t n)
{
	atomic_store_explicit(&stamp->begun, number, memory_order_relaxed);
	put_words(to, from, n);
	atomic_store_explicit(&stamp->done, number, memory_order_release);
}

/* Read them; false: what is there has another number. */
static inline bool get_stamped(const struct stamp *stamp, void *to,
                               const _Atomic uint64_t *from, uint64_t number,
                               size_t n)
{
	if (atomic_load_explicit(&stamp->done, memory_order_acquire) != number)
		return false;
	get_words(to, from, n);
	return atomic_load_explicit(&stamp->begun, memory_order_relaxed) ==
	       number;
}

/* Add one.  By one thread at a time. */
static inline void put_identity(struct identities *all, uint64_t identity)
{
	const uint64_t n = atomic_load_explicit(&all->n, memory_order_relaxed);

	atomic_store_explicit(&all->of[n % IDENTITIES], identity,
	                      memory_order_release);
	atomic_store_explicit(&all->n, n + 1, memory_order_release);
}

static inline bool has_identity(const struct identities *all, uint64_t identity)
{
	int i = 0;

	while (i < IDENTITIES &&
	       atomic_load_explicit(&all->of[i], memory_order_acquire) !=
	               identity)
		i++;
	return i < IDENTITIES;
}

/* ---- between the sources ----------------------------------------------- */

/* True if the process is watched, and neither has left nor ended. */
static inline bool peer_is_here(const struct peer *x)
{
	return atomic_load(&x->state) == PEER_HERE;
}

/* True if its end is waited for. */
static inline bool peer_may_end(const struct peer *x)
{
	return peer_is_here(x) || atomic_load(&x->state) == PEER_UNCLEAR;
}

/* If nobody reads it that is a SIGPIPE, so the others' bells are rung by
 * threads of the library only, which have signals blocked.  The process reads
 * its own. */
static inline void peer_ring(int bell)
{
	/* A full pipe rings as well. */
	ssize_t n = write(bell, "", 1);

	(void)n;
}

/* Where process @x answers this one's questions. */
static inline const struct place *peer_answers(const struct peers *p,
                                               const struct peer *x)
{
	return x->page->answers[x->is_far ? 0 : p->process];
}

/* Put a cause on a page.  By one thread at a time. */
static inline void put_told(struct page *page, const struct told *told)
{
	const uint64_t n =
		atomic_load_explicit(&page->causes_told, memory_order_relaxed);

	put_stamped(&page->causes[n % CAUSES].stamp,
	            page->causes[n % CAUSES].words, n + 1, told,
	            WORDS(struct told));
	atomic_store_explicit(&page->causes_told, n + 1, memory_order_release);
}

/* Add "process 1 (pid 4711)", or with its host if it is far.  Under lock. */
void peers_name(const struct peers *peers, int process, struct text *t);

/* Start the thread; false: that was not possible. */
bool peers_start(struct peers *peers);

/* What was done in @q is noted here: say so, and wait until all others have
 * noted theirs. */
void peers_note(struct peers *peers, const struct clique *q,
                uint64_t deadline_ns);

/* Ring the bells of all others; or have the thread of @peers ring them. */
void peers_ring(const struct peers *peers);
void peers_have_rung(struct peers *peers);

/* What a message brings to the sender's page. */
enum message_kind {
	MESSAGE_LEFT = 1,
	MESSAGE_CAUSE,    /* struct told */
	MESSAGE_QUESTION, /* struct missing */
	MESSAGE_ANSWER,   /* struct answer, up to its last rank */
	MESSAGE_RECORD,   /* what it brings to an exchange */
	MESSAGE_MEMBER,   /* the identity of a clique that it has */
	MESSAGE_NOTED,    /* and of one that it has noted, or no more */
	MESSAGE_GAVE_UP,  /* and of one that it could not make */
};

/* Make the page of far process @x; false: no memory. */
bool peer_make_far(struct peer *x);
void peer_free_far(struct peer *x);

/* Send a message of @kind to @process, -1: to all.  Does nothing without a
 * line.  @place, @number: of a question or its answer; @number also of an
 * exchange */
void peers_send(struct peers *peers, int process, enum message_kind kind,
                int place, uint64_t number, const void *what, size_t bytes);

/* Answer what process @i has asked, if it has.  Under lock, on the thread of
 * @peers. */
void peers_answer(struct peers *peers, int i);

#endif
