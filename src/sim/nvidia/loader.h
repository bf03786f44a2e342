/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_LOADER_H
#define SIM_NVIDIA_LOADER_H

/*
 * NVIDIA's NCCL on simulated devices
 *
 * This folder makes a libnccl.so.2 that holds no NCCL: it loads the one that NVIDIA
 * ships, whose path COHORT_HOST_NCCL has (cohort run --nccl sets it), and makes it run on the
 * simulator's CUDA.  NCCL's own code stays as it is.
 *
 *	program -> loader.c  -> NVIDIA's libnccl.so.2 -> jumps (patch.c)
 *	                                                   |         |
 *	                       patch.c, nccl_launch.c <----+         +--> drop-in libcudart
 *
 * The real library has CUDA's runtime linked in, and a symbol table in its file that
 * names the functions of it (nccl_image.c).  At the head of each of these functions
 * patch.c writes a jump: to the function of that name in the drop-in libcudart or, for
 * what concerns kernels, to one in patch.c.  The kernels themselves are code for GPUs: a
 * CPU carries out what they do (nccl_launch.c).
 *
 * The real library is opened by dlopen() when this one is loaded.  It could not be a
 * library that this one needs (DT_NEEDED): its path is not known when this one is built,
 * and both have one soname, by which the loader takes them for one.  So this library
 * has a function of each name that NCCL exports, which jumps to the real one; and the
 * real one's symbols are global, so that a program finds names, too, that are not in
 * this library's list.
 *
 * The loader depends on the processor's instructions, and on facts that change from one
 * version of NCCL to the next: it is for x86-64, and for the versions in
 * kernel/nccl_version.h.
 */

#include <cohort/status.h>

/* The file of the real library, or NULL.  The gpu platform finds this function
 * by its name (platform/drop_in.h). */
COHORT_API const char *cohort_nccl_file(void);

#endif
