/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_LOADER_H
#define SIM_NVIDIA_LOADER_H

/*
 * Runs NVIDIA's NCCL on simulated devices
 *
 * This folder builds a libnccl.so.2 that contains no NCCL.  It loads NVIDIA's
 * library, whose path is in COHORT_HOST_NCCL (cohort run --nccl sets it), and
 * makes it run on the simulator's CUDA.  NCCL's own code is not changed.
 *
 *     program
 *        |
 *        v
 *     loader.c: NCCL's functions
 *        |
 *        v
 *     NVIDIA's libnccl.so.2
 *        |
 *        v
 *     jumps written by patch.c ---> drop-in libcudart
 *        |                               |
 *        v                               v
 *     nccl_runtime.c                nccl_launch.c: kernels
 *
 * NVIDIA's library contains the CUDA runtime, and its file contains a symbol
 * table with the runtime's functions (nccl_image.c).  patch.c writes a jump at
 * the start of each of these functions, to the function of the same name in the
 * drop-in libcudart or in nccl_runtime.c.  The kernels themselves are GPU code;
 * the CPU does their work instead (nccl_launch.c).
 *
 * This library opens NVIDIA's library with dlopen() when it is loaded.  It
 * cannot be linked against NVIDIA's library (DT_NEEDED), because the path is
 * not known at build time, and because both have the same soname, so that the
 * dynamic loader would treat them as one library.  This library therefore
 * defines a function for each name that NCCL exports, which jumps to the real
 * function.  The symbols of NVIDIA's library are global, so a program also
 * finds names that this library does not define.
 *
 * The loader depends on the instruction set and on details of each NCCL
 * version.  It supports x86-64 and the versions in kernel/nccl_version.h.
 */

#include <cohort/status.h>

#include "sim/nvidia/kernel/nccl_version.h"
#include "sim/nvidia/nccl_image.h"

/* Return the path of NVIDIA's library, or NULL if it is not loaded.  The GPU
 * platform looks this function up by name (platform/drop_in.h). */
COHORT_API const char *cohort_nccl_file(void);

/* ---- elf_file.c -------------------------------------------------------- */

/*
 * elf_file_is_whole - check that a file is a complete library for this machine
 * @why: if it is not, receives the reason
 *
 * dlopen() does not check whether a file is complete: it maps pages beyond the
 * end of a truncated file, and blocks forever on a pipe.
 */
bool elf_file_is_whole(const char *path, char *why, size_t why_bytes);

/* ---- nccl_launch.c ----------------------------------------------------- */

/* Run all launches of the kernels in @image on CPUs from now on.  Return false
 * if the tables in @image do not match @version, or if out of memory. */
bool launch_begin(const struct nccl_version *version,
                  const struct image *image);

/* Return the mangled name of the kernel whose host stub is @stub, or NULL if
 * there is none.  NCCL and the CUDA runtime identify a kernel by the address of
 * its host stub. */
const char *stub_name(const void *stub);

/* ---- nccl_runtime.c ---------------------------------------------------- */

/* Redirect the CUDA runtime that is linked into NCCL to the library with the
 * handle @runtime.  Return false on failure, and store the reason in @why;
 * @image is then unchanged. */
bool nccl_runtime_redirect(const struct image *image, void *runtime, char *why,
                           size_t why_bytes);

/* ---- sockets.c --------------------------------------------------------- */

/* Make NVIDIA's NCCL pause between polls of a socket, to save CPU time.
 * Functions that @library does not import from libc are not changed. */
void sockets_with_pauses(void *library);

#endif
