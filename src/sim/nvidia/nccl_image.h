/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_NCCL_IMAGE_H
#define SIM_NVIDIA_NCCL_IMAGE_H

/*
 * A loaded library or program together with the symbol table in its file
 *
 * The file is needed because the dynamic loader maps only the table of exported
 * symbols.
 */

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A loaded library or program.  Constant after image_find().  Its file stays
 * mapped. */
struct image {
	const char *path;
	/* Difference between addresses in memory and in the file. */
	uintptr_t base;

	/* The segment that contains the code. */
	char *text;
	size_t text_bytes;

	const char *file;
	size_t file_bytes;
	const Elf64_Sym *symbols;
	size_t symbol_count;
	const char *names;
	size_t name_bytes;
};

/* Find the image of a library or program.  @library is a handle from dlopen();
 * dlopen(NULL) returns the handle of the program.  Return false if something
 * required is missing, and store the reason in @why. */
bool image_find(struct image *image, void *library, char *why,
                size_t why_bytes);

/* Return the name of a symbol, which can be "". */
const char *image_name(const struct image *image, const Elf64_Sym *symbol);

/* Return the address of a symbol in memory, or NULL if it is undefined. */
void *image_address(const struct image *image, const Elf64_Sym *symbol);

/* Return the defined symbol with @name, or NULL if there is none. */
const Elf64_Sym *image_symbol(const struct image *image, const char *name);

#endif
