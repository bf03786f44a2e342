/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_BOOTSTRAP_H
#define COHORT_BOOTSTRAP_H

/*
 * Groups of several processes: how the processes find each other
 *
 * With options.bootstrap each process opens the group over the devices that it
 * drives.  Ranks are numbered by process: those of process 0 come first.  NCCL
 * carries the data; the bootstrap carries some 2 KiB for each process when the
 * group opens, and also when it respawns if not every process watches every other.
 *
 * The processes of one machine watch each other, and on several machines those that
 * cohort launch has started:
 *
 *   - A cause in one is the cause in all of them: "process 1 (pid 4711): ...".
 *     That holds for the group, and for what was split from it.
 *   - A process that ends before it has closed the group is the cause in the
 *     others, with its ranks: COHORT_PROCESS_EXITED.  On one machine the text says
 *     by which signal it was killed, or with which status it exited, under cohort
 *     launch, from Linux 6.15 on, or if its parent has not waited for it yet; or
 *     else that it is gone.  One that is stopped has not
 *     ended: calls that wait for it stall.  If all processes are on one machine,
 *     the verdict blames its ranks: COHORT_VERDICT_PROCESS_STOPPED.
 *   - cohort_group_respawn() goes on without the processes that have ended, if
 *     every process of the group watches every other.
 *
 * For that each process has a thread.  On one machine it also has a pipe, some
 * memory that the others map to read, and two descriptors for each of the others.
 * They are found through /proc and have no names, so nothing is left behind.  If
 * some are on other machines, all processes send messages instead, through the
 * launcher's PMIx server.
 *
 * Without that some processes are not watched (struct cohort_process): those on other
 * machines, in other pid namespaces, of other users, and where /proc is not mounted;
 * those that are not dumpable; and every process, if watching them would take more
 * than half of RLIMIT_NOFILE.  A call that waits for a rank of such a process ends as
 * a stall.
 *
 * Processes that watch each other on one machine also see what the others' ranks have
 * called.  A collective that differs from another process's is COHORT_MISMATCH, found by
 * whichever process calls it later; and join_ns is how long a rank waits for the calls of
 * all.  That takes recorder_slots of at most 2048, and is done for 16 communicators of a
 * process at a time: the group, and those that are split from it.  Beyond that, and
 * between machines, calls are not compared, and exec_ns begins once all ranks of
 * the process have called.  A send or receive with another process is not compared, and
 * has exec_ns from its call.  A call of 0 elements may be over before another process
 * differs from it.
 *
 * Snapshots, and what adaptive deadlines learn of the time in which ranks call, are of the
 * process's own ranks.  If none of these is at fault for a collective that stalls, or if
 * the peer of a send or receive that stalls is in another process, the other processes are
 * asked, and have 200 ms, or 600 ms if there are several hosts.  The verdict names the rank
 * that has not called, or not started, with the pid of its process, and its host if that is
 * a different one, and says what it is doing; or that the process is stopped, and which ranks
 * it drives; or it says of which ranks nothing is known, and which processes have not
 * answered.  They are not asked for warnings, nor for on_slow.  A cycle of sends and receives is found among ranks of one
 * process, or between two ranks.
 *
 * COHORT_LAUNCH_TOGETHER (cohort/options.h) keeps a process from waiting for
 * itself.  It does not see other processes: a call that allocates, frees or
 * copies pageable memory in one process may wait for a kernel there which waits
 * for a rank of another process, and that one for such a call in turn.  So while
 * several groups or splits are at work at once, make no such call.
 *
 * Shown on NVIDIA's NCCL: with three processes on one GPU, and on simulated devices
 * with three processes of one machine, and between namespaces of one machine that
 * stand for machines.  Not yet between machines.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_group;

/* How processes find each other. */
enum cohort_bootstrap_kind {
	/* By the program's own functions: allgather and the rest below. */
	COHORT_BOOTSTRAP_TABLE = 1,

