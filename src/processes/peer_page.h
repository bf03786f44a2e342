/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PEER_PAGE_H
#define PROCESSES_PEER_PAGE_H

/*
 * Layout of a process's page (peers.h), and the state that a process keeps
 * about the other processes
 *
 * Only remote_agreement.c and the sources whose names begin with "peers" use
 * this header.
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

/* Number of causes that a page keeps.  A process that is slow to read the page
 * misses the end of a generation only if this many later causes overwrite it,
 * all from communicators that were split in the next generation and ended
 * separately.  A communicator that ends with its group publishes no cause. */
#define CAUSES 64

#define WORDS(type) (sizeof(type) / sizeof(uint64_t))

/* A cause as published on a page. */
struct cause_entry {
	uint64_t identity; /* identity of the clique */
	struct cohort_cause cause;
};

_Static_assert(sizeof(struct cause_entry) % sizeof(uint64_t) == 0,
               "it is words");

/* Maximum number of cliques of a process whose calls are on its page at the
 * same time. */
#define CALL_PLACES 16

/* Maximum number of unanswered questions that a process has at the same time,
 * each about a different clique. */
#define QUESTIONS 4

/* Maximum number of ranks that one answer contains. */
#define ANSWERED_RANKS 32

struct answer {
	/* Number of used elements of @of; 0 if the process does not have the
	 * clique in question. */
	uint64_t ranks;
	struct remote_rank of[ANSWERED_RANKS];
};

_Static_assert(sizeof(struct answer) % sizeof(uint64_t) == 0, "it is words");
_Static_assert(sizeof(struct missing) % sizeof(uint64_t) == 0, "it is words");

/* Sequence numbers of data that is written to a page more than once.  A reader
 * compares them to detect that the data was overwritten.  They are stored with
 * release and loaded with acquire, which orders the words of the data. */
struct stamp {
	_Atomic uint64_t begun; /* number of the data being written */
	_Atomic uint64_t done;  /* number of the data that is complete */
};

/* Number of identities that a page keeps.  This exceeds the number of cliques
 * that a process has at any time. */
#define IDENTITIES 256

struct identities {
	_Atomic uint64_t n;
	/* Identities, of which the k-th is at index k % IDENTITIES. */
	_Atomic uint64_t of[IDENTITIES];
};

/* The page that a process shares with the other processes.  Its words are
 * atomic, because another process may read them at any time. */
struct page {
	uint64_t magic, token; /* constant */

	/* 1 if the process has closed its group. */
	_Atomic uint64_t has_left;

	/* Identity of the last clique that the process has failed to create, or
	 * 0. */
	_Atomic uint64_t gave_up;

	/* Number of causes published.  Stored with release and loaded with
	 * acquire, so that a reader sees the causes.  Cause number n, counted
	 * from 1, is at index (n - 1) % CAUSES. */
	_Atomic uint64_t causes_published;
	struct {
		struct stamp stamp;
		_Atomic uint64_t words[WORDS(struct cause_entry)];
	} causes[CAUSES];

	/* Cliques that the process has or had. */
	struct identities members;

	/* Cliques whose completed operations the process has recorded, or that
	 * it no longer has. */
	struct identities noted;

	/* Calls of the process's cliques. */
	struct call_words calls[CALL_PLACES];

	/* For each rank of the process: if the rank has closed a communicator
	 * because other ranks failed it, its waits for them; otherwise .world
	 * is -1. */
	struct place_of_parting {
		struct stamp stamp;
		_Atomic uint64_t words[WORDS(struct remote_rank)];
	} partings[ANSWERED_RANKS];

	/* Questions of this process to the other processes, and for each index
	 * the number of questions asked.  Stored with release and loaded with
	 * acquire, so that a reader sees the question. */
	struct {
		_Atomic uint64_t number;
		_Atomic uint64_t question[WORDS(struct missing)];
	} asks[QUESTIONS];

	/* Number of exchanges to which this process has contributed.  Stored
	 * with release and loaded with acquire, so that a reader sees the
	 * contribution.  The contribution is at index exchange % 2, because no
	 * process can be more than one exchange ahead. */
	_Atomic uint64_t exchange;
	_Atomic uint64_t contribution[2][PEERS_RECORD / sizeof(uint64_t)];

	/* Answers to other processes.  The indexes are the number of the
	 * process that has asked, and the index of its question. */
	struct place {
		struct stamp stamp; /* number of the question */
		_Atomic uint64_t words[WORDS(struct answer)];
	} answers[][QUESTIONS];
};

