/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_REDUCE_OPS_H
#define SIM_EXEC_REDUCE_OPS_H

/* The operations of reductions, on two vectors */

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/exec/convert.h"

/* f32 and f64 must be computed in their own type, not in a wider one.  An
 * FLT_EVAL_METHOD of 16, on machines with f16 arithmetic, also means this. */
_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16,
               "f32 and f64 must be evaluated as such");

/* ---- sum, product, maximum, minimum ------------------------------------- */

/* Signed integers are combined as unsigned integers, whose overflow is
 * defined. */
#define DEFINE_SUM(name, vector)                                               \
	INLINE vector name##_sum(vector a, vector b)                           \
	{                                                                      \
		return a + b;                                                  \
	}

#define DEFINE_PROD(name, vector)                                              \
	INLINE vector name##_prod(vector a, vector b)                          \
	{                                                                      \
		return a * b;                                                  \
	}

/* Multiply bytes.  x86 has no instruction for this, so the lower and the upper
 * byte of each pair are multiplied separately. */
#define DEFINE_BYTE_PROD(name)                                                 \
	INLINE u8v name##_prod(u8v a, u8v b)                                   \
	{                                                                      \
		const u16v x = (u16v)a, y = (u16v)b;                           \
                                                                               \
		return (u8v)(((x * y) & 0xff) | (x >> 8) * (y & 0xff00));      \
	}

/* Define max and min.  @value is the type in which elements are compared, @bits
 * the type in which they are selected, and @loses a further condition under
 * which an element is replaced. */
#define DEFINE_MAX_MIN(name, vector, value, bits, loses)                       \
	INLINE vector name##_max(vector a, vector b)                           \
	{                                                                      \
		return (vector)PICK(((value)b > (value)a) loses(a), (bits)b,   \
		                    (bits)a);                                  \
	}                                                                      \
	INLINE vector name##_min(vector a, vector b)                           \
	{                                                                      \
		return (vector)PICK(((value)b < (value)a) loses(a), (bits)b,   \
		                    (bits)a);                                  \
	}

#define NEVER(x)
#define IS_NAN(x) | ((x) != (x))

#define DEFINE_INTEGER(name, vector, value, bits)                              \
	DEFINE_SUM(name, vector)                                               \
	DEFINE_PROD(name, vector)                                              \
	DEFINE_MAX_MIN(name, vector, value, bits, NEVER)

#define DEFINE_BYTE(name, value)                                               \
	DEFINE_SUM(name, u8v)                                                  \
	DEFINE_BYTE_PROD(name)                                                 \
	DEFINE_MAX_MIN(name, u8v, value, i8v, NEVER)

#define DEFINE_FLOAT(name, vector, bits)                                       \
	DEFINE_SUM(name, vector)                                               \
	DEFINE_PROD(name, vector)                                              \
	DEFINE_MAX_MIN(name, vector, vector, bits, IS_NAN)

DEFINE_BYTE(i8, i8v)
DEFINE_BYTE(u8, u8v)
DEFINE_INTEGER(i32, u32v, i32v, i32v)
DEFINE_INTEGER(u32, u32v, u32v, i32v)
DEFINE_INTEGER(i64, u64v, i64v, i64v)
DEFINE_INTEGER(u64, u64v, u64v, i64v)
DEFINE_SUM(half, u32h)
DEFINE_FLOAT(f32, f32v, i32v)
DEFINE_FLOAT(f64, f64v, i64v)

#define DEFINE_PARTS(op)                                                       \
	INLINE struct pair pair_##op(struct pair x, struct pair y)             \
	{                                                                      \
		return (struct pair){                                          \
			f32_##op(x.a, y.a),                                    \
			f32_##op(x.b, y.b),                                    \
		};                                                             \
	}                                                                      \
	INLINE struct quad quad_##op(struct quad x, struct quad y)             \
	{                                                                      \
		return (struct quad){                                          \
			f32_##op(x.a, y.a),                                    \
			f32_##op(x.b, y.b),                                    \
			f32_##op(x.c, y.c),                                    \
			f32_##op(x.d, y.d),                                    \
		};                                                             \
	}

DEFINE_PARTS(sum)
DEFINE_PARTS(prod)

/* ---- maximum and minimum of small floats -------------------------------- */

