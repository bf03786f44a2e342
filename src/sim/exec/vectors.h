/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_VECTORS_H
#define SIM_EXEC_VECTORS_H

/*
 * Vectors of WIDTH bytes, as gcc and clang provide them on every machine
 *
 * A comparison of two vectors returns a vector of masks: all bits of an element
 * are set where the comparison is true.  A cast from one vector type to another
 * keeps the bits.
 */

#include <stdint.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#ifndef WIDTH
#define WIDTH 16
#endif

#define VECTOR(bytes) __attribute__((vector_size(bytes)))

typedef uint8_t u8v VECTOR(WIDTH);
typedef int8_t i8v VECTOR(WIDTH);
typedef uint16_t u16v VECTOR(WIDTH);
typedef int16_t i16v VECTOR(WIDTH);
typedef uint32_t u32v VECTOR(WIDTH);
typedef int32_t i32v VECTOR(WIDTH);
typedef uint64_t u64v VECTOR(WIDTH);
typedef int64_t i64v VECTOR(WIDTH);
typedef float f32v VECTOR(WIDTH);
typedef double f64v VECTOR(WIDTH);

/* Half-width vectors.  Their elements fill a whole vector once they are
 * widened. */
typedef uint16_t u16h VECTOR(WIDTH / 2);
typedef uint32_t u32h VECTOR(WIDTH / 2);
typedef int32_t i32h VECTOR(WIDTH / 2);

/*
 * The widened elements of one vector.  Each member holds every second element
 * (in a quad, every fourth), so that no element has to move to another lane.
 */
struct pair {
	f32v a, b;
};

struct quad {
	f32v a, b, c, d;
};

/* Force inlining, because vectors stay in registers only in inlined
 * functions. */
#define INLINE static inline __attribute__((always_inline))

/* Select @yes where @mask is set, @no elsewhere.  If all three have the signed
 * type of the comparison, compilers emit one instruction. */
#define PICK(mask, yes, no) (((yes) & (mask)) | ((no) & ~(mask)))

#endif