	/*
	 * Through shared memory, with what a launcher has set in the
	 * environment, for processes of one user on one machine.  The first of
	 * these whose variables are all set tells number and count:
	 *
	 *   COHORT_PROCESS, COHORT_PROCESSES     and COHORT_JOB        cohort launch
	 *   OMPI_COMM_WORLD_RANK, _SIZE          and PMIX_NAMESPACE    mpirun
	 *   RANK, WORLD_SIZE                     and MASTER_PORT       torchrun
	 *   SLURM_PROCID, SLURM_STEP_NUM_TASKS   and SLURM_JOB_ID      srun
	 *   PMI_RANK, PMI_SIZE                   and the parent        mpiexec
	 *   JAX_PROCESS_ID, JAX_NUM_PROCESSES    and JAX_COORDINATOR_ADDRESS
	 *
	 * The variable on the right tells two jobs apart; "the parent" is the
	 * number of the parent process.  Where the launcher says that some
	 * processes are on other machines, that is COHORT_UNSUPPORTED.
	 *
	 * Groups of one name are opened one after the other (COHORT_STATE), in
	 * the same order in all processes.
	 */
	COHORT_BOOTSTRAP_ENV = 2,

	/*
	 * Through the launcher's PMIx server, on any number of machines: cohort
	 * launch, mpirun, srun --mpi=pmix.  The processes are those of the launcher's job.
	 * libpmix.so.2 is opened at run time (COHORT_NO_LIBRARY).
	 *
	 * The first group makes the process a PMIx client, which it stays until
	 * exit().  A launcher takes _exit() for a failure.  A process that exits
	 * as soon as it has opened a group may be missing in that opening on
	 * other machines.  Servers keep 2 KiB for each process and round until
	 * the job ends: an opening has three rounds, and so has a respawn.
	 *
	 * Groups of one name are opened one after the other (COHORT_STATE), in
	 * the same order in all processes.  A process that comes to an opening
	 * that others have left gets COHORT_SYSTEM, "has left"; it is in step
	 * with them once it opens the group again.
	 */
	COHORT_BOOTSTRAP_PMIX = 3,

	/* PMIX under cohort launch, mpirun or srun on several machines, and under
	 * a PMIx launcher that sets none of the variables above; otherwise ENV.
	 * Without a launcher the process is the only one of the group.  A number
	 * without a count, or a count without a number, is COHORT_INVALID. */
	COHORT_BOOTSTRAP_AUTO = 4,
};

/*
 * struct cohort_bootstrap - how this process finds the others
 *
 * The functions are those of UCC's table ucc_oob_coll_t.  allgather answers 0
 * once it has begun; req_test 0 when all have come, and 1 for "not yet"; anything
 * else is an error.  What req_free answers is not read.  They are called by one
 * thread at a time, the one that opens or respawns the group.  All processes must
 * have the same version of the library.
 */
struct cohort_bootstrap {
	size_t size; /* set by the caller: sizeof */
	int kind;    /* enum cohort_bootstrap_kind; the rest is for _TABLE */

	int process;   /* the number of this process, 0 to processes - 1 */
	int processes; /* 1 to COHORT_MAX_RANKS, the same in all processes */

	/*
	 * Begin to gather @bytes bytes from each process.
	 * @send:    this process's; both buffers stay until the request ends
	 * @recv:    @bytes of each process, by number
	 * @info:    the field below
	 * @request: to be set to what req_test and req_free take
	 *
	 * Must not block: no deadline ends it.
	 */
	int (*allgather)(void *send, void *recv, size_t bytes, void *info,
	                 void **request);
	int (*req_test)(void *request);

	/* Called once req_test has answered 0 or an error.  A request that is not
	 * done when the deadline has passed, or a second after another process of
	 * this machine has ended, is left as it is: its buffers stay allocated. */
	int (*req_free)(void *request);
	void *info; /* passed to allgather; valid until the group is closed */
	uint64_t reserved[9]; /* 0; room for what later versions add */
};

/* A process of a group. */
struct cohort_process {
	int first_rank; /* of its ranks, which follow each other */
	int ranks;      /* 0: it has ended, or left, and is no part any more */
	int watched;    /* 1: it and this process watch each other */
	int64_t pid;
	char host[64]; /* the machine's name */

	uint64_t reserved[5]; /* room for what later versions add */
};

/*
 * cohort_group_process   - the number of this process in the group; 0 without
 *                          options.bootstrap
 * cohort_group_processes - how many there are; stores the first @room of them in
 *                          @processes, which may be NULL
 *
 * Facts of a group's latest generation.  Any thread; none blocks.  -1 for a NULL
 * group.
 */
COHORT_API int cohort_group_process(const struct cohort_group *group);
COHORT_API int cohort_group_processes(const struct cohort_group *group,
                                      struct cohort_process *processes,
                                      int room);

#ifdef __cplusplus
}
#endif

#endif
