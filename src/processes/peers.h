/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PEERS_H
#define PROCESSES_PEERS_H

/*
 * The other processes of a group: a cause in one of them ends the cliques of
 * all, the end of one is seen at once, and those that are left can meet without
 * it.  Each says what its ranks are doing when another asks for a verdict
 *
 * On one machine each process has a page, which is memory without a name
 * (memfd_create()) that the others map, and a bell, which is a pipe that they
 * write to.  Both are opened through /proc by their numbers, so no file is left
 * behind however a process ends.
 *
 *  A. A page is written by its own process only: nobody can change its size,
 *     and, from Linux 5.1 on, nobody else can map it to write.  Nothing in it
 *     is trusted: its texts are made to end, and its numbers are checked, after
 *     they are copied.
 *  B. A page stays readable after its process has ended.  Once that end is seen
 *     the page does not change, so all who are left find the same in it:
 *     whether a process has taken part in an exchange does not depend on when
 *     one looks.
 *  C. A process has ended when its pidfd says so (Linux 5.3), or when nobody
 *     reads its bell, as after exec().  A child that it has forked keeps the
 *     bell open until the child calls exec() or ends.  A stopped process has
 *     not ended.
 *  D. One thread for each group watches all of them, and answers them.  It
 *     makes no native call, and waits for the bell and these ends.
 *
 * Processes on other machines, in other pid namespaces, or where /proc is not
 * mounted, share no memory.  Where the launcher passes messages, there is a
 * line to them.  All processes of such a group use it, those of one machine,
 * too:
 *
 *  E. A far process has a page, too: a copy here, which its messages fill in.
 *  F. A line keeps the order of what a process sends, and tells its end after
 *     all that it has sent, or not at all.  So B holds for the copies of all
 *     processes.
 *
 * Processes of other users, and those without a line, are not watched; the end
 * of one of this machine is seen until the first generation is made.
 */

#include <cohort/bootstrap.h>

#include "core/clique.h"
#include "core/remote.h"
#include "watch/snapshot.h"

/* The most that a process brings to an exchange. */
#define PEERS_RECORD 4096

struct peers;

/*
 * struct peer_line - how messages reach the processes that share no memory with
 * this one
 *
 * send   - to process @process, -1: to all.  Does not wait.
 * listen - give what comes from now on to peers_hear() and peers_hear_end(),
 *          and tell the ends that are known already; NULL: to nobody, from when
 *          this returns
 */
struct peer_line {
	void (*send)(void *info, int process, const void *message,
	             size_t bytes);
	void (*listen)(void *info, struct peers *peers);
	void *info;
};

/* Where a process is found.  It travels by the bootstrap. */
struct peer_address {
	uint64_t machine; /* also tells pid namespaces apart; 0: not found */
	uint64_t token;   /* the page has it, too */
	int64_t pid;
	int32_t page, bell; /* descriptors */
};

/* Make the page and the bell of process @process of @processes, and store its
 * address.  @group: the name, for the thread's.  COHORT_NO_MEMORY; where there
 * can be no page the address says so. */
int peers_create(int process, int processes, const char *group,
                 struct peer_address *out, struct peers **peers);

/* Tell the others that this process leaves, stop watching, and put a reference.
 * Pages and descriptors go with the last one: a generation that was left behind
 * may look at them. */
void peers_leave(struct peers *peers);

/* Take and put a reference: for a generation, which may be left behind. */
void peers_get(struct peers *peers);
void peers_put(struct peers *peers);

/* Open what @all, by process, tell of the others, and watch from now on.  Once.
 * @line: to those that share no memory; NULL: there is none.  It stays until
 *        peers_leave().
 *
 * A process of this machine that has ended since it sent its address, or is
 * about to, is known to have ended once it has; without pidfds only if its
 * parent has taken note. */
void peers_connect(struct peers *peers, const struct peer_address *all,
                   const struct peer_line *line);

/* This process has made a generation with the others: one whose page could not
 * be opened was not about to end, and is not watched. */
void peers_settle(struct peers *peers);

/* Called by a line, never two at once; neither waits.  peers_hear(): @process
 * has sent @message, which is not trusted.  peers_hear_end(): @process has
 * ended, and what it sends is not heard any more. */
void peers_hear(struct peers *peers, int process, const void *message,
                size_t bytes);
void peers_hear_end(struct peers *peers, int process);

/* True if that process is watched: its end would be seen.  Itself is. */
bool peers_watches(const struct peers *peers, int process);

/* True if that process has ended without leaving, or before it was watched. */
bool peers_has_ended(const struct peers *peers, int process);

/* Add how that process, which has ended, did so: see thread_add_end(). */
void peers_add_end(const struct peers *peers, int process, struct text *t);

/*
 * Begin to make the clique of that identity, in which the ranks of all
 * processes connect.  A process that fails to make it gives up and tells the
 * others, whom NCCL would leave waiting for its ranks.
 */
void peers_open(struct peers *peers, uint64_t identity);
void peers_give_up(struct peers *peers, uint64_t identity);

/* Atomic; true while a process that has ranks has ended, or once one has given
 * up what this process makes: connecting to it is in vain. */
const atomic_bool *peers_is_vain(const struct peers *peers);

/* Which ranks each process has in the generation that is opened next, until the
 * next call: an end is told with them. */
void peers_set_ranks(struct peers *peers, const struct cohort_process *facts);

/*
 * Give @clique, which is not in use yet, the causes that other processes tell
 * for the clique of the same identity, and a cause if a process with ranks in
 * it has ended; and compare its calls with those of other processes of the
 * machine (remote_agreement.h).
 * @parent_end: the end of what the clique was split from, with which it ends;
 *              NULL: it is the group's
 *
 * COHORT_NO_MEMORY.
 */
int peers_attach(struct peers *peers, struct clique *clique,
                 struct cohort_abort *parent_end);
void peers_detach(struct peers *peers, struct clique *clique);

/* For struct remote, which says what they do. */
void peers_tell(const struct clique *clique, const struct cohort_cause *cause,
                uint64_t deadline_ns);
int peers_ask(const struct remote *remote, const struct clique *clique,
              const struct missing *question, struct remote_rank *out, int room,
              uint64_t deadline_ns, struct text *silent);

/* How long the other processes may take to answer. */
uint64_t peers_patience_ns(const struct peers *peers);

/*
 * Gather @bytes bytes, of words and at most PEERS_RECORD, from each process
 * that has not ended before it brought them, where all watch all.  All call
 * this equally often.
 * @out:     @bytes for each process, by number
 * @came:    the set of processes that have brought theirs, the same for all
 *
 * COHORT_OK; COHORT_TIMED_OUT or COHORT_ABORTED, with @came as it is then.
 */
int peers_gather(struct peers *peers, const void *mine, size_t bytes, void *out,
                 uint64_t *came, const struct patience *patience);

#endif
