/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How NCCL waits for other ranks at sockets
 *
 * It calls accept() and recv() on sockets that do not block, again and again,
 * until a rank comes or its data does: that keeps a core busy in the kernel,
 * and on a machine with fewer cores than ranks it is the core that the missing
 * rank needs.  So its accept() and recv() are these, which wait a little before
 * they say that nothing is there.
 */

#include "sim/nvidia/sockets.h"

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

/* A thread that asks one socket so often waits for nothing else: the threads
 * that serve several sockets ask each in turn. */
#define PATIENCE 16

static void pause_for(int fd)
{
	static _Thread_local int last = -1, times;
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	times = fd == last ? times + 1 : 0;
	last = fd;
	if (times >= PATIENCE)
		poll(&wanted, 1, PAUSE_MS);
	errno = EAGAIN;
}

static int accept_or_pause(int fd, struct sockaddr *address, socklen_t *bytes)
{
	int accepted = accept(fd, address, bytes);

	if (accepted < 0 && errno == EAGAIN)
		pause_for(fd);
	return accepted;
}

static ssize_t recv_or_pause(int fd, void *buffer, size_t bytes, int flags)
{
	ssize_t got = recv(fd, buffer, bytes, flags);

	if (got < 0 && errno == EAGAIN && flags & MSG_DONTWAIT)
		pause_for(fd);
	return got;
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

/* What takes the place of an import; NULL: it stays. */
static void *replacement(const char *name)
{
	if (strcmp(name, "accept") == 0)
		return (void *)accept_or_pause;
	return strcmp(name, "recv") == 0 ? (void *)recv_or_pause : NULL;
}

void sockets_with_pauses(void *library)
{
	const Elf64_Rela *slot;
	struct imports imports;
	struct link_map *map;
	void *with;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 ||
	    !find_imports(map, &imports))
		return;
	for (slot = imports.slots;
	     slot < imports.slots + imports.bytes / sizeof(*slot); slot++) {
		with = replacement(
			imports.names +
			imports.symbols[ELF64_R_SYM(slot->r_info)].st_name);
		if (with)
			memcpy((void *)(map->l_addr + slot->r_offset), &with,
			       sizeof(with));
	}
}