enum peer_state {
	PEER_UNWATCHED, /* the process cannot be watched, or is this process */
	PEER_HERE,
	PEER_LEFT, /* the process has closed its group */
	/* The process has ended without closing its group, or before it was
	 * watched. */
	PEER_ENDED,
	/* The page cannot be opened, so the process may be ending. */
	PEER_UNCLEAR,
};

struct peer {
	/* Constant; mapped read-only, NULL if the process is not watched. */
	struct page *page;
	int pidfd;     /* -1 if not available or not needed */
	int wake_pipe; /* -1 if the process is far or not watched */

	/* True if the page is a copy, filled in from messages (peers_far.c).
	 * A copy has only the answers to this process. */
	bool is_far; /* constant once connected */
	/* True if the message channel (the line) has reported the end of the
	 * process.  Later messages are ignored. */
	atomic_bool has_ended;

	int64_t pid;

	/* Guarded by lock, like @seen and @answered. */
	uint64_t ranks[COHORT_RANK_WORDS]; /* its ranks in the root group */
	char host[64];

	uint64_t seen; /* number of causes seen */
	/* Numbers of the last questions answered. */
	uint64_t answered[QUESTIONS];

	/* Atomic; enum peer_state.  Written under lock once the process is
	 * watched. */
	atomic_int state;

	/* Exit status of the process, as from waitpid(), or -1 if unknown.
	 * Written before the state. */
	int end;
};

struct member {
	struct member *next;
	struct clique *clique;
	struct cohort_abort *parent_end; /* a reference, or NULL */
	bool is_from_peer; /* the clique's cause came from another process */
	bool is_published; /* this process has published the clique's cause */
};

struct peers {
	/* Functions for core and watch, with .patience_ns for these
	 * processes. */
	struct remote remote;
	atomic_int references;
	int process, processes;
	char group[16];
	char host[64];     /* this process's host */
	struct page *page; /* this process's own page, or NULL */
	int page_fd, wake_pipe[2];
	uint64_t exchange; /* number of the last exchange */
	pthread_t thread;
	bool has_thread;
	atomic_bool stop, must_wake;

	/* True if no process in state PEER_UNCLEAR is ending. */
	atomic_bool is_settled;

	pthread_mutex_t lock; /* held briefly; guards the members below */
	struct member *members;
	/* Identity of the clique that is being opened, or was opened last. */
	uint64_t opening;
	bool has_calls[CALL_PLACES]; /* used places in page->calls */
	/* For each rank, the time of its last call before it closed a
	 * communicator, or 0. */
	uint64_t called_ns[ANSWERED_RANKS];

	/* Buffer of this group's thread for one answer. */
	struct answer answer;

	/* Atomic; true if a question with this index is open. */
	atomic_bool is_asking[QUESTIONS];

	/* Atomic; written under lock.  True if a process with ranks has ended,
	 * or could not open the clique @opening. */
	atomic_bool is_futile;

	/* Lock held while a message is sent.  Acquired after @lock and before
	 * the line's own lock. */
	pthread_mutex_t line_lock;
	/* NULL if there is no line, or if it was closed. */
	const struct peer_line *line;

	struct peer peers[];
};

static inline struct peers *peers_of_remote(const struct remote *r)
{
	return (struct peers *)((char *)(uintptr_t)r -
	                        offsetof(struct peers, remote));
}

static inline struct peers *peers_of(const struct clique *q)
{
	return peers_of_remote(q->remote);
}

/* ---- words ------------------------------------------------------------ */

/* Store @n words at @to.  The release pairs with the acquire in get_words(): a
 * reader that sees one of the new words also sees the stamp's new @begun. */
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

/* Write words with the stamp @number.  Only one thread may write at a time. */
static inline void put_stamped(struct stamp *stamp, _Atomic uint64_t *to,
                               uint64_t number, const void *from, size_t n)
{
	atomic_store_explicit(&stamp->begun, number, memory_order_relaxed);
	put_words(to, from, n);
	atomic_store_explicit(&stamp->done, number, memory_order_release);
}

/* Read words with the stamp @number.  Return false if they do not, or no
 * longer, have that stamp. */
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

/* Append an identity.  Only one thread may do so at a time. */
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

/* Return true if the process is watched and has neither left nor ended. */
static inline bool peer_is_here(const struct peer *x)
{
	return atomic_load(&x->state) == PEER_HERE;
}

