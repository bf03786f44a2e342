/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_VECTORS_H
#define HOST_VECTORS_H

/*
 * Vectors of WIDTH bytes, as gcc and clang have them on every machine
 *
 * A comparison of two vectors is a vector of masks: all ones where it holds.  A
 * cast from one vector type to another keeps the bits.
 */

#include <stdint.h>

#ifndef WIDTH
#define WIDTH 16
#endif

#define VECTOR(bytes) __attribute__((vector_size(bytes)))

typedef uint8_t u8v VECTOR(WIDTH);
typedef int8_t i8v VECTOR(WIDTH);
typedef uint16_t u16v VECTOR(WIDTH);
typedef uint32_t u32v VECTOR(WIDTH);
typedef int32_t i32v VECTOR(WIDTH);
typedef uint64_t u64v VECTOR(WIDTH);
typedef int64_t i64v VECTOR(WIDTH);
typedef float f32v VECTOR(WIDTH);
typedef double f64v VECTOR(WIDTH);

/* Half as long: what becomes a whole vector when its elements are widened. */
typedef uint16_t u16h VECTOR(WIDTH / 2);
typedef uint32_t u32h VECTOR(WIDTH / 2);
typedef int32_t i32h VECTOR(WIDTH / 2);

/* Vectors stay in registers only if these functions dissolve. */
#define INLINE static inline __attribute__((always_inline))

/* @yes where the mask is set, else @no. */
#define PICK(mask, yes, no) (((yes) & (mask)) | ((no) & ~(mask)))

#endif
