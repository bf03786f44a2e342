/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_REDUCE_LOOPS_H
#define HOST_REDUCE_LOOPS_H

/*
 * The loops of one level of reductions
 *
 * The source file says which: LEVEL is the name of its table, NAME what it is
 * called, WIDTH how long its vectors are, F16_HALVES that it converts f16 itself.
 *
 * A step takes one vector of every source.  It is widened to the type that it
 * is folded in, folded from the first source to the last, narrowed and stored to
 * every output: an output is written only after that part of every source was
 * read (it may be one of them), and small floats are rounded once.  What is left
 * at the end goes the same way, in a vector that is not full.
 *
 * An element that is narrower than what it is folded in makes several parts: a
 * pair or a quad of vectors, each with every second or fourth element, so that
 * no instruction has to move them across.
 */

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "platform/host/convert.h"
#include "platform/host/reduce_levels.h"

#ifndef LEVEL
#define LEVEL reduce_base
#define NAME "base"
#endif

/* The arithmetic of f32 and f64 has to be of that type, not of something wider
 * (16 says so too, of machines with f16 arithmetic). */
_Static_assert(FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 16,
               "f32 and f64 must be evaluated as such");

struct pair {
	f32v a, b;
};

struct quad {
	f32v a, b, c, d;
};

/* ---- sums, products, the greater, the lesser ---------------------------- */

/* Signed integers are folded as unsigned ones, whose overflow is defined. */
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

/* There is no product of bytes: of two bytes, the lower and the upper. */
#define DEFINE_BYTE_PROD(name)                                                 \
	INLINE u8v name##_prod(u8v a, u8v b)                                   \
	{                                                                      \
		const u16v x = (u16v)a, y = (u16v)b;                           \
                                                                               \
		return (u8v)(((x * y) & 0xff) | (x >> 8) * (y & 0xff00));      \
	}

/* @value: as what it is compared.  @bits: as what it is picked.  @loses: whether
 * anything must replace it. */
#define DEFINE_MAX_MIN(name, vector, value, bits, loses)                       \
	INLINE vector name##_max(vector a, vector b)                           \
	{                                                                      \
		const bits yes = (bits)((value)b > (value)a) | loses(bits, a); \
                                                                               \
		return (vector)PICK(yes, (bits)b, (bits)a);                    \
	}                                                                      \
	INLINE vector name##_min(vector a, vector b)                           \
	{                                                                      \
		const bits yes = (bits)((value)b < (value)a) | loses(bits, a); \
                                                                               \
		return (vector)PICK(yes, (bits)b, (bits)a);                    \
	}

#define NEVER(bits, x)                                                         \
	(bits)                                                                 \
	{                                                                      \
	}
#define IS_NAN(bits, x) (bits)((x) != (x))

#define DEFINE_INTEGER(name, vector, value)                                    \
	DEFINE_SUM(name, vector)                                               \
	DEFINE_PROD(name, vector)                                              \
	DEFINE_MAX_MIN(name, vector, value, vector, NEVER)

#define DEFINE_BYTE(name, value)                                               \
	DEFINE_SUM(name, u8v)                                                  \
	DEFINE_BYTE_PROD(name)                                                 \
	DEFINE_MAX_MIN(name, u8v, value, u8v, NEVER)

#define DEFINE_FLOAT(name, vector, bits)                                       \
	DEFINE_SUM(name, vector)                                               \
	DEFINE_PROD(name, vector)                                              \
	DEFINE_MAX_MIN(name, vector, vector, bits, IS_NAN)

DEFINE_BYTE(i8, i8v)
DEFINE_BYTE(u8, u8v)
DEFINE_INTEGER(i32, u32v, i32v)
DEFINE_INTEGER(u32, u32v, u32v)
DEFINE_INTEGER(i64, u64v, i64v)
DEFINE_INTEGER(u64, u64v, u64v)
DEFINE_SUM(half, u32h)
DEFINE_FLOAT(f32, f32v, u32v)
DEFINE_FLOAT(f64, f64v, u64v)

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
DEFINE_PARTS(max)
DEFINE_PARTS(min)

/* ---- averages ----------------------------------------------------------- */

