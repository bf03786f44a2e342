/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_BOOTSTRAP_H
#define COHORT_BOOTSTRAP_H

/*
 * Groups of several processes: how the processes find each other
 *
 * With options.bootstrap each process opens the group over the devices that it
 * drives.  Ranks are numbered by process, starting with the ranks of process 0.
 * Groups with the same name must be opened one at a time (otherwise
 * COHORT_STATE), and in the same order in all processes.
 *
 * The processes of one machine watch each other.  So do processes on several
 * machines that cohort launch has started.  If two processes watch each other,
 * a cause in one, or its exit without a close (COHORT_PROCESS_EXITED), ends the
 * group in the other.  A call that waits for a rank of a process that is not
 * watched ends as a stall.  docs/multi-node.md, "What the other processes get",
 * has the whole list.
 *
 * COHORT_LAUNCH_TOGETHER makes a launch wait only for the ranks of its own
 * process.  While two or more groups or splits of several processes are in use,
 * no process may allocate or free device memory, or copy pageable memory.
 * Otherwise two processes can deadlock: each is blocked in a memory operation
 * that waits for a kernel, and the kernel waits for the other process.
 *
 * See docs/multi-node.md for launchers, docs/api-rules.md, "How processes watch
 * each other", for the details and limits, and docs/guarantees.md, "Where it
 * has run", for what is not tested yet.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_group;

/* Methods by which the processes of a group find each other. */
enum cohort_bootstrap_kind {
	/* Through functions of the program: the callbacks in struct
	 * cohort_bootstrap. */
	COHORT_BOOTSTRAP_TABLE = 1,

	/*
	 * Through shared memory, for processes of one user on one machine.  The
	 * number of this process, the number of processes and the name of the
	 * job come from the first row whose variables are all set:
	 *
	 *   COHORT_PROCESS, COHORT_PROCESSES    COHORT_JOB      cohort launch
	 *   OMPI_COMM_WORLD_RANK, _SIZE         PMIX_NAMESPACE  mpirun
	 *   RANK, WORLD_SIZE                    MASTER_PORT     torchrun
	 *   SLURM_PROCID, SLURM_STEP_NUM_TASKS  SLURM_JOB_ID    srun
	 *   PMI_RANK, PMI_SIZE                  (parent)        mpiexec
	 *   JAX_PROCESS_ID, JAX_NUM_PROCESSES   JAX_COORDINATOR_ADDRESS
	 *
	 * (parent) is the pid of the parent process.  If the launcher says that
	 * some processes are on other machines, open returns
	 * COHORT_UNSUPPORTED.
	 */
	COHORT_BOOTSTRAP_ENV = 2,

	/*
	 * Through the launcher's PMIx server, on any number of machines: cohort
	 * launch, mpirun, srun --mpi=pmix.  The group consists of the processes
	 * of the launcher's job.  libpmix.so.2 is opened at run time
	 * (COHORT_NO_LIBRARY if it is missing).
	 *
	 * The first group makes the process a PMIx client until exit(); a
	 * launcher treats _exit() as a failure.  If a process exits right after
	 * it has opened a group, the open may fail in processes on other
	 * machines.  PMIx servers keep 2 KiB for each process and each round of
	 * communication until the job ends; an open and a respawn take three
	 * rounds each.  If a process opens a group after the others have given
	 * up, it gets COHORT_SYSTEM ("has left"); its next open joins their
	 * next open.
	 */
	COHORT_BOOTSTRAP_PMIX = 3,

	/* COHORT_BOOTSTRAP_PMIX if cohort launch, mpirun or srun has started
	 * processes on several machines, or if a PMIx launcher has set none of
	 * the variables above; otherwise COHORT_BOOTSTRAP_ENV.  Without a
	 * launcher the process is the only one of the group.  An open returns
	 * COHORT_INVALID if only one of the process number and the number of
	 * processes is set. */
	COHORT_BOOTSTRAP_AUTO = 4,
};

/*
 * Method by which this process finds the other processes of a group
 *
 * The callbacks are as in UCC's table ucc_oob_coll_t.  Only the thread that
 * opens or respawns the group calls them.  All processes must have the same
 * version of the library.
 */
struct cohort_bootstrap {
	size_t size; /* sizeof(struct cohort_bootstrap), set by the caller */

	/* enum cohort_bootstrap_kind; the other members are for
	 * COHORT_BOOTSTRAP_TABLE only. */
	int kind;

	int process;   /* number of this process, 0 to @processes - 1 */
	int processes; /* 1 to COHORT_MAX_RANKS, the same in all processes */

	/*
	 * Start to gather @bytes bytes from each process
	 * @send:    bytes of this process, valid until the request ends
	 * @recv:    room for @bytes of each process, by number, valid until the
	 *           request ends
	 * @info:    the member @info below
	 * @request: to be set to an argument for @req_test and @req_free
	 *
	 * Must not block, because no deadline ends it.  Returns 0, or anything
	 * else on error.
	 */
	int (*allgather)(void *send, void *recv, size_t bytes, void *info,
	                 void **request);

	/* Return 0 if all processes have arrived, 1 if not yet, and anything
	 * else on error. */
	int (*req_test)(void *request);

	/* Free a request after @req_test has returned 0 or an error; the result
	 * is ignored.  If a request is not done when the deadline passes, or
	 * one second after another process of this machine has ended, the
	 * library abandons it, and never frees the request or its buffers. */
	int (*req_free)(void *request);
	void *info; /* passed to @allgather; valid until the group is closed */
	uint64_t reserved[9]; /* must be 0 */
};

/* A process of a group. */
struct cohort_process {
	int first_rank; /* its lowest rank; its ranks are consecutive */
	int ranks;      /* number of its ranks; 0 if it has ended or left */
	int watched;    /* 1 if that process and this one watch each other */
	int64_t pid;    /* process id on its machine */
	char host[64];  /* name of its machine */

	uint64_t reserved[5];
};

/*
 * cohort_group_process - return the number of this process in a group
 *
 * Returns: 0 or more, 0 without options.bootstrap, or -1 if @group is NULL
 */
COHORT_API int cohort_group_process(const struct cohort_group *group);

/*
 * cohort_group_processes - get the processes of a group's latest generation
 * @processes: set to the first @room processes; may be NULL
 * @room:      number of elements of @processes
 *
 * Returns: the number of processes, or -1 if @group is NULL
 */
COHORT_API int cohort_group_processes(const struct cohort_group *group,
                                      struct cohort_process *processes,
                                      int room);

#ifdef __cplusplus
}
#endif

#endif
