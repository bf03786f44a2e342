/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Jumps at the heads of functions
 *
 * The target's address follows the jump, so that a jump reaches all of memory.  It takes
 * 14 bytes, and functions begin at multiples of 16.  No thread runs the functions meanwhile: NCCL's constructors have run, and its functions
 * are called through this library, which is not loaded yet.
 */

#include "sim/nvidia/patch.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* jmp *0(%rip) */
static const unsigned char jump[] = { 0xff, 0x25, 0, 0, 0, 0 };

#define JUMP_BYTES (sizeof(jump) + sizeof(void *))
#define HEAD_BYTES 16

/* The library registers its kernels before any jump is written; it unregisters them when
 * the process ends, by this function. */
#define AT_EXIT "__cudaUnregisterFatBinary"

static bool is_of_runtime(const struct image *image, const Elf64_Sym *s)
{
	const char *name = image_name(image, s);

	if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || !image_address(image, s))
		return false;
	return (strncmp(name, "cuda", 4) == 0 &&
	        isupper((unsigned char)name[4])) ||
	       strcmp(name, AT_EXIT) == 0;
}

/* Where the function @name is to jump; NULL if there is no such function. */
static void *target(const char *name, const struct patch *own, void *runtime)
{
	for (; own->name; own++)
		if (strcmp(own->name, name) == 0)
			return own->function;
	return dlsym(runtime, name);
}

/* The first and the last byte of the heads of all functions. */
struct span {
	char *first, *last;
	size_t count;
};

/* False if one of the functions has no place for a jump, or none to jump to. */
static bool survey(const struct image *image, const struct patch *own,
                   void *runtime, struct span *out, char *why, size_t why_bytes)
{
	const Elf64_Sym *s = image->symbols;
	const char *name;
	char *head;

	for (; s < image->symbols + image->symbol_count; s++) {
		if (!is_of_runtime(image, s))
			continue;
		name = image_name(image, s);
		head = image_address(image, s);
		if (head < image->text ||
		    head + HEAD_BYTES > image->text + image->text_bytes ||
		    (uintptr_t)head % HEAD_BYTES) {
			snprintf(why, why_bytes, "%s: no room for a jump in %s",
			         image->path, name);
			return false;
		}
		if (!target(name, own, runtime)) {
			snprintf(why, why_bytes,
			         "%s has %s, which the drop-in libcudart lacks",
			         image->path, name);
			return false;
		}
		if (!out->count++)
			out->first = out->last = head;
		out->first = head < out->first ? head : out->first;
		out->last = head > out->last ? head : out->last;
	}
	if (out->count)
		return true;
	snprintf(why, why_bytes,
	         "%s has no CUDA runtime linked in whose functions have names",
	         image->path);
	return false;
}

static void write_jumps(const struct image *image, const struct patch *own,
                        void *runtime)
{
	const Elf64_Sym *s = image->symbols;
	char *head;
	void *to;

	for (; s < image->symbols + image->symbol_count; s++) {
		if (!is_of_runtime(image, s))
			continue;
		head = image_address(image, s);
		to = target(image_name(image, s), own, runtime);
		memcpy(head, jump, sizeof(jump));
		memcpy(head + sizeof(jump), &to, sizeof(to));
	}
}

bool patch_runtime(const struct image *image, const struct patch *own,
                   void *runtime, char *why, size_t why_bytes)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	struct span span = { .count = 0 };
	size_t bytes;
	char *start;

	_Static_assert(JUMP_BYTES <= HEAD_BYTES, "a jump fits");
	if (!survey(image, own, runtime, &span, why, why_bytes))
		return false;
	start = span.first - (uintptr_t)span.first % page;
	bytes = (size_t)(span.last + HEAD_BYTES - start);
	if (mprotect(start, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
		snprintf(why, why_bytes,
		         "the code of %s cannot be made writable: %s",
		         image->path, strerror(errno));
		return false;
	}
	write_jumps(image, own, runtime);
	mprotect(start, bytes, PROT_READ | PROT_EXEC);
	return true;
}
