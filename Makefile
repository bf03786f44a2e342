# SPDX-License-Identifier: Apache-2.0
#
# Build, test and install Cohort: all GPUs of a machine from one process
#
#   make              build the command (build/cohort) and the libraries (build/lib)
#   make demo         build the command, and train a small model with four ranks
#   make test         run the unit, api, sim and system tests, or another RUN of
#                     tests/matrix.txt: more (what .ci/run adds), stress (only the stress
#                     programs), soak (eight ranks that call and sleep at random for
#                     SOAK_SECONDS; there must be no verdict), model (the models of the
#                     abort protocol, with spin), packages (install in fresh roots of Debian
#                     with apt, pip, cargo and make), torch (the backend for
#                     PyTorch, also on PyTorch's own tests, with the Python in TORCH_PYTHON)
#   make asan         run the C, Python and Rust tests with AddressSanitizer and UBSan
#   make tsan         run the fault and stress programs with ThreadSanitizer
#   make aarch64      build for AArch64 with Debian's cross compiler, and run tests in QEMU
#   make fuzz         run random programs for FUZZ_SECONDS, with libFuzzer (clang)
#   make test-gpu     run the tests for a machine with GPUs, on its own NCCL and CUDA, or
#                     on those in GPU_LIBRARIES=FOLDER; with GPUS=all those that need two or
#                     more GPUs: connections, NCCL's algorithms, bandwidths, respawns, one
#                     lost device
#   make test-nccl    run the api and sim suites, the drill, the demo and stress programs
#                     on NVIDIA's NCCL and simulated devices, if that NCCL is installed;
#                     NCCL_MODES=... are runs of tests/matrix.txt
#   make lint         check style, headers, warnings, thread annotations, symbols, docs
#                     and manual
#   make bench        build and run the benchmarks; OVERLAP_FLAGS=... are for cohort
#                     bench overlap
#   make site         build the pages of docs/, the manual and the API as HTML in build/site;
#                     Sphinx comes from PyPI
#   make install      install into DESTDIR and prefix; make uninstall removes the files
#   make release      build what a release consists of into build/release-VERSION
#   make clean        remove build/
#   make help         print this
#
#   VARIANT=release|debug|asan|tsan|fuzz|aarch64   what to build; each has its own directory
#   V=1  WERROR=1                     show commands; warnings are errors
#   -jN                               jobs at a time; default one per processor
#   CC  CPPFLAGS  CFLAGS  LDFLAGS     your own flags come last
#   RUN=...  STRESS_SECONDS=1 (or rounds: 2000r)  TEST_TIMEOUT=600
#   FUZZ_SECONDS=60  FUZZ_FLAGS=...   for libFuzzer  CLANG=clang
#   SOAK_SECONDS=60  SOAK_SEED=1
#   NCCL_MODES=...
#   CUDA_HOME=...                     real headers for the ABI test
#   DESTDIR  prefix=/usr/local  bindir  includedir  libdir  datadir  mandir  docdir
#   examplesdir
#   bashdir  zshdir  fishdir          where shells look for completions
#
# Building needs only a C compiler: CUDA and NCCL are opened at run time, and only the
# tests use Criterion.  With json-c, cohort trace and top can read dumps; with ncurses,
# top can draw on a terminal.

all:

# ---- variants ---------------------------------------------------------------

VARIANT ?= release
# A release is bit-identical, whatever directory it is built in.
flags.release := -O3 -g -ffile-prefix-map=$(CURDIR)=.
flags.debug   := -O0 -g
flags.asan    := -O2 -g -fno-omit-frame-pointer \
                 -fsanitize=address,undefined -fno-sanitize-recover=all
flags.tsan    := -O2 -g -fno-omit-frame-pointer -fsanitize=thread
flags.aarch64 := $(flags.release)
# For make fuzz, which uses clang.
flags.fuzz    := -O2 -g -fno-omit-frame-pointer \
                 -fsanitize=address,undefined -fno-sanitize-recover=all
$(if $(flags.$(VARIANT)),,$(error VARIANT=$(VARIANT) is not a variant; \
  use release, debug, asan, tsan, fuzz or aarch64))

dir := build/$(VARIANT)
out := $(if $(filter release,$(VARIANT)),build,$(dir))
lib := $(out)/lib