/* Return true if the process can still end, and must therefore be watched. */
static inline bool peer_may_end(const struct peer *x)
{
	return peer_is_here(x) || atomic_load(&x->state) == PEER_UNCLEAR;
}

/* Wake a process's thread by writing to its pipe.  If no process reads the
 * pipe, the write raises SIGPIPE.  So only threads of the library, which block
 * signals, write to the pipes of other processes.  A process's own pipe always
 * has a reader. */
static inline void peer_wake(int wake_pipe)
{
	/* A full pipe also wakes the reader. */
	ssize_t n = write(wake_pipe, "", 1);

	(void)n;
}

/* Return the place where process @x stores its answers to this process's
 * questions. */
static inline const struct place *peer_answers(const struct peers *p,
                                               const struct peer *x)
{
	return x->page->answers[x->is_far ? 0 : p->process];
}

/* Publish a cause on a page.  Only one thread may write at a time. */
static inline void put_cause_entry(struct page *page,
                                   const struct cause_entry *entry)
{
	const uint64_t n = atomic_load_explicit(&page->causes_published,
	                                        memory_order_relaxed);

	put_stamped(&page->causes[n % CAUSES].stamp,
	            page->causes[n % CAUSES].words, n + 1, entry,
	            WORDS(struct cause_entry));
	atomic_store_explicit(&page->causes_published, n + 1,
	                      memory_order_release);
}

/* Add "process 1 (pid 4711)", with the host if the process is far.  The caller
 * holds the lock. */
void peers_name(const struct peers *peers, int process, struct text *t);

/* Start the thread that watches the other processes.  Return false if it cannot
 * be started. */
bool peers_start(struct peers *peers);

/* Publish that this process has recorded which operations of @q were done. */
void peers_publish_noted(struct peers *peers, const struct clique *q);

/* Do that, and wait until all other processes have done so as well, or until
 * the deadline. */
void peers_await_noted(struct peers *peers, const struct clique *q,
                       uint64_t deadline_ns);

/* Wake the threads of all other processes. */
void peers_wake_all(const struct peers *peers);

/* Have this process's own thread wake the threads of all other processes. */
void peers_request_wake(struct peers *peers);

/* Kind of a message.  A message updates the copy of its sender's page. */
enum message_kind {
	MESSAGE_LEFT = 1,
	MESSAGE_CAUSE,    /* struct cause_entry */
	MESSAGE_QUESTION, /* struct missing */
	MESSAGE_ANSWER,   /* struct answer up to its last rank */
	MESSAGE_RECORD,   /* contribution of the sender to an exchange */
	MESSAGE_MEMBER,   /* identity of a clique that the sender has */
	/* Identity of a clique whose completed operations the sender has
	 * recorded, or which the sender no longer has. */
	MESSAGE_NOTED,
	/* Identity of a clique that the sender could not open. */
	MESSAGE_GAVE_UP,
	/* struct remote_rank: why a rank has closed a communicator. */
	MESSAGE_PARTING,
};

/* Allocate the page of @x, a process that shares no memory with this one.
 * Return false if there is no memory. */
bool peer_make_far(struct peer *x);

void peer_free_far(struct peer *x);

/* Send a message to @process, or to all processes if @process is -1.  Does
 * nothing if @peers has no line.
 * @place:  index of a question or its answer, otherwise 0
 * @number: number of a question, its answer, or an exchange, otherwise 0 */
void peers_send(struct peers *peers, int process, enum message_kind kind,
                int place, uint64_t number, const void *what, size_t bytes);

/* Store on a page why the process's rank @i has closed a communicator.  Only
 * one thread may write at a time. */
static inline void put_parting(struct page *page, int i,
                               const struct remote_rank *x)
{
	struct place_of_parting *to = &page->partings[i];

	put_stamped(
		&to->stamp, to->words,
		atomic_load_explicit(&to->stamp.done, memory_order_relaxed) + 1,
		x, WORDS(struct remote_rank));
}

/* Publish why the rank of @c closes its communicator or its group: if another
 * communicator has ended since its last call while it waited, publish for which
 * ranks it waited. */
void peers_part(struct peers *peers, const struct cohort_comm *c);

/* Forget why ranks of this process have closed communicators, because a new
 * generation renumbers the ranks.  Called under lock. */
void peers_forget_partings(struct peers *peers);

/* Answer new questions of process @i.  The caller is the thread of @peers and
 * holds the lock. */
void peers_answer(struct peers *peers, int i);

#endif
