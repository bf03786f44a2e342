/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DROPIN_CUDART_H
#define SIM_DROPIN_CUDART_H

/*
 * Which of CUDA's majors a file is compiled for: the Makefile says -DCUDART=12
 * and -DCUDART=13
 */
#ifndef CUDART
#define CUDART 13
#endif

#endif
