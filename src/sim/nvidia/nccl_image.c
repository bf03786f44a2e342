/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the symbols of a library or program from its file (see nccl_image.h) */

#include "sim/nvidia/nccl_image.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the library in memory -------------------------------------------- */

/* Callback of dl_iterate_phdr(): find the code segment of an image.  Return 1
 * to end the search. */
static int find_text(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct image *image = arg;
	const ElfW(Phdr) * p;

	(void)bytes;
	if (info->dlpi_addr != image->base)
		return 0;
	for (p = info->dlpi_phdr; p < info->dlpi_phdr + info->dlpi_phnum; p++)
		if (p->p_type == PT_LOAD && (p->p_flags & PF_X)) {
			image->text = (char *)(image->base + p->p_vaddr);
			image->text_bytes = p->p_memsz;
		}
	return 1;
}

static bool find_in_memory(struct image *image, void *library)
{
	struct link_map *map;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
		return false;
	image->path =
		*map->l_name ? map->l_name : (const char *)getauxval(AT_EXECFN);
	image->base = map->l_addr;
	return dl_iterate_phdr(find_text, image) && image->text;
}

/* ---- the library's file ----------------------------------------------- */

static bool map_file(struct image *image)
{
	int fd = open(image->path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	void *file = MAP_FAILED;
	int error;

	if (fd < 0)
		return false;
	errno = ENOEXEC; /* error code for a file that is too small */
	if (!fstat(fd, &status) && status.st_size > (off_t)sizeof(Elf64_Ehdr)) {
		image->file_bytes = (size_t)status.st_size;
		file = mmap(NULL, image->file_bytes, PROT_READ, MAP_PRIVATE, fd,
		            0);
	}
	error = errno;
	close(fd);
	errno = error;
	if (file == MAP_FAILED)
		return false;
	image->file = file;
	return true;
}

/* Return the address of @offset in the mapped file.  Return NULL if the range
 * of @bytes exceeds the file or @offset is not a multiple of @alignment. */
static const void *bytes_at(const struct image *image, uint64_t offset,
                            uint64_t bytes, size_t alignment)
{
	if (offset > image->file_bytes || bytes > image->file_bytes - offset ||
	    offset % alignment)
		return NULL;
	return image->file + offset;
}

/* Return section @index or, if @index is 0, the first section of @type.  Return
 * NULL if there is no such section. */
static const Elf64_Shdr *section(const struct image *image, uint32_t type,
                                 uint32_t index)
{
	const Elf64_Ehdr *head = (const void *)image->file;
	const Elf64_Shdr *s =
		bytes_at(image, head->e_shoff,
	                 (uint64_t)head->e_shnum * sizeof(Elf64_Shdr),
	                 _Alignof(Elf64_Shdr));
	uint32_t i;

	for (i = 0; s && i < head->e_shnum; i++)
		if (index ? i == index : s[i].sh_type == type)
			return &s[i];
	return NULL;
}

static bool read_table(struct image *image)
{
	const Elf64_Shdr *table = section(image, SHT_SYMTAB, 0), *names;

	names = table && table->sh_link ? section(image, 0, table->sh_link)
	                                : NULL;
	if (!names || !names->sh_size)
		return false;
	image->symbols = bytes_at(image, table->sh_offset, table->sh_size,
	                          _Alignof(Elf64_Sym));
	image->symbol_count = table->sh_size / sizeof(Elf64_Sym);
	image->names = bytes_at(image, names->sh_offset, names->sh_size, 1);
	image->name_bytes = names->sh_size;
	return image->symbols && image->names &&
	       !image->names[image->name_bytes - 1];
}

bool image_find(struct image *image, void *library, char *why, size_t why_bytes)
{
	*image = (struct image){ .path = NULL };
	if (!find_in_memory(image, library))
		snprintf(why, why_bytes,
		         "the loaded library was not found in memory");
	else if (!map_file(image))
		snprintf(why, why_bytes, "%s: %s", image->path,
		         strerror(errno));
	else if (!read_table(image))
		snprintf(why, why_bytes,
		         "%s is stripped: it lacks the symbol table (.symtab) "
		         "that is needed to find CUDA's functions",
		         image->path);
	else
		return true;
	return false;
}

/* ---- symbols ---------------------------------------------------------- */

const char *image_name(const struct image *image, const Elf64_Sym *symbol)
{
	return symbol->st_name < image->name_bytes
	               ? image->names + symbol->st_name
	               : "";
}

void *image_address(const struct image *image, const Elf64_Sym *symbol)
{
	return symbol->st_shndx == SHN_UNDEF
	               ? NULL
	               : (void *)(image->base + symbol->st_value);
}

const Elf64_Sym *image_symbol(const struct image *image, const char *name)
{
	const Elf64_Sym *s = image->symbols;

	for (; s < image->symbols + image->symbol_count; s++)
		if (s->st_shndx != SHN_UNDEF &&
		    strcmp(image_name(image, s), name) == 0)
			return s;
	return NULL;
}
