/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROCESSES_PEERS_H
#define PROCESSES_PEERS_H

/*
 * Watches the other processes of a group
 *
 * A cause in one process ends the cliques of all processes.  The end of a
 * process is noticed immediately, and the remaining processes can continue
 * without it.  Each process reports what its ranks are doing when another
 * process needs this for a verdict.
 *
 * On one machine, each process has a page and a wake pipe.  The page is
 * memory without a name (memfd_create()) that the other processes map.  They
 * write to the pipe to wake the process.  They open both through
 * /proc/PID/fd, so no file is left behind, no matter how a process ends.
 *
 *  A. Only the owner of a page writes it: no other process can change its size
 *     or, from Linux 5.1 on, map it writable.  Data on a page is still
 *     untrusted: readers copy it, then terminate its texts and check its
 *     numbers.
 *  B. A page stays readable after its process has ended.  It does not change
 *     once the end was noticed, so all remaining processes read the same data.
 *     Whether a process has taken part in an exchange does not depend on when a
 *     reader checks.
 *  C. A process has ended when its pidfd reports it (Linux 5.3), or when no
 *     process has its wake pipe open for reading, as after exec().  A forked
 *     child keeps its parent's wake pipe open until the child calls exec() or
 *     ends.  A stopped process has not ended.
 *  D. One thread per group watches all other processes and answers their
 *     questions.  It makes no native call; it waits only for its wake pipe and
 *     for processes to end.
 *
 * Processes that are on other machines, are in other pid namespaces, or have no
 * /proc share no memory; they are called far.  If the launcher can pass
 * messages, a process exchanges messages with far processes through it; this
 * channel is called a line.  If any process of a group is far, all of the
 * group's processes use the line, even processes on one machine:
 *
 *  E. A process keeps a copy of a far process's page, and fills it in from the
 *     far process's messages.
 *  F. A line keeps the order of a process's messages, and reports the end of a
 *     process after all of its messages or not at all.  So B holds for the
 *     copies of all processes.
 *
 * Processes of other users, and far processes without a line, are not watched.
 * If a process that is not watched is on this machine, its end is still noticed
 * until the first generation has been opened.
 */

#include <cohort/bootstrap.h>

#include "core/clique.h"
#include "core/remote.h"
#include "watch/snapshot.h"

/* Maximum number of bytes that a process contributes to an exchange. */
#define PEERS_RECORD 4096

struct peers;

/*
 * struct peer_line - messages to processes that share no memory with this one
 *
 * send:   send to @process, or to all processes if @process is -1.  Does not
 *         block.
 * listen: from now on pass messages and ends of processes to peers_receive()
 *         and peers_receive_end(), starting with the ends that are already
 *         known.  If @peers is NULL, stop: after this returns, neither function
 *         is called.
 */
struct peer_line {
	void (*send)(void *info, int process, const void *message,
	             size_t bytes);
	void (*listen)(void *info, struct peers *peers);
	void *info;
};

/* Location of a process's page and wake pipe.  The processes exchange these
 * addresses through the bootstrap. */
struct peer_address {
	uint64_t machine; /* machine and pid namespace; 0 if unknown */
	uint64_t token;   /* number that is also stored in the page */
	int64_t pid;
	int32_t page, wake_pipe; /* descriptors */
};

/* Create the page and the wake pipe of process @process of @processes, and
 * store their address.  If no page can be created, the machine of the address
 * is 0.  Return COHORT_OK or COHORT_NO_MEMORY.
 * @group: name of the group, for the name of the thread */
int peers_create(int process, int processes, const char *group,
                 struct peer_address *out, struct peers **peers);

/* Announce that this process leaves, so that the others do not wait for it. */
void peers_announce_leave(struct peers *peers);

/* Announce that this process leaves, stop watching the others, and release a
 * reference.  Pages and descriptors are freed with the last reference, because
 * an abandoned generation may still read them. */
void peers_leave(struct peers *peers);

/* Acquire a reference, for a generation that may be abandoned. */
void peers_get(struct peers *peers);

/* Release a reference.  The release of the last one frees @peers. */
void peers_put(struct peers *peers);

