/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_PLACES_H
#define WATCH_PLACES_H

/*
 * Maps addresses of code in this process to files, build IDs and functions
 *
 * places_map() reads the kernel's list of mappings, and places_name() reads the
 * symbol tables of the files on disk.  Neither allocates memory or takes a lock
 * of the dynamic linker, because a thread that hangs while it loads a library
 * holds that lock.
 */

#include "base/image.h"
#include "watch/stack.h"

#define PLACES (STACKS * STACK_FRAMES)
#define PLACE_MODULES 64
#define PLACE_PATH 512

/* Total size of all names in bytes. */
#define PLACE_NAMES 65536

/* Maximum size of one name in bytes, with its terminating zero. */
#define PLACE_NAME 512

/* A mapped file, or an image of the kernel such as "[vdso]". */
struct place_module {
	char path[PLACE_PATH];
	char build_id[2 * IMAGE_BUILD_ID + 1]; /* in hexadecimal; "" if none */

	/* Address range of the file's first mapping. */
	uint64_t image, image_end;
};

struct code_place {
	uintptr_t address;
	uint64_t offset; /* offset in the module, as addr2line expects it */
	int module;    /* index in .modules; -1 if the address is in no file */
	int name;      /* offset in .names; -1 if unknown */
	unsigned into; /* bytes from the start of the function */
};

struct places {
	int n, n_modules;
	struct code_place at[PLACES]; /* sorted by address */
	struct place_module modules[PLACE_MODULES];
	size_t names_size;
	char names[PLACE_NAMES];

	/* Scratch space of places_name(), with a function for each place. */
	struct image_function functions[PLACES];
};

void places_clear(struct places *places);

/* Add an address, unless it is already present or there is no room. */
void places_add(struct places *places, uintptr_t address);

/* Find the file of each address.  Reads /proc/self, but no file on disk. */
void places_map(struct places *places);

/* Find the function of each address, after places_map().  Reads files from
 * disk. */
void places_name(struct places *places);

/* Return the place of an address, or NULL if the address was not added. */
const struct code_place *places_find(const struct places *places,
                                     uintptr_t address);

/* Open the file of a module if the file is still the build that is mapped.
 * Returns a descriptor, or -1. */
int places_open(const struct place_module *module);

#endif
