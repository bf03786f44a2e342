/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_NCCL_IMAGE_H
#define SIM_NVIDIA_NCCL_IMAGE_H

/*
 * A library in memory, with the symbol table of its file: the loader maps only
 * the table of what the library exports
 */

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Constant once it is found.  The file stays mapped. */
struct image {
	const char *path;
	uintptr_t base; /* what is added to the addresses in the file */

	/* The segment with its code. */
	char *text;
	size_t text_bytes;

	const char *file;
	size_t file_bytes;
	const Elf64_Sym *symbols;
	size_t symbol_count;
	const char *names;
	size_t name_bytes;
};

/* Find the image of @library, which dlopen() has returned.  False if it has not
 * what is needed: @why says what. */
bool image_find(struct image *image, void *library, char *why,
                size_t why_bytes);

/* The name of a symbol, which may be "". */
const char *image_name(const struct image *image, const Elf64_Sym *symbol);

/* Where a symbol is in memory; NULL if it is not defined. */
void *image_address(const struct image *image, const Elf64_Sym *symbol);

/* The symbol of that name that is defined, or NULL. */
const Elf64_Sym *image_symbol(const struct image *image, const char *name);

#endif