/*
 * A 16-bit float and its rank, an integer that sorts like the value
 *
 * Maximum and minimum compare ranks, so nothing is widened.  Both zeros have
 * the same rank.  NaNs are at both ends of the order; a constant is added so
 * that NaNs at the wrong end wrap around and lose.
 */
struct ranked16 {
	i16v bits, rank;
};

struct ranked8 {
	i8v bits, rank;
};

#define DEFINE_RANKED(ranked, elements, ints, top)                             \
	INLINE ints ranked##_of(ints x, int last, bool greater)                \
	{                                                                      \
		const ints sign = x < 0;                                       \
		const elements rank =                                          \
			(elements)(x ^ (sign & (top))) - (elements)sign;       \
		const __typeof__(rank[0]) beyond =                             \
			(__typeof__(rank[0]))(-last + (top));                  \
                                                                               \
		return greater ? (ints)(rank + beyond)                         \
		               : (ints)(~(rank - beyond - 1));                 \
	}                                                                      \
	INLINE struct ranked ranked##_best(struct ranked x, struct ranked y)   \
	{                                                                      \
		const ints yes = y.rank > x.rank;                              \
                                                                               \
		return (struct ranked){                                        \
			PICK(yes, y.bits, x.bits),                             \
			PICK(yes, y.rank, x.rank),                             \
		};                                                             \
	}

DEFINE_RANKED(ranked16, u16v, i16v, 0x7fff)
DEFINE_RANKED(ranked8, u8v, i8v, 0x7f)

/* @last is the code of the last number before the NaNs, @largest the code that
 * replaces it in results. */
#define DEFINE_EXTREMES(name, ranked, elements, ints, top, last, largest, nan) \
	INLINE struct ranked name##_rank_max(elements x)                       \
	{                                                                      \
		return (struct ranked){                                        \
			(ints)x,                                               \
			ranked##_of((ints)x, last, true),                      \
		};                                                             \
	}                                                                      \
	INLINE struct ranked name##_rank_min(elements x)                       \
	{                                                                      \
		return (struct ranked){                                        \
			(ints)x,                                               \
			ranked##_of((ints)x, last, false),                     \
		};                                                             \
	}                                                                      \
	INLINE elements name##_best(struct ranked x)                           \
	{                                                                      \
		const ints code = x.bits & (top);                              \
		ints y = x.bits;                                               \
                                                                               \
		if ((largest) != (last))                                       \
			y -= (code == (last)) & ((last) - (largest));          \
		return (elements)PICK(code > (last), (ints){} + (nan), y);     \
	}

DEFINE_EXTREMES(f16, ranked16, u16v, i16v, 0x7fff, 0x7c00, 0x7c00, 0x7e00)
DEFINE_EXTREMES(bf16, ranked16, u16v, i16v, 0x7fff, 0x7f80, 0x7f80, 0x7fc0)
DEFINE_EXTREMES(e4m3, ranked8, u8v, i8v, 0x7f, 0x7e, 0x7e, 0x7f)
DEFINE_EXTREMES(e5m2, ranked8, u8v, i8v, 0x7f, 0x7c, 0x7b, 0x7f)

/* ---- averages ----------------------------------------------------------- */

/*
 * The number by which a sum is divided.
 *
 * If it is a power of two, the sum is shifted or multiplied by the exact
 * inverse.  Otherwise, the inverse is slightly too large: its product with an
 * integer is less than 1 / n above the quotient, and truncates to the same
 * integer, if f32 is used for 8 bits and f64 for 32.
 */
struct divisor {
	int n;
	int shift; /* base-2 logarithm of n, or -1 if n is no power of two */
	float inverse_f32;
	double inverse_f64;
};

INLINE struct divisor divisor_of(int n)
{
	struct divisor d = {
		.n = n,
		.shift = n & (n - 1) ? -1 : __builtin_ctz((unsigned)n),
		.inverse_f32 = 1.0f / (float)n,
		.inverse_f64 = 1.0 / n,
	};

	if (d.shift < 0) {
		d.inverse_f32 *= 1 + FLT_EPSILON;
		d.inverse_f64 *= 1 + DBL_EPSILON;
	}
	return d;
}

INLINE f32v f32_divide(f32v x, const struct divisor *d)
{
	return d->shift >= 0 ? x * d->inverse_f32 : x / (float)d->n;
}

