/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_ELF_FILE_H
#define SIM_NVIDIA_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the file at @path is a library for this machine, and all there.
 * dlopen() does not look: of a file that was cut short it maps pages that do
 * not exist, and a pipe it reads for ever.  If not, @why says what is wrong.
 */
bool elf_file_is_whole(const char *path, char *why, size_t why_bytes);

#endif
