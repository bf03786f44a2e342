/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How NCCL waits for a rank that connects
 *
 * It calls accept() on a socket that does not block, again and again, until the rank
 * comes: that keeps a core busy in the kernel, and on a machine with fewer cores than
 * ranks it is the core that the missing rank needs.  So its accept() is this one, which
 * waits a little before it says that nobody is there.
 */

#include "sim/nvidia/accept.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* NCCL looks at its abort flag between two calls. */
#define PAUSE_MS 1

static int accept_or_pause(int fd, struct sockaddr *address, socklen_t *bytes)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };
	int accepted = accept(fd, address, bytes);

	if (accepted >= 0 || errno != EAGAIN)
		return accepted;
	poll(&wanted, 1, PAUSE_MS);
	return accept(fd, address, bytes);
}

/* What the loader used to bind the functions that a library imports. */
struct imports {
	const Elf64_Rela *slots;
	size_t bytes;
	const Elf64_Sym *symbols;
	const char *names;
};

static bool find_imports(const struct link_map *map, struct imports *out)
{
	const Elf64_Dyn *d = map->l_ld;

	*out = (struct imports){ .slots = NULL };
	for (; d && d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_JMPREL:
			out->slots = (const Elf64_Rela *)d->d_un.d_ptr;
			break;
		case DT_PLTRELSZ:
			out->bytes = d->d_un.d_val;
			break;
		case DT_SYMTAB:
			out->symbols = (const Elf64_Sym *)d->d_un.d_ptr;
			break;
		case DT_STRTAB:
			out->names = (const char *)d->d_un.d_ptr;
			break;
		}
	return out->slots && out->symbols && out->names;
}

void accept_with_pauses(void *library)
{
	int (*const function)(int, struct sockaddr *, socklen_t *) =
		accept_or_pause;
	const Elf64_Rela *slot;
	struct imports imports;
	struct link_map *map;
	const char *name;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 ||
	    !find_imports(map, &imports))
		return;
	for (slot = imports.slots;
	     slot < imports.slots + imports.bytes / sizeof(*slot); slot++) {
		name = imports.names +
		       imports.symbols[ELF64_R_SYM(slot->r_info)].st_name;
		if (strcmp(name, "accept") == 0)
			memcpy((void *)(map->l_addr + slot->r_offset),
			       &function, sizeof(function));
	}
}
