/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_REDUCE_LOOPS_H
#define SIM_EXEC_REDUCE_LOOPS_H

/*
 * The loops of reductions for one level of vector instructions
 *
 * The source file that includes this one defines the level: LEVEL is the name
 * of its table, NAME its name as a string, WIDTH the number of bytes in its
 * vectors.  LEVEL_F16 and similar macros say which functions the source file
 * defines itself, because its CPU has instructions for them.
 *
 * A step reads one vector of every source, widens it to the type of the
 * computation, combines the sources from the first to the last, narrows the
 * result and stores it to every output.  An output is written only after that
 * part of every source was read, because an output can also be a source, and
 * because small floats must be rounded only once.  The last elements are
 * processed like all others, in a vector that is not full.
 */

#include <stdint.h>
#include <string.h>

#include "sim/exec/convert.h"
#include "sim/exec/reduce_levels.h"
#include "sim/exec/reduce_ops.h"

#ifndef LEVEL
#define LEVEL reduce_base
#define NAME "base"
#endif

/* ---- widening and narrowing --------------------------------------------- */

#define AS_IS(x, ...) (x)

/* A level whose CPU has instructions for f16 defines these operations itself,
 * for half a vector at a time. */
#ifndef LEVEL_F16
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

#define DEFINE_WIDEN_BYTES(name)                                               \
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
	}

DEFINE_WIDEN_BYTES(e4m3)
DEFINE_WIDEN_BYTES(e5m2)