/* Open the pages and wake pipes of the other processes, and watch these
 * processes from now on.  Called once.
 * @all:  address of each process
 * @line: line to processes that share no memory, or NULL; valid until
 *        peers_leave()
 *
 * A process of this machine that has ended since it sent its address is
 * recognized as ended.  Without pidfds, it is recognized only once its parent
 * has reaped it. */
void peers_connect(struct peers *peers, const struct peer_address *all,
                   const struct peer_line *line);

/* Stop assuming that a process whose page could not be opened may be ending: it
 * is alive, but cannot be watched.  Call this once all processes have opened a
 * generation together. */
void peers_settle(struct peers *peers);

/* Handle a message of @process, which is untrusted.  A line calls this function
 * and peers_receive_end(), one call at a time.  Does not block. */
void peers_receive(struct peers *peers, int process, const void *message,
                   size_t bytes);

/* Record that @process has ended, and ignore its messages from now on. */
void peers_receive_end(struct peers *peers, int process);

/* Return true if the end of @process would be noticed, or if it is this
 * process. */
bool peers_watches(const struct peers *peers, int process);

/* Return true if @process has ended without leaving, or before it was
 * watched. */
bool peers_has_ended(const struct peers *peers, int process);

/* Add how @process has ended; see thread_add_end(). */
void peers_add_end(const struct peers *peers, int process, struct text *t);

/* If a process is known to be stopped, add "; process 1 (pid 4711) is stopped"
 * and return true. */
bool peers_add_stop(const struct peers *peers, int process, struct text *t);

/* Start to open the clique @identity, in which the ranks of all processes
 * connect. */
void peers_open(struct peers *peers, uint64_t identity);

/* Notify the other processes that this process could not open the clique
 * @identity.  Otherwise they would wait in NCCL for its ranks. */
void peers_give_up(struct peers *peers, uint64_t identity);

/* Return true if connecting cannot succeed, because a process with ranks has
 * ended, or has given up opening the clique that this process is opening.
 * @peers: a struct peers */
bool peers_is_futile(void *peers, bool is_native);

/* Set the ranks of each process in the next generation.  Reports of the end of
 * a process name them.  @facts has one element for each process, or is NULL if
 * no process has ranks. */
void peers_set_ranks(struct peers *peers, const struct cohort_process *facts);

/*
 * Attach @clique, which is not in use yet.  From now on @clique gets the causes
 * that other processes publish for its identity, and a cause if a process with
 * ranks in it ends.  Its calls are compared with the calls of other processes
 * on this machine (remote_agreement.h).
 * @parent_end: cause block of the parent, with which @clique ends; NULL if it
 *              was not split
 *
 * Return COHORT_OK or COHORT_NO_MEMORY.
 */
int peers_attach(struct peers *peers, struct clique *clique,
                 struct cohort_abort *parent_end);
void peers_detach(struct peers *peers, struct clique *clique);

/* Implementation of remote->send_cause(), see struct remote. */
void peers_send_cause(const struct clique *clique,
                      const struct cohort_cause *cause, uint64_t deadline_ns);

/* Implementation of remote->ask(), see struct remote. */
int peers_ask(const struct remote *remote, const struct clique *clique,
              const struct missing *question, struct remote_rank *out, int room,
              struct text *silent);

/* Return the maximum time to wait for answers and snapshots of other
 * processes. */
uint64_t peers_patience_ns(const struct peers *peers);

/*
 * Gather @bytes bytes from each watched process, except processes that ended
 * before they contributed.  All processes must make the same number of calls.
 * @bytes: a multiple of 8, at most PEERS_RECORD
 * @out:   @bytes for each process, by number
 * @came:  set of processes that have contributed; all processes get the same
 *         set if every process watches every other
 *
 * Return COHORT_OK; or COHORT_TIMED_OUT or COHORT_ABORTED, with the processes
 * that have contributed so far in @came.
 */
int peers_gather(struct peers *peers, const void *mine, size_t bytes, void *out,
                 uint64_t *came, const struct patience *patience);

#endif