/*
 * What a sum is divided by.  A power of two has a shift and an exact inverse.
 * Of any other the inverse is taken a little too large: then the product with
 * an integer lies less than 1 / n above the quotient, and truncates to the same,
 * as long as f32 is used for 8 bits and f64 for 32.
 */
struct divisor {
	int n;
	int shift; /* or -1 */
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

/* The quotient of each lane, which holds a number of 8 bits, in the low 8. */
INLINE u32v byte_divide(i32v x, const struct divisor *d)
{
	const f32v quotient = __builtin_convertvector(x, f32v) * d->inverse_f32;

	return (u32v) __builtin_convertvector(quotient, i32v) & 0xff;
}

#define DEFINE_BYTE_DIVIDE(name, shifted)                                      \
	INLINE u8v name##_divide(u8v x, const struct divisor *d)               \
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

INLINE u32h i32_divide(u32h x, const struct divisor *d)
{
	const f64v value = __builtin_convertvector((i32h)x, f64v);

	return (u32h) __builtin_convertvector(value * d->inverse_f64, i32h);
}

/* Without a sign: moved to where a sign is expected and back.  What does not fit
 * in 31 bits afterwards was divided by 1. */
INLINE u32h u32_divide(u32h x, const struct divisor *d)
{
	const i32h moved = (i32h)(x ^ 0x80000000);
	const f64v value = __builtin_convertvector(moved, f64v) + 0x1p31;

	if (d->n == 1)
		return x;
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

/* ---- widening and narrowing --------------------------------------------- */

#define AS_IS(x, ...) (x)

INLINE f64v f64_one_nan(f64v x)
{
	const u64v nan = (u64v)(x != x);

	return (f64v)PICK(nan, (u64v){} + UINT64_C(0x7ff8000000000000),
	                  (u64v)x);
}

INLINE struct pair bf16_widen(u16v x)
{
	return (struct pair){
		(f32v)((u32v)x << 16),
		(f32v)((u32v)x & 0xffff0000),
	};
}

INLINE u16v bf16_narrow(struct pair x)
{
	return (u16v)(bf16_narrow_high(x.a) >> 16 |
	              (bf16_narrow_high(x.b) & 0xffff0000));
}

/* The level does it, half a vector at a time, where the machine can. */
#ifdef F16_HALVES
#define F16_ELEMENTS u16h
#define F16_FOLDED f32
#define F16_SUM f32_sum
#else
#define F16_ELEMENTS u16v
#define F16_FOLDED pair
#define F16_SUM pair_sum

INLINE struct pair f16_widen(u16v x)
{
	return (struct pair){
		small_widen((u32v)x & 0xffff, f16_format),
		small_widen((u32v)x >> 16, f16_format),
	};
}

INLINE u16v f16_narrow(struct pair x)
{
	return (u16v)(small_narrow(x.a, f16_format) |
	              small_narrow(x.b, f16_format) << 16);
}
#endif

#define DEFINE_BYTE_FLOAT(name)                                                \
	INLINE struct quad name##_widen(u8v x)                                 \
	{                                                                      \
		const u32v y = (u32v)x;                                        \
                                                                               \
		return (struct quad){                                          \
			small_widen(y & 0xff, name##_format),                  \
			small_widen(y >> 8 & 0xff, name##_format),             \
			small_widen(y >> 16 & 0xff, name##_format),            \
			small_widen(y >> 24, name##_format),                   \
		};                                                             \
	}                                                                      \
	INLINE u8v name##_narrow(struct quad x)                                \
	{                                                                      \
		return (u8v)(small_narrow(x.a, name##_format) |                \
		             small_narrow(x.b, name##_format) << 8 |           \
		             small_narrow(x.c, name##_format) << 16 |          \
		             small_narrow(x.d, name##_format) << 24);          \
	}

DEFINE_BYTE_FLOAT(e4m3)
DEFINE_BYTE_FLOAT(e5m2)

/* ---- memory ------------------------------------------------------------- */

/*
 * A vector at any address, or no more than the first @bytes of it, and then
 * zeros.  One element goes by a register: what is written in small pieces and
 * read as a vector costs a wait.
 */
#define DEFINE_ACCESS(vector)                                                  \
	INLINE vector vector##_load(const char *from, size_t bytes)            \
	{                                                                      \
		__typeof__(((vector){})[0]) one;                               \
		vector x = {};                                                 \
                                                                               \
		if (bytes == sizeof(x)) {                                      \
			memcpy(&x, from, sizeof(x));                           \
		} else if (bytes == sizeof(one)) {                             \
			memcpy(&one, from, sizeof(one));                       \
			x = (vector){ one };                                   \
		} else {                                                       \
			memcpy(&x, from, bytes);                               \
		}                                                              \
		return x;                                                      \
	}                                                                      \
	INLINE void vector##_store(char *to, vector x, size_t bytes)           \
	{                                                                      \
		const __typeof__(x[0]) one = x[0];                             \
                                                                               \
		if (bytes == sizeof(x))                                        \
			memcpy(to, &x, sizeof(x));                             \
		else if (bytes == sizeof(one))                                 \
			memcpy(to, &one, sizeof(one));                         \
		else                                                           \
			memcpy(to, &x, bytes);                                 \
	}                                                                      \
	INLINE vector vector##_spread(const void *from)                        \
	{                                                                      \
		__typeof__(((vector){})[0]) one;                               \
                                                                               \
		memcpy(&one, from, sizeof(one));                               \
		return (vector){} + one;                                       \
	}

DEFINE_ACCESS(u8v)
DEFINE_ACCESS(u16v)
DEFINE_ACCESS(u16h)
DEFINE_ACCESS(u32v)
DEFINE_ACCESS(u32h)
DEFINE_ACCESS(u64v)
DEFINE_ACCESS(f32v)
DEFINE_ACCESS(f64v)

/* ---- the loops ---------------------------------------------------------- */

/* Two ranks in place are the common case, without loops over ranks. */
#define DEFINE_FOLD(name, elements, widen, op, finish, narrow)                 \
	static void name(void *const out[], int outs, const void *const src[], \
	                 int n, size_t count)                                  \
	{                                                                      \
		const size_t bytes = count * sizeof(((elements){})[0]);        \
		const size_t step = sizeof(elements);                          \
		const struct divisor d = divisor_of(n);                        \
		size_t at = 0;                                                 \
                                                                               \
		if (n == 2 && outs == 2) {                                     \
			const char *const a = src[0], *const b = src[1];       \
			char *const x = out[0], *const y = out[1];             \
                                                                               \
			for (; bytes - at >= step; at += step) {               \
				const elements r = narrow(finish(              \
					op(widen(elements##_load(a + at,       \
				                                 step)),       \
				           widen(elements##_load(b + at,       \
				                                 step))),      \
					&d));                                  \
                                                                               \
				elements##_store(x + at, r, step);             \
				elements##_store(y + at, r, step);             \
			}                                                      \
		}                                                              \
		for (; at < bytes; at += step) {                               \
			const size_t left = bytes - at;                        \
			const size_t take = left < step ? left : step;         \
			__typeof__(widen((elements){})) r;                     \
			elements whole;                                        \
                                                                               \
			r = widen(elements##_load((const char *)src[0] + at,   \
			                          take));                      \
			for (int k = 1; k < n; k++)                            \
				r = op(r, widen(elements##_load(               \
						  (const char *)src[k] + at,   \
						  take)));                     \
			whole = narrow(finish(r, &d));                         \
			for (int k = 0; k < outs; k++)                         \
				elements##_store((char *)out[k] + at, whole,   \
				                 take);                        \
		}                                                              \
		(void)d;                                                       \
	}

/* Each source is multiplied by its scalar first, and that rounded. */
#define DEFINE_SCALED(name, elements, widen, sum, prod, narrow)                \
	INLINE __typeof__(widen((elements){})) name##_term(                    \
		const char *from, const void *scalar, size_t bytes)            \
	{                                                                      \
		return widen(narrow(prod(widen(elements##_load(from, bytes)),  \
		                         widen(elements##_spread(scalar)))));  \
	}                                                                      \
	static void name(void *out, const void *const src[],                   \
	                 const void *const scalars[], int n, size_t count)     \
	{                                                                      \
		const size_t bytes = count * sizeof(((elements){})[0]);        \
		const size_t step = sizeof(elements);                          \
                                                                               \
		for (size_t at = 0; at < bytes; at += step) {                  \
			const size_t left = bytes - at;                        \
			const size_t take = left < step ? left : step;         \
			__typeof__(widen((elements){})) r;                     \
                                                                               \
			r = name##_term((const char *)src[0] + at, scalars[0], \
			                take);                                 \
			for (int k = 1; k < n; k++)                            \
				r = sum(r,                                     \
				        name##_term((const char *)src[k] + at, \
				                    scalars[k], take));        \
			elements##_store((char *)out + at, narrow(r), take);   \
		}                                                              \
	}

/*
 * The types: X(NCCL's name, our name, vector of elements, folded as, widened by,
 * narrowed by, and for averages: vector of elements, summed by).
 */
#define REDUCE_TYPES(X)                                                        \
	X(ncclInt8, i8, u8v, i8, AS_IS, AS_IS, u8v, i8_sum)                    \
	X(ncclUint8, u8, u8v, u8, AS_IS, AS_IS, u8v, u8_sum)                   \
	X(ncclInt32, i32, u32v, i32, AS_IS, AS_IS, u32h, half_sum)             \
	X(ncclUint32, u32, u32v, u32, AS_IS, AS_IS, u32h, half_sum)            \
	X(ncclInt64, i64, u64v, i64, AS_IS, AS_IS, u64v, i64_sum)              \
	X(ncclUint64, u64, u64v, u64, AS_IS, AS_IS, u64v, u64_sum)             \
	X(ncclFloat16, f16, F16_ELEMENTS, F16_FOLDED, f16_widen, f16_narrow,   \
	  F16_ELEMENTS, F16_SUM)                                               \
	X(ncclFloat32, f32, f32v, f32, AS_IS, f32_one_nan, f32v, f32_sum)      \
	X(ncclFloat64, f64, f64v, f64, AS_IS, f64_one_nan, f64v, f64_sum)      \
	X(ncclBfloat16, bf16, u16v, pair, bf16_widen, bf16_narrow, u16v,       \
	  pair_sum)                                                            \
	X(ncclFloat8e4m3, e4m3, u8v, quad, e4m3_widen, e4m3_narrow, u8v,       \
	  quad_sum)                                                            \
	X(ncclFloat8e5m2, e5m2, u8v, quad, e5m2_widen, e5m2_narrow, u8v,       \
	  quad_sum)

#define DEFINE_TYPE(id, name, elements, folded, widen, narrow, few, sum)       \
	DEFINE_FOLD(name##_fold_sum, elements, widen, folded##_sum, AS_IS,     \
	            narrow)                                                    \
	DEFINE_FOLD(name##_fold_prod, elements, widen, folded##_prod, AS_IS,   \
	            narrow)                                                    \
	DEFINE_FOLD(name##_fold_max, elements, widen, folded##_max, AS_IS,     \
	            narrow)                                                    \
	DEFINE_FOLD(name##_fold_min, elements, widen, folded##_min, AS_IS,     \
	            narrow)                                                    \
	DEFINE_FOLD(name##_fold_avg, few, widen, sum, folded##_divide, narrow) \
	DEFINE_SCALED(name##_fold_scaled, elements, widen, folded##_sum,       \
	              folded##_prod, narrow)

/* The arguments are macros themselves, some of them. */
#define DEFINE_EXPANDED(...) DEFINE_TYPE(__VA_ARGS__)

REDUCE_TYPES(DEFINE_EXPANDED)

#define FOLDS(id, name, ...)                                                   \
	[id] = {                                                               \
		[ncclSum] = name##_fold_sum, [ncclProd] = name##_fold_prod,    \
		[ncclMax] = name##_fold_max, [ncclMin] = name##_fold_min,      \
		[ncclAvg] = name##_fold_avg,                                   \
	},
#define SCALED(id, name, ...) [id] = name##_fold_scaled,

/* clang-format off */
const struct reduce_level LEVEL = {
	.name = NAME,
	.fold = { REDUCE_TYPES(FOLDS) },
	.scaled = { REDUCE_TYPES(SCALED) },
};
/* clang-format on */

#endif
