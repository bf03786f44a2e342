/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Steps with NCCL memory that is registered by each rank alone, or by all ranks
 * together as windows
 */

#include "system/fuzz/program.h"

#define BYTES 8192

/* Register and deregister a rank's buffer. One handle is released twice. */
static void register_buffer(struct family *f, int rank, char *memory)
{
	ncclComm_t comm = f->comm[rank];
	void *whole, *part;

	expect(true, host_ncclCommRegister(comm, memory, BYTES, &whole),
	       "ncclCommRegister");
	expect(true,
	       host_ncclCommRegister(comm, memory + BYTES / 2, BYTES / 4,
	                             &part),
	       "ncclCommRegister");
	expect(true, host_ncclCommDeregister(comm, part), "ncclCommDeregister");
	expect(true, host_ncclCommDeregister(comm, whole),
	       "ncclCommDeregister");
	if (host_ncclCommDeregister(comm, whole) != ncclInvalidUsage)
		fuzz_fail("a handle can be released twice");
}

/* Create windows. Return false if an abort made one fail. */
static bool make_windows(struct runner *r, struct step *s, void **memory,
                         ncclWindow_t *windows)
{
	struct family *f = s->family;
	ncclResult_t result;
	bool all = true;
	int rank;

	fuzz_group_start(r);
	r->group_waits = r->group_is_loose = true;
	for (rank = 0; rank < f->n; rank++) {
		windows[rank] = NULL;
		if (f->owner[rank] != r->index)
			continue;
		all = all && go_inside(r, f, rank);
		if (!all)
			break;
		result =
			host_ncclCommWindowRegister(f->comm[rank], memory[rank],
		                                    BYTES, &windows[rank],
		                                    s->raw[3] % 2);
		expect(is_intact(r->program, f), result,
		       "ncclCommWindowRegister");
	}
	result = fuzz_group_end(r, false);
	expect(is_intact(r->program, f), result, "ncclGroupEnd of windows");
	return all;
}

static void use_windows(struct runner *r, struct step *s, void **memory)
{
	struct family *f = s->family;
	ncclWindow_t windows[MOST_RANKS];
	int rank;

	if (!make_windows(r, s, memory, windows))
		return;
	for (rank = 0; rank < f->n; rank++) {
		if (f->owner[rank] != r->index)
			continue;
		register_buffer(f, rank, memory[rank]);
		expect(true,
		       host_ncclCommWindowDeregister(f->comm[rank],
		                                     windows[rank]),
		       "ncclCommWindowDeregister");
	}
}

/* Run a window step. The thread stays inside while it has windows. */
void run_window(struct runner *r, struct step *s)
{
	struct family *f = s->family;
	void *memory[MOST_RANKS];
	int rank, before;

	if (!own_ranks(r, f))
		return;
	host_cudaGetDevice(&before);
	for (rank = 0; rank < f->n; rank++) {
		host_cudaSetDevice(f->device[rank]);
		if (f->owner[rank] == r->index)
			expect(true, host_ncclMemAlloc(&memory[rank], BYTES),
			       "ncclMemAlloc");
	}
	r->stays_inside = true;
	use_windows(r, s, memory);
	r->stays_inside = false;
	settle(r);
	wait_begin(r->program, false);
	for (rank = 0; rank < f->n; rank++)
		if (f->owner[rank] == r->index)
			expect(true, host_ncclMemFree(memory[rank]),
			       "ncclMemFree");
	wait_end(r->program, false);
	host_cudaSetDevice(before);
}
