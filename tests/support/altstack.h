/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALTSTACK_H
#define ALTSTACK_H

/*
 * Alternate signal stacks of a given size, for Criterion suites
 */

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define ALTSTACK_LARGEST 32768
#define ALTSTACK_PAGE 4096

/* Error text for a thread whose alternate signal stack has no room for the
 * library's handler. */
#define ALTSTACK_TOO_SMALL "the thread's alternate signal stack is too small"

/* Return the size of the signal frame that the kernel writes, or 0 if it is
 * unknown. */
static inline size_t altstack_frame(void)
{
	return (size_t)getauxval(51 /* AT_MINSIGSTKSZ */);
}

/* Return the smallest alternate stack that the kernel accepts, in bytes. */
static inline size_t altstack_least(void)
{
	return altstack_frame() > 2048 ? altstack_frame() : 2048;
}

/* Give the calling thread an alternate stack of @size bytes, with an
 * inaccessible page below it. Return the memory to pass to
 * altstack_remove(). */
static inline void *altstack_guarded(size_t size)
{
	char *memory = mmap(NULL, ALTSTACK_PAGE + ALTSTACK_LARGEST, PROT_NONE,
	                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = { .ss_sp = memory + ALTSTACK_PAGE, .ss_size = size };

	cr_assert_neq((void *)memory, MAP_FAILED);
	mprotect(memory + ALTSTACK_PAGE, ALTSTACK_LARGEST,
	         PROT_READ | PROT_WRITE);
	cr_assert_eq(sigaltstack(&stack, NULL), 0);
	return memory;
}

/* Remove the calling thread's alternate stack, and free its @memory. */
static inline void altstack_remove(void *memory)
{
	sigaltstack(&(stack_t){ .ss_flags = SS_DISABLE }, NULL);
	munmap(memory, ALTSTACK_PAGE + ALTSTACK_LARGEST);
}

#endif
