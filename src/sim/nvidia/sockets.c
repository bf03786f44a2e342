/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes NCCL wait for sockets without using a whole core
 *
 * NCCL calls accept() and recv() on nonblocking sockets in a loop until a rank
 * connects or its data arrives.  The loop keeps a core busy, which the missing
 * rank might need if there are fewer cores than ranks.  The functions here
 * replace both calls and wait briefly before they return EAGAIN.
 */

#include "sim/nvidia/loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* Length of a pause.  It is short, because NCCL checks its abort flag between
 * two calls. */
#define PAUSE_MS 1

/* After this number of calls in a row for one socket, assume that the thread
 * waits only for this socket: a thread that serves several sockets polls them
 * in turn. */
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

/* The tables that the dynamic loader uses to bind a library's imports. */
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

/* Return the replacement of an imported function, or NULL if the function has
 * none. */
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