INLINE f64v f64_divide(f64v x, const struct divisor *d)
{
	return d->shift >= 0 ? x * d->inverse_f64 : x / (double)d->n;
}

INLINE struct pair pair_divide(struct pair x, const struct divisor *d)
{
	return (struct pair){ f32_divide(x.a, d), f32_divide(x.b, d) };
}

INLINE struct quad quad_divide(struct quad x, const struct divisor *d)
{
	return (struct quad){
		f32_divide(x.a, d),
		f32_divide(x.b, d),
		f32_divide(x.c, d),
		f32_divide(x.d, d),
	};
}

/* Divide the 8-bit number in each lane.  The quotient is in the lane's low 8
 * bits. */
INLINE u32v byte_divide(i32v x, const struct divisor *d)
{
	const f32v quotient = __builtin_convertvector(x, f32v) * d->inverse_f32;

	return (u32v) __builtin_convertvector(quotient, i32v) & 0xff;
}

#define DEFINE_BYTE_DIVIDE(name, shifted)                                      \
	INLINE u8v name##_divide_by_any(u8v x, const struct divisor *d)        \
	{                                                                      \
		const u32v y = (u32v)x;                                        \
                                                                               \
		return (u8v)(byte_divide((i32v)((shifted)(y << 24) >> 24),     \
		                         d) |                                  \
		             byte_divide((i32v)((shifted)(y << 16) >> 24), d)  \
		                     << 8 |                                    \
		             byte_divide((i32v)((shifted)(y << 8) >> 24), d)   \
		                     << 16 |                                   \
		             byte_divide((i32v)((shifted)y >> 24), d) << 24);  \
	}

DEFINE_BYTE_DIVIDE(i8, i32v)
DEFINE_BYTE_DIVIDE(u8, u32v)

/* Shift bytes right.  On x86, the smallest unit that can be shifted is a pair
 * of bytes, so mask the bits that cross from one byte to the other. */
INLINE u8v byte_shift(u8v x, int shift)
{
	return (u8v)((u16v)x >> shift) & (uint8_t)(0xff >> shift);
}

INLINE u8v u8_divide(u8v x, const struct divisor *d)
{
	if (d->shift < 0 || d->shift > 7)
		return u8_divide_by_any(x, d);
	return byte_shift(x, d->shift);
}

INLINE u8v i8_divide(u8v x, const struct divisor *d)
{
	const u8v negative = (u8v)((i8v)x < 0);
	uint8_t sign;

	if (d->shift < 0 || d->shift > 7)
		return i8_divide_by_any(x, d);
	sign = (uint8_t)(0x80 >> d->shift);
	x = byte_shift(x + (negative & (uint8_t)(d->n - 1)), d->shift);
	return (x ^ sign) - sign;
}

INLINE u32h i32_divide(u32h x, const struct divisor *d)
{
	const f64v value = __builtin_convertvector((i32h)x, f64v);
	const u32h negative = (u32h)((i32h)x < 0);

	if (d->shift >= 0)
		return (u32h)((i32h)(x + (negative & (uint32_t)(d->n - 1))) >>
		              d->shift);
	return (u32h) __builtin_convertvector(value * d->inverse_f64, i32h);
}

/* Divide unsigned numbers.  The conversion to floats is signed, so subtract
 * 2^31 before the conversion, and add it again afterwards. */
INLINE u32h u32_divide(u32h x, const struct divisor *d)
{
	const i32h moved = (i32h)(x ^ 0x80000000);
	const f64v value = __builtin_convertvector(moved, f64v) + 0x1p31;

	if (d->shift >= 0)
		return x >> d->shift;
	return (u32h) __builtin_convertvector(value * d->inverse_f64, i32h);
}

INLINE u64v i64_divide(u64v x, const struct divisor *d)
{
	const u64v negative = (u64v)((i64v)x < 0);

	if (d->shift < 0)
		return (u64v)((i64v)x / (int64_t)d->n);
	x += negative & (uint64_t)(d->n - 1);
	return (u64v)((i64v)x >> d->shift);
}

INLINE u64v u64_divide(u64v x, const struct divisor *d)
{
	return d->shift < 0 ? x / (uint64_t)d->n : x >> d->shift;
}

#endif