# For make aarch64, which unpacks the libraries into this directory.
ifeq ($(VARIANT),aarch64)
sysroot := $(dir)/root
CC      := aarch64-linux-gnu-gcc --sysroot=$(CURDIR)/$(sysroot)
CXX     := aarch64-linux-gnu-g++ --sysroot=$(CURDIR)/$(sysroot)
PKG_CONFIG := env PKG_CONFIG_SYSROOT_DIR=$(sysroot) \
              PKG_CONFIG_LIBDIR=$(sysroot)/usr/lib/aarch64-linux-gnu/pkgconfig pkg-config
endif
PKG_CONFIG ?= pkg-config

# ---- flags ------------------------------------------------------------------

warnings := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
            -Wpointer-arith -Wvla -Wcast-qual -Wundef
cppflags := -D_GNU_SOURCE -Iinclude -Isrc
# -ffp-contract=off, because the specified arithmetic has no fused multiply-add.
cflags   := -std=gnu11 $(flags.$(VARIANT)) $(warnings) \
            $(if $(filter 1,$(WERROR)),-Werror) \
            -fPIC -fvisibility=hidden -ffp-contract=off -pthread
libs     := -pthread -ldl -lm

# With a sanitizer, the library has undefined symbols, which the program defines.
defs     := $(if $(findstring -fsanitize,$(cflags)),,-Wl,-z,defs)

# The tools that belong to the compiler, which may be for another machine.
tool      = $(shell $(CC) -print-prog-name=$1)
LD        = $(call tool,ld)
AR        = $(call tool,ar)
OBJCOPY   = $(call tool,objcopy)
compile   = $(CC) $(cppflags) $(cflags) -MMD -MP $(CPPFLAGS) $(CFLAGS)
link      = $(CC) $(cflags) $(CFLAGS) $(LDFLAGS)

Q   := $(if $(filter 1,$(V)),,@)
say  = $(if $(Q),@printf '  %-6s %s\n' '$1' '$2')

number   = $(shell awk '$$2 == "COHORT_VERSION_$1" { print $$3 }' \
             include/cohort/version.h)
major   := $(call number,MAJOR)
version := $(major).$(call number,MINOR).$(call number,PATCH)

# A prefix with the real headers of NCCL and CUDA, or empty.
real_headers = $(and $(wildcard $1/include/nccl.h),\
                 $(wildcard $1/include/cuda_runtime_api.h),$1)
CUDA_HOME ?= $(firstword $(foreach p,/usr/local/cuda \
               $(wildcard /usr/local/cuda-*) /opt/cuda /usr build/wheels,\
               $(call real_headers,$p)))
cuda      := $(if $(CUDA_HOME),$(call real_headers,$(CUDA_HOME)))

# Libraries that the command uses if they are installed: libdw for files and lines in stacks,
# json-c for cohort trace and top, ncurses for top on a terminal.  Files that use one are
# recompiled when it is installed or removed.
optional := $(strip $(foreach p,json-c libdw ncursesw,\
              $(shell $(PKG_CONFIG) --exists $p 2>/dev/null && echo $p)))
with = $(if $(filter $1,$(optional)),$2 $(shell $(PKG_CONFIG) --cflags $1))

.PHONY: all demo test test-gpu test-nccl asan tsan aarch64 fuzz \
        lint bench site install uninstall release clean help FORCE
.SECONDARY:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Build in parallel, unless -j is given, or make clean must finish before other targets.
cores := $(shell nproc 2>/dev/null || echo 1)
ifeq ($(MAKELEVEL)$(filter clean,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(cores)
endif

include mk/sources.mk mk/build.mk mk/install.mk mk/tests.mk

# Say how long to wait for a newcomer's first targets.
takes.demo := half a minute
takes.test := 5 minutes
ifeq ($(MAKELEVEL)$(VARIANT)$(RUN),0releaserelease)
$(foreach goal,$(filter demo test,$(MAKECMDGOALS)),\
  $(info make $(goal): about $(takes.$(goal)) on two cores if nothing is built yet; here are $(cores)))
endif

clean:
	rm -rf build

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

-include $(patsubst %.o,%.d,$(library_objects) $(command_objects) \
  $(drop_in_objects) $(nvidia_objects) $(shim_objects) $(audit_object) $(suite_objects) $(support_objects) $(fault:=.o) \
  $(gpu:=.o) $(soak:=.o) $(stress:=.o) \
  $(fuzz_objects) $(replay_objects) $(mutate_objects) \
  $(bench:=.o) $(bench_objects) $(system)/abi/main.o $(system)/abi/facts_ours.o \
  $(system)/abi/facts_real.o)