#define DEFINE_NARROW_BYTES(name)                                              \
	INLINE u8v name##_narrow(struct quad x)                                \
	{                                                                      \
		return (u8v)(small_narrow(x.a, name##_format) |                \
		             small_narrow(x.b, name##_format) << 8 |           \
		             small_narrow(x.c, name##_format) << 16 |          \
		             small_narrow(x.d, name##_format) << 24);          \
	}

DEFINE_NARROW_BYTES(e4m3)
DEFINE_NARROW_BYTES(e5m2)

/* ---- memory ------------------------------------------------------------- */

/* Load and store part of a vector.  The rest of the loaded vector is zero. */
#ifndef LEVEL_PARTS
#define PART static __attribute__((noinline))

INLINE void part_load(void *x, const char *from, size_t size, size_t bytes)
{
	memset(x, 0, size);
	memcpy(x, from, bytes);
}

INLINE void part_store(char *to, const void *x, size_t size, size_t bytes)
{
	(void)size;
	memcpy(to, x, bytes);
}
#else
#define PART INLINE
#endif

/*
 * Define functions that load and store a vector at any address, or only its
 * first @bytes bytes.  A single element goes through a register, because a
 * vector that is read after it was written in parts causes a stall.  Whole
 * vectors are not copied with memcpy(), which gcc splits into halves for SSE2.
 */
#define DEFINE_ACCESS(vector, type)                                            \
	typedef vector __attribute__((aligned(1), may_alias)) vector##_at;     \
                                                                               \
	PART vector vector##_load_part(const char *from, size_t bytes)         \
	{                                                                      \
		vector x;                                                      \
                                                                               \
		part_load(&x, from, sizeof(x), bytes);                         \
		return x;                                                      \
	}                                                                      \
	PART void vector##_store_part(char *to, vector x, size_t bytes)        \
	{                                                                      \
		part_store(to, &x, sizeof(x), bytes);                          \
	}                                                                      \
	INLINE vector vector##_load(const char *from, size_t bytes)            \
	{                                                                      \
		type one;                                                      \
                                                                               \
		if (bytes == sizeof(vector))                                   \
			return *(const vector##_at *)from;                     \
		if (bytes == sizeof(one)) {                                    \
			memcpy(&one, from, sizeof(one));                       \
			return (vector){ one };                                \
		}                                                              \
		return vector##_load_part(from, bytes);                        \
	}                                                                      \
	INLINE void vector##_store(char *to, vector x, size_t bytes)           \
	{                                                                      \
		const type one = x[0];                                         \
                                                                               \
		if (bytes == sizeof(x))                                        \
			*(vector##_at *)to = x;                                \
		else if (bytes == sizeof(one))                                 \
			memcpy(to, &one, sizeof(one));                         \
		else                                                           \
			vector##_store_part(to, x, bytes);                     \
	}                                                                      \
	INLINE vector vector##_spread(const void *from)                        \
	{                                                                      \
		type one;                                                      \
                                                                               \
		memcpy(&one, from, sizeof(one));                               \
		/* Subtracting 0 keeps the sign of -0. */                      \
		return one - (vector){};                                       \
	}

DEFINE_ACCESS(u8v, uint8_t)
DEFINE_ACCESS(u16v, uint16_t)
DEFINE_ACCESS(u16h, uint16_t)
DEFINE_ACCESS(u32v, uint32_t)
DEFINE_ACCESS(u32h, uint32_t)
DEFINE_ACCESS(u64v, uint64_t)
DEFINE_ACCESS(f32v, float)
DEFINE_ACCESS(f64v, double)

/* ---- the loops ---------------------------------------------------------- */

/*
 * Define a reduction loop.  It processes two vectors at a time while at least
 * two are left.  For the common case of two ranks and one or two outputs, @n
 * and @outs are constants: the loops over ranks disappear, and pointers are not
 * read again after each store.
 */
#define DEFINE_FOLD(name, elements, widen, op, finish, narrow)                 \
	INLINE elements name##_at(const void *const src[], int n, size_t at,   \
	                          size_t take, const struct divisor *d)        \
	{                                                                      \
		__typeof__(widen((elements){})) r;                             \
                                                                               \
		(void)d;                                                       \
		r = widen(elements##_load((const char *)src[0] + at, take));   \
		for (int k = 1; k < n; k++)                                    \
			r = op(r, widen(elements##_load(                       \
					  (const char *)src[k] + at, take)));  \
		return narrow(finish(r, d));                                   \
	}                                                                      \
	INLINE size_t name##_pairs(void *const out[], int outs,                \
	                           const void *const src[], int n,             \
	                           size_t bytes, const struct divisor *d)      \
	{                                                                      \
		const size_t step = sizeof(elements);                          \
		size_t at = 0;                                                 \
                                                                               \
		for (; bytes - at >= 2 * step; at += 2 * step) {               \
			const elements x = name##_at(src, n, at, step, d);     \
			const elements y =                                     \
				name##_at(src, n, at + step, step, d);         \
                                                                               \
			for (int k = 0; k < outs; k++) {                       \
				char *const to = (char *)out[k] + at;          \
                                                                               \
				elements##_store(to, x, step);                 \
				elements##_store(to + step, y, step);          \
			}                                                      \
		}                                                              \
		return at;                                                     \
	}                                                                      \
	static void name(void *const out[], int outs, const void *const src[], \
	                 int n, size_t count)                                  \
	{                                                                      \
		const size_t bytes = count * sizeof((elements){}[0]);          \
		const size_t step = sizeof(elements);                          \
		const struct divisor d = divisor_of(n);                        \
		size_t at;                                                     \
                                                                               \
		if (n == 2 && outs <= 2) {                                     \
			const void *const from[] = { src[0], src[1] };         \
			void *const to[] = { out[0], out[outs - 1] };          \
                                                                               \
			at = outs == 2                                         \
			             ? name##_pairs(to, 2, from, 2, bytes, &d) \
			             : name##_pairs(to, 1, from, 2, bytes,     \
			                            &d);                       \
		} else {                                                       \
			at = name##_pairs(out, outs, src, n, bytes, &d);       \
		}                                                              \
		for (; at < bytes; at += step) {                               \
			const size_t left = bytes - at;                        \
			const size_t take = left < step ? left : step;         \
			const elements x = name##_at(src, n, at, take, &d);    \
                                                                               \
			for (int k = 0; k < outs; k++)                         \
				elements##_store((char *)out[k] + at, x,       \
				                 take);                        \
		}                                                              \
	}

/* Define a sum in which each source is first multiplied by its scalar and
 * rounded. */
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
		const size_t bytes = count * sizeof((elements){}[0]);          \
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

/* Define all operations of a type except max and min.  Averages might need
 * another vector type (@few). */
#define DEFINE_TYPE(name, elements, folded, widen, narrow, few, sum)           \
	DEFINE_FOLD(name##_fold_sum, elements, widen, folded##_sum, AS_IS,     \
	            narrow)                                                    \
	DEFINE_FOLD(name##_fold_prod, elements, widen, folded##_prod, AS_IS,   \
	            narrow)                                                    \
	DEFINE_FOLD(name##_fold_avg, few, widen, sum, folded##_divide, narrow) \
	DEFINE_SCALED(name##_fold_scaled, elements, widen, folded##_sum,       \
	              folded##_prod, narrow)

#define DEFINE_LARGE(name, elements, narrow, few, sum)                         \
	DEFINE_TYPE(name, elements, name, AS_IS, narrow, few, sum)             \
	DEFINE_FOLD(name##_fold_max, elements, AS_IS, name##_max, AS_IS,       \
	            narrow)                                                    \
	DEFINE_FOLD(name##_fold_min, elements, AS_IS, name##_min, AS_IS, narrow)

#define DEFINE_SMALL(name, folded, folded_as, ranked, elements)                \
	DEFINE_TYPE(name, folded, folded_as, name##_widen, name##_narrow,      \
	            folded, folded_as##_sum)                                   \
	DEFINE_FOLD(name##_fold_max, elements, name##_rank_max, ranked##_best, \
	            AS_IS, name##_best)                                        \
	DEFINE_FOLD(name##_fold_min, elements, name##_rank_min, ranked##_best, \
	            AS_IS, name##_best)

DEFINE_LARGE(i8, u8v, AS_IS, u8v, i8_sum)
DEFINE_LARGE(u8, u8v, AS_IS, u8v, u8_sum)
DEFINE_LARGE(i32, u32v, AS_IS, u32h, half_sum)
DEFINE_LARGE(u32, u32v, AS_IS, u32h, half_sum)
DEFINE_LARGE(i64, u64v, AS_IS, u64v, i64_sum)
DEFINE_LARGE(u64, u64v, AS_IS, u64v, u64_sum)
DEFINE_LARGE(f32, f32v, f32_one_nan, f32v, f32_sum)
DEFINE_LARGE(f64, f64v, f64_one_nan, f64v, f64_sum)
#ifdef LEVEL_F16
DEFINE_SMALL(f16, u16h, f32, ranked16, u16v)
#else
DEFINE_SMALL(f16, u16v, pair, ranked16, u16v)
#endif
DEFINE_SMALL(bf16, u16v, pair, ranked16, u16v)
DEFINE_SMALL(e4m3, u8v, quad, ranked8, u8v)
DEFINE_SMALL(e5m2, u8v, quad, ranked8, u8v)

#define REDUCE_TYPES(X)                                                        \
	X(ncclInt8, i8)                                                        \
	X(ncclUint8, u8)                                                       \
	X(ncclInt32, i32)                                                      \
	X(ncclUint32, u32)                                                     \
	X(ncclInt64, i64)                                                      \
	X(ncclUint64, u64)                                                     \
	X(ncclFloat16, f16)                                                    \
	X(ncclFloat32, f32)                                                    \
	X(ncclFloat64, f64)                                                    \
	X(ncclBfloat16, bf16)                                                  \
	X(ncclFloat8e4m3, e4m3)                                                \
	X(ncclFloat8e5m2, e5m2)

#define FOLDS(id, name)                                                        \
	[id] = {                                                               \
		[ncclSum] = name##_fold_sum, [ncclProd] = name##_fold_prod,    \
		[ncclMax] = name##_fold_max, [ncclMin] = name##_fold_min,      \
		[ncclAvg] = name##_fold_avg,                                   \
	},
#define SCALED(id, name) [id] = name##_fold_scaled,

/* clang-format off */
const struct reduce_level LEVEL = {
	.name = NAME,
	.fold = { REDUCE_TYPES(FOLDS) },
	.scaled = { REDUCE_TYPES(SCALED) },
};
/* clang-format on */

#endif
