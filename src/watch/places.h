/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_PLACES_H
#define WATCH_PLACES_H

/*
 * Addresses of code in this process: their files, build IDs and functions
 *
 * places_map() reads what the kernel has mapped and places_name() the symbol
 * tables of the files on disk.  Neither takes memory or a lock of the dynamic
 * linker: a thread that hangs while it loads a library has that lock.
 */

#include "base/image.h"
#include "watch/stack.h"

#define PLACES (STACKS * STACK_FRAMES)
#define PLACE_MODULES 64
#define PLACE_PATH 512

/* Bytes for all names; and for one, with its zero. */
#define PLACE_NAMES 65536
#define PLACE_NAME 512

/* A file that is mapped, or an image of the kernel's, such as "[vdso]". */
struct place_module {
	char path[PLACE_PATH];
	char build_id[2 * IMAGE_BUILD_ID + 1]; /* in hexadecimal; "" if none */

	/* Where the start of the file is mapped; 0 if it is not. */
	uint64_t image, image_end;
};

struct code_place {
	uintptr_t address;
	uint64_t offset; /* in the module, as addr2line takes it */
	int module;      /* -1 if the address is in no file */
	int name;        /* offset in .names; -1 if not known */
	unsigned into;   /* bytes from the function's start to the address */
};

struct places {
	int n, n_modules;
	struct code_place at[PLACES]; /* by address */
	struct place_module modules[PLACE_MODULES];
	size_t names_size;
	char names[PLACE_NAMES];

	/* Room for places_name(): a function for each place. */
	struct image_function functions[PLACES];
};

/* Forget all places. */
void places_clear(struct places *places);

/* Add an address, unless it has been added or there is no room. */
void places_add(struct places *places, uintptr_t address);

/* Find the file of each address.  Reads memory only. */
void places_map(struct places *places);

/* Find the function of each address, after places_map().  Reads files. */
void places_name(struct places *places);

/* Return the place of an address, or NULL. */
const struct code_place *places_find(const struct places *places,
                                     uintptr_t address);

/* Open the file of a module if it still has the build that is mapped.  Returns
 * a descriptor, or -1. */
int places_open(const struct place_module *module);

#endif
