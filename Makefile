# SPDX-License-Identifier: Apache-2.0
#
# Cohort: all the GPUs of a machine from one process, one thread per GPU
#
#   make              the command (build/cohort) and the libraries (build/lib)
#   make demo         build the command, and train a small model with four ranks
#   make test         the unit, api, sim and system tests; or another
#                     RUN of tests/matrix.txt: more (what .ci/run adds), stress (the stress
#                     programs alone)
#   make asan         the tests of C, Python and Rust with AddressSanitizer and UBSan
#   make tsan         the fault and stress programs with ThreadSanitizer
#   make fuzz         random programs for FUZZ_SECONDS, with libFuzzer (clang)
#   make test-gpu     the tests for a machine with GPUs, on its own NCCL and CUDA, or
#                     on those in GPU_LIBRARIES=FOLDER
#   make test-gpus    what only two or more GPUs can show: connections, NCCL's
#                     algorithms, bandwidths, respawns, one lost device
#   make test-nccl    the api and sim suites, the drill, the demo and stress
#                     programs on NVIDIA's NCCL and simulated devices, if that NCCL is
#                     here; NCCL_MODES=... are runs of tests/matrix.txt
#   make lint         style, headers, warnings, thread annotations, symbols, docs, manual
#   make bench        build and run the benchmarks; OVERLAP_FLAGS=... are for cohort
#                     bench overlap
#   make soak         eight ranks that call and sleep at random (SOAK_SEED) for
#                     SOAK_SECONDS: no verdict may come
#   make model        check the model of the abort protocol, if spin is installed
#   make install      into DESTDIR and prefix; make uninstall removes the files
#   make clean        remove build/
#   make help         print this
#
#   VARIANT=release|debug|asan|tsan|fuzz   what to build; each has its own folder
#   V=1  WERROR=1                     show commands; warnings are errors
#   -jN                               jobs at a time; one for each processor if not given
#   CC  CPPFLAGS  CFLAGS  LDFLAGS     your own flags come last
#   RUN=...  STRESS_SECONDS=1 (or rounds: 2000r)  TEST_TIMEOUT=600
#   FUZZ_SECONDS=60  FUZZ_FLAGS=...   for libFuzzer  CLANG=clang
#   SOAK_SECONDS=60  SOAK_SEED=1
#   NCCL_MODES=...
#   CUDA_HOME=...                     real headers for the ABI test
#   DESTDIR  prefix=/usr/local  bindir  includedir  libdir  datadir  mandir
#   bashdir  zshdir  fishdir          where shells look for completions
#
# Nothing but a C compiler is needed to build: CUDA and NCCL are opened at run
# time, and only the tests use Criterion.  With json-c, cohort trace and top read dumps;
# with ncurses, top draws on a terminal.

all:

# ---- variants ---------------------------------------------------------------

VARIANT ?= release
# Built in any folder, a release is the same to the bit.
flags.release := -O3 -g -ffile-prefix-map=$(CURDIR)=.
flags.debug   := -O0 -g
flags.asan    := -O2 -g -fno-omit-frame-pointer \
                 -fsanitize=address,undefined -fno-sanitize-recover=all
flags.tsan    := -O2 -g -fno-omit-frame-pointer -fsanitize=thread
# What make fuzz builds, with clang.
flags.fuzz    := -O2 -g -fno-omit-frame-pointer \
                 -fsanitize=address,undefined -fno-sanitize-recover=all
$(if $(flags.$(VARIANT)),,$(error VARIANT=$(VARIANT): no such variant, \
  there are release, debug, asan, tsan and fuzz))

dir := build/$(VARIANT)
out := $(if $(filter release,$(VARIANT)),build,$(dir))
lib := $(out)/lib

# ---- flags ------------------------------------------------------------------

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
            -Wpointer-arith -Wvla -Wcast-qual -Wundef
cppflags := -D_GNU_SOURCE -Iinclude -Isrc
# The arithmetic is specified: no fused multiply-add behind its back.
cflags   := -std=gnu11 $(flags.$(VARIANT)) $(warnings) \
            $(if $(filter 1,$(WERROR)),-Werror) \
            -fPIC -fvisibility=hidden -ffp-contract=off -pthread
libs     := -pthread -ldl -lm

# A library built with a sanitizer has symbols that only the program defines.
defs     := $(if $(findstring -fsanitize,$(cflags)),,-Wl,-z,defs)

OBJCOPY  ?= objcopy
compile   = $(CC) $(cppflags) $(cflags) -MMD -MP $(CPPFLAGS) $(CFLAGS)
link      = $(CC) $(cflags) $(CFLAGS) $(LDFLAGS)

Q   := $(if $(filter 1,$(V)),,@)
say  = $(if $(Q),@printf '  %-6s %s\n' '$1' '$2')

number   = $(shell awk '$$2 == "COHORT_VERSION_$1" { print $$3 }' \
             include/cohort/version.h)
major   := $(call number,MAJOR)
version := $(major).$(call number,MINOR).$(call number,PATCH)

# A prefix with the real headers of NCCL and CUDA, or nothing.
real_headers = $(and $(wildcard $1/include/nccl.h),\
                 $(wildcard $1/include/cuda_runtime_api.h),$1)
CUDA_HOME ?= $(firstword $(foreach p,/usr/local/cuda \
               $(wildcard /usr/local/cuda-*) /opt/cuda /usr build/wheels,\
               $(call real_headers,$p)))
cuda      := $(if $(CUDA_HOME),$(call real_headers,$(CUDA_HOME)))

# Libraries that the command uses if they are installed: libdw, for files and lines of
# stacks; json-c, for cohort trace and top; ncurses, for top on a terminal.  Files that use one
# are compiled again when it is installed or removed.
optional := $(strip $(foreach p,json-c libdw ncursesw,\
              $(shell pkg-config --exists $p 2>/dev/null && echo $p)))
with = $(if $(filter $1,$(optional)),$2 $(shell pkg-config --cflags $1))

.PHONY: all demo test test-gpu test-gpus test-nccl asan tsan soak fuzz \
        lint model bench install uninstall clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# In parallel, unless a -j says otherwise or make clean must be over first.
ifeq ($(MAKELEVEL)$(filter clean,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

include mk/sources.mk mk/build.mk mk/install.mk mk/tests.mk

clean:
	rm -rf build

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

-include $(patsubst %.o,%.d,$(library_objects) $(command_objects) \
  $(drop_in_objects) $(nvidia_objects) $(suite_objects) $(support_objects) $(fault:=.o) \
  $(gpu:=.o) $(soak:=.o) $(stress:=.o) \
  $(fuzz_objects) $(replay_objects) $(mutate_objects) \
  $(bench:=.o) $(bench_objects) $(system)/abi/main.o $(system)/abi/facts_ours.o \
  $(system)/abi/facts_real.o)
