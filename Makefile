# SPDX-License-Identifier: Apache-2.0
#
# Cohort: all the GPUs of a machine from one process, one thread per GPU
#
#   make              the command (build/cohort) and the libraries (build/lib)
#   make demo         build the command, train a small model with four ranks
#   make test         unit, api, platform, fault, stress, abi and foreign tests
#   make asan         the C tests with AddressSanitizer, leaks and UBSan
#   make tsan         the fault and stress programs with ThreadSanitizer
#   make stress       the stress programs alone, STRESS_SECONDS each; if it is set,
#                     those of races STRESS_ROUNDS rounds each
#   make fuzz         random calls for FUZZ_SECONDS, with libFuzzer (clang)
#   make test-gpu     what a machine with GPUs can test on its own NCCL and CUDA, or
#                     on those in GPU_LIBRARIES=FOLDER
#   make lint         style, headers, warnings, thread annotations, symbols, docs
#   make bench        build and run the benchmarks; OVERLAP_FLAGS=... of cohort
#                     bench overlap
#   make soak         eight ranks that call and sleep at random for SOAK_SECONDS, by
#                     SOAK_SEED: no verdict may come of it
#   make device       ranks that launch together on devices that wait for each other:
#                     the demo, the drill, soak, and memory operations at random for
#                     DEVICE_SECONDS; the api suite on the platforms and devices on
#                     which make test does not run it; or DEVICE_ROUNDS of memory
#                     operations without the suite
#   make drill-load   cohort drill DRILL_ROUNDS times beside two busy processes, for
#                     DRILL_SECONDS at the most
#   make bench-peers  all_reduce beside Open MPI and MPICH, if they are there;
#                     PEER_FLAGS=... of bench/peers.py
#   make bench-average  gradients of models beside them; AVERAGE_FLAGS=... of
#                     bench/average.py
#   make model        check the model of the abort protocol, if spin is there
#   make install      into DESTDIR and prefix; make uninstall takes it back
#   make deps         install Criterion, which the tests need, if it is missing
#   make clean        remove build/
#   make help         print this
#
#   VARIANT=release|debug|asan|tsan|fuzz   what to build; all live side by side
#   V=1  WERROR=1                     show commands; warnings are errors
#   CC  CPPFLAGS  CFLAGS  LDFLAGS     yours, added last
#   lto=                              compile the library's files one by one
#   STRESS_SECONDS=1  STRESS_ROUNDS=...  TEST_TIMEOUT=600
#   FUZZ_SECONDS=60  FUZZ_FLAGS=...   of libFuzzer  CLANG=clang
#   SOAK_SECONDS=60  SOAK_SEED=1  DRILL_ROUNDS=20  DRILL_SECONDS=1200
#   DEVICE_SECONDS=30  DEVICE_ROUNDS=...
#   CUDA_HOME=...                     real headers for the ABI test
#   DESTDIR  prefix=/usr/local  bindir  includedir  libdir
#
# Nothing but a C compiler is needed to build: CUDA and NCCL are opened at run
# time, and only the tests use Criterion.  With json-c, cohort trace reads dumps.

all:

# ---- variants ---------------------------------------------------------------

VARIANT ?= release
flags.release := -O3 -g
flags.debug   := -O0 -g
flags.asan    := -O2 -g -fno-omit-frame-pointer \
                 -fsanitize=address,undefined -fno-sanitize-recover=all
flags.tsan    := -O2 -g -fno-omit-frame-pointer -fsanitize=thread
# What make fuzz builds, with clang.
flags.fuzz    := -O2 -g -fno-omit-frame-pointer \
                 -fsanitize=address,undefined -fno-sanitize-recover=all
$(if $(flags.$(VARIANT)),,$(error VARIANT=$(VARIANT): no such variant, \
  there are release, debug, asan, tsan and fuzz))

# Criterion does not run under ThreadSanitizer; the foreign programs are not
# sanitized.
rings.release := unit api platform fault stress device corpus abi foreign
rings.debug   := unit api platform fault stress corpus abi
rings.asan    := unit api platform fault stress together corpus
rings.tsan    := fault stress together corpus

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

# The library is compiled as a whole where the compiler can make one object of it:
# a call goes through sixty small functions of thirty files.
lto := -flto=auto -flinker-output=nolto-rel
lto := $(and $(filter release,$(VARIANT)),\
         $(shell echo 'int i;' | $(CC) $(CFLAGS) $(lto) -r -nostdlib -x c \
           -o /dev/null - >/dev/null 2>&1 && echo '$(lto)'))

# Sanitizers leave symbols to be found in the program.
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
               $(wildcard /usr/local/cuda-*) /opt/cuda /usr,\
               $(call real_headers,$p)))
cuda      := $(if $(CUDA_HOME),$(call real_headers,$(CUDA_HOME)))

# What the command uses where it is: libdw, for files and lines of stacks; json-c,
# for cohort trace.  Compiled with it again when it comes, or goes.
optional := $(strip $(foreach p,json-c libdw,\
              $(shell pkg-config --exists $p 2>/dev/null && echo $p)))
with = $(if $(filter $1,$(optional)),$2 $(shell pkg-config --cflags $1))

# ---- sources ----------------------------------------------------------------

library_sources := \
  src/api/abort.c src/api/batch.c src/api/bucket.c src/api/collective.c src/api/comm.c \
  src/api/completion.c src/api/deadline.c src/api/dump.c src/api/generation.c \
  src/api/group.c src/api/group_memory.c src/api/host_memory.c src/api/join.c src/api/memory.c src/api/note.c src/api/options.c \
  src/api/redop.c src/api/reducer.c src/api/reducer_cancel.c \
  src/api/reducer_finish.c src/api/reducer_found.c \
  src/api/reducer_launch.c src/api/reducer_memory.c \
  src/api/reducer_plan.c src/api/reducer_room.c \
  src/api/reducer_shard.c src/api/reducer_step.c \
  src/api/register.c src/api/respawn.c src/api/snapshot.c src/api/split.c \
  src/api/staging.c src/api/stats.c src/api/worker.c \
  src/base/backoff.c src/base/clock.c src/base/environment.c \
  src/base/json.c src/base/outfile.c src/base/pages.c \
  src/base/process.c src/base/status.c src/base/text.c src/base/thread.c \
  src/core/agree.c src/core/awaited.c src/core/batch.c \
  src/core/call.c src/core/capture.c src/core/cause.c src/core/clique.c \
  src/core/config.c src/core/connect.c src/core/end.c src/core/explain.c src/core/family.c src/core/gate.c \
  src/core/known.c src/core/many.c src/core/native.c src/core/op.c src/core/outline.c \
  src/core/owner.c src/core/pair.c src/core/reaper.c \
  src/core/recorder.c src/core/redop.c src/core/register.c src/core/split.c \
  src/core/staging.c src/core/staging_launch.c src/core/stream.c \
  src/core/submit.c src/core/tag.c src/core/ticket.c src/core/together.c src/core/window.c src/guard/chrome.c src/guard/circle.c \
  src/guard/crossing.c src/guard/cycle.c src/guard/due.c src/guard/dump.c \
  src/guard/dumper.c src/guard/estimate.c src/guard/flight.c src/guard/guard.c \
  src/guard/notifier.c src/guard/observe.c src/guard/page.c \
  src/guard/phrase.c src/guard/prober.c src/guard/snapshot.c \
  src/guard/stack.c src/guard/stacker.c src/guard/stall.c \
  src/guard/stall_pair.c src/guard/stops.c src/guard/sweep.c src/guard/symbol.c \
  src/guard/transfer.c \
  src/guard/trigger.c \
  src/guard/verdict.c src/guard/watchdog.c src/platform/gpu.c \
  src/platform/gpu_event.c src/platform/gpu_load.c src/platform/gpu_mark.c \
  src/platform/gpu_versions.c src/platform/host/allocate.c \
  src/platform/host/background.c src/platform/host/capture.c \
  src/platform/host/collective.c src/platform/host/comm.c \
  src/platform/host/config.c src/platform/host/copy.c \
  src/platform/host/copy2d.c src/platform/host/device.c \
  src/platform/host/device_calls.c src/platform/host/drive.c \
  src/platform/host/driver.c \
  src/platform/host/end.c src/platform/host/enqueue.c \
  src/platform/host/error.c src/platform/host/even.c src/platform/host/event.c \
  src/platform/host/fault.c src/platform/host/graph.c \
  src/platform/host/group.c src/platform/host/host.c src/platform/host/init.c \
  src/platform/host/ipc.c src/platform/host/join.c src/platform/host/kept.c src/platform/host/launch.c \
  src/platform/host/mark.c src/platform/host/meet.c \
  src/platform/host/memory.c src/platform/host/minder.c src/platform/host/own.c \
  src/platform/host/p2p.c src/platform/host/piece.c src/platform/host/pool.c \
  src/platform/host/properties.c src/platform/host/redop.c \
  src/platform/host/reduce.c src/platform/host/reduce_avx2.c \
  src/platform/host/reduce_avx512.c src/platform/host/reduce_base.c \
  src/platform/host/register.c src/platform/host/round.c \
  src/platform/host/simulate.c src/platform/host/split.c \
  src/platform/host/stream.c src/platform/host/stream_calls.c \
  src/platform/host/stream_info.c src/platform/host/stream_thread.c \
  src/platform/host/strict.c src/platform/host/strict_calls.c src/platform/host/sync.c \
  src/platform/host/tiny.c \
  src/platform/launch.c src/platform/need.c src/platform/select.c src/platform/sim.c
command_sources := \
  src/cli/average.c src/cli/average_report.c src/cli/average_run.c \
  src/cli/average_shapes.c \
  src/cli/bench.c src/cli/bench_call.c src/cli/bench_data.c \
  src/cli/bench_help.c src/cli/bench_lane.c src/cli/bench_limit.c src/cli/bench_meet.c \
  src/cli/bench_options.c src/cli/bench_plan.c src/cli/bench_plot.c \
  src/cli/bench_report.c src/cli/bench_run.c src/cli/cli.c src/cli/demo.c \
  src/cli/digits.c src/cli/digits_data.S src/cli/drill.c \
  src/cli/drill_alone.c src/cli/drill_calls.c src/cli/drill_cell.c src/cli/drill_judge.c \
  src/cli/drill_ranks.c src/cli/drill_remote.c src/cli/drill_report.c \
  src/cli/drill_table.c src/cli/drill_victim.c src/cli/info.c \
  src/cli/main.c src/cli/mlp.c src/cli/overlap.c \
  src/cli/overlap_report.c src/cli/overlap_run.c src/cli/progress.c \
  src/cli/report.c \
  src/cli/run.c src/cli/supervise.c src/cli/symbols.c src/cli/trace.c \
  src/cli/trace_entry.c src/cli/trace_figures.c src/cli/trace_read.c \
  src/cli/trace_report.c src/cli/trace_value.c \
  src/cli/train.c
# The drop-in libraries: those of the host platform's sources, and forwarders.
drop_in_sources := \
  src/platform/dropin/absent.c src/platform/dropin/cudart.c \
  src/platform/dropin/host.c src/platform/dropin/kernels.c \
  src/platform/dropin/marker.c src/platform/dropin/nccl.c \
  src/platform/dropin/unsupported.c
public_headers := cohort.h reducer.h sim.h version.h

unit_sources := \
  tests/unit/backoff.c tests/unit/bench.c tests/unit/bucket.c \
  tests/unit/clock.c tests/unit/drill.c tests/unit/estimate.c tests/unit/half.c \
  tests/unit/json.c tests/unit/need.c tests/unit/notifier.c tests/unit/op.c \
  tests/unit/recorder.c tests/unit/reduce.c \
  tests/unit/reduce_levels.c tests/unit/stack.c tests/unit/stops.c tests/unit/tag.c \
  tests/unit/text.c tests/unit/thread.c \
  tests/unit/verdict.c tests/unit/verdict_random.c tests/unit/window.c
api_sources := \
  tests/api/abort.c tests/api/adaptive.c tests/api/agree.c tests/api/batch.c tests/api/capture.c \
  tests/api/comm.c tests/api/config.c tests/api/differential.c \
  tests/api/dump.c tests/api/enqueue.c \
  tests/api/group.c tests/api/group_calls.c tests/api/guard.c tests/api/host_memory.c tests/api/hung.c \
  tests/api/host_memory_ends.c tests/api/host_memory_order.c tests/api/join.c tests/api/known.c tests/api/many.c tests/api/many_ways.c \
  tests/api/neighbours.c tests/api/p2p.c tests/api/platform.c \
  tests/api/quiet.c tests/api/redop.c tests/api/reducer.c \
  tests/api/reducer_cancel.c tests/api/reducer_ends.c tests/api/reducer_flush.c tests/api/reducer_found.c \
  tests/api/reducer_progress.c tests/api/reducer_shard.c tests/api/reducer_weights.c \
  tests/api/register.c tests/api/respawn.c \
  tests/api/run.c \
  tests/api/split.c tests/api/stack.c tests/api/stats.c \
  tests/api/contexts.c tests/api/stopped.c tests/api/stream_device.c tests/api/stuck.c tests/api/stuck_device.c tests/api/sync_device.c tests/api/tag.c \
  tests/api/ticket.c \
  tests/api/snapshot.c tests/api/together.c tests/api/waits.c tests/api/watch.c tests/api/window.c
platform_sources := \
  tests/platform/arguments.c tests/platform/calls.c tests/platform/capture.c \
  tests/platform/collective.c tests/platform/comm.c tests/platform/config.c \
  tests/platform/copy2d.c tests/platform/device.c \
  tests/platform/differential.c tests/platform/ends.c tests/platform/entry.c \
  tests/platform/fault.c \
  tests/platform/group.c tests/platform/join.c tests/platform/mark.c \
  tests/platform/matching.c tests/platform/memory.c tests/platform/minder.c \
  tests/platform/neighbours.c tests/platform/nonblocking.c \
  tests/platform/order.c tests/platform/p2p.c \
  tests/platform/properties.c tests/platform/redop.c tests/platform/register.c \
  tests/platform/relief.c \
  tests/platform/revoke.c tests/platform/shrink.c tests/platform/simulate.c \
  tests/platform/split.c tests/platform/stream.c tests/platform/stream_info.c \
  tests/platform/strict.c tests/platform/strict_calls.c tests/platform/sync.c
support_sources := \
  tests/support/buffer.c tests/support/calls.c tests/support/chance.c tests/support/contest.c \
  tests/support/crew.c tests/support/failing.c \
  tests/support/fill.c tests/support/heap.c tests/support/ledger.c tests/support/model.c \
  tests/support/native.c tests/support/place.c tests/support/ranks.c \
  tests/support/reference.c tests/support/scenario.c tests/support/silent.c tests/support/stress.c \
  tests/support/stuck.c tests/support/verdicts.c tests/support/witness.c
# In each suite itself, as these need Criterion.
skip_sources := tests/support/doomed.c tests/support/skip.c
fault_tests := gradients memory native steady
stress_tests := collectives generations joins memory owner recorder recycled reducer shared stack streams \
                turns
# Those of which each round opens a group and ends it.
race_tests := abort agree buffers dumps exits flush handles host_memory hung lives messages mix prober \
              respawn siblings snapshots splits stalls together windows
fuzz_sources := \
  tests/fuzz/calls.c tests/fuzz/captured.c tests/fuzz/children.c \
  tests/fuzz/cuda.c tests/fuzz/extra.c tests/fuzz/life.c \
  tests/fuzz/partial.c tests/fuzz/plan.c tests/fuzz/plan_life.c \
  tests/fuzz/reaper.c tests/fuzz/registered.c tests/fuzz/run.c \
  tests/fuzz/scenes.c tests/fuzz/show.c tests/fuzz/target.c \
  tests/fuzz/wrong.c tests/fuzz/wrong_cuda.c tests/fuzz/wrong_nccl.c
replay_sources := tests/fuzz/replay.c
mutate_sources := tests/fuzz/mutate.c
gpu_tests := init lost pair
bench_programs := reduce walk together
bench_support  := empty ways

objects = $(patsubst %,$(dir)/%.o,$(basename $1))

library_objects := $(call objects,$(library_sources))
command_objects := $(call objects,$(command_sources))
suite_objects   := $(call objects,$(unit_sources) $(api_sources) \
                     $(platform_sources) $(skip_sources))
support_objects := $(call objects,$(support_sources))
fuzz_objects    := $(call objects,$(fuzz_sources))
replay_objects  := $(call objects,$(replay_sources))
mutate_objects  := $(call objects,$(mutate_sources))

# ---- objects ----------------------------------------------------------------

.PHONY: all demo test test-gpu asan tsan stress soak device drill-load fuzz fuzz-here lint model bench bench-peers bench-average install \
        uninstall deps clean help criterion FORCE
.SECONDARY:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# What objects were compiled with; rewritten, and they with it, on change.
quote     = '$(subst ','\'',$1)'
all_flags = $(compile) $(lto) $(LDFLAGS) $(cuda)
$(dir)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' $(call quote,$(all_flags)) | \
	  cmp -s - $@ || printf '%s\n' $(call quote,$(all_flags)) >$@

$(dir)/%.o: %.c $(dir)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(compile) $(extra) -c -o $@ $<

$(dir)/%.o: %.S $(dir)/flags
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(compile) -Isrc/cli -c -o $@ $<

# The fuzzer shall look for new ways through the library, not through its tests.
$(library_objects): extra = $(filter -flto%,$(lto)) \
                            $(if $(filter fuzz,$(VARIANT)),\
                              -fsanitize=fuzzer-no-link)

$(dir)/src/cli/digits_data.o: src/cli/data/digits.csv

# ---- the command and the library --------------------------------------------

shared  := $(lib)/libcohort.so.$(version)
library := $(shared) $(lib)/libcohort.so.$(major) $(lib)/libcohort.so \
           $(lib)/libcohort.a $(lib)/cohort.pc

all: $(out)/cohort $(library)

demo: $(out)/cohort
	$(Q)$< demo

$(dir)/src/cli/symbols.o: extra = $(call with,libdw,-DHAVE_LIBDW)
json_objects := $(addprefix $(dir)/src/cli/trace_,entry.o read.o value.o)
$(json_objects): extra = $(call with,json-c,-DHAVE_JSON_C)
$(dir)/src/cli/symbols.o $(json_objects): $(dir)/optional
$(dir)/optional: FORCE
	@mkdir -p $(@D)
	@echo '$(optional)' | cmp -s - $@ || echo '$(optional)' >$@

# Each file has had its warnings; of what is seen through several, they are wrong.
whole := $(dir)/whole.o
$(whole): $(library_objects)
	$(call say,LINK,$@)
	$(Q)$(if $(lto),$(CC) $(cflags) $(CFLAGS) $(lto) -w -nostdlib,$(LD)) \
	  -r -o $@ $^

$(out)/cohort: $(command_objects) $(whole)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^ \
	  $(if $(optional),$(shell pkg-config --libs $(optional))) $(libs)

$(shared): $(whole) src/cohort.map
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(link) -shared -Wl,-soname,libcohort.so.$(major) -Wl,-z,nodelete \
	  $(defs) -Wl,--version-script,src/cohort.map -o $@ $< $(libs)

$(lib)/libcohort.so.$(major) $(lib)/libcohort.so: $(shared)
	$(Q)ln -sf $(<F) $@

# One object with hidden symbols made local: our short internal names cannot
# collide with a program's.
$(lib)/libcohort.a: $(whole)
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) --localize-hidden $< $(dir)/libcohort.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(dir)/libcohort.o

$(lib)/cohort.pc: src/cohort.pc.in include/cohort/version.h FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@prefix@|$(prefix)|' -e 's|@includedir@|$(includedir)|' \
	  -e 's|@libdir@|$(libdir)|' -e 's|@version@|$(version)|' \
	  -e 's|@libs@|$(libs)|' $< >$@

# ---- the drop-in libraries --------------------------------------------------

drop_in := $(lib)/drop-in
d       := $(dir)/src/platform/dropin

cudart_majors := 12 13
host_library  := $(drop_in)/libcohort-host.so
nccl_library  := $(drop_in)/libnccl.so.2
cudart        := $(cudart_majors:%=$(drop_in)/libcudart.so.%)
drop_in_links := $(drop_in)/libnccl.so $(drop_in)/libcudart.so
drop_ins      := $(host_library) $(nccl_library) $(cudart) $(drop_in_links)

host_objects   := $(filter $(dir)/src/base/% $(dir)/src/platform/host/% $(dir)/src/platform/launch.o,\
                    $(library_objects)) $d/host.o
nccl_objects   := $d/nccl.o $d/marker.o
cudart_objects := $d/kernels.o $d/marker.o $d/unsupported.o
# Of these there is one for each major.
major_objects  := $(foreach m,$(cudart_majors),$d/absent.$m.o $d/cudart.$m.o)
drop_in_objects := $(host_objects) $(nccl_objects) $(cudart_objects) \
                   $(major_objects)

all: $(drop_ins)

$(host_library): $(host_objects)
$(nccl_library): $(nccl_objects) $(host_library)
$(cudart): $(drop_in)/libcudart.so.%: $d/absent.%.o $d/cudart.%.o \
                                      $(cudart_objects) $(host_library)

# What a library exports is in a file of its name.  The host platform's is found
# beside the others.
$(host_library) $(nccl_library) $(cudart): $(drop_in)/%: \
                                           src/platform/dropin/%.map
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(link) -shared -Wl,-soname,$(@F) -Wl,-z,nodelete $(defs) \
	  -Wl,--version-script,$< -Wl,--enable-new-dtags \
	  -Wl,-rpath,'$$ORIGIN' -o $@ $(filter %.o %.so,$^) $(libs)

define compile_major
	$(call say,CC,$< ($(@F)))
	@mkdir -p $(@D)
	$(Q)$(compile) -DCUDART=$(patsubst $d/$*.%.o,%,$@) -c -o $@ $<
endef
$(filter %.12.o,$(major_objects)): $d/%.12.o: src/platform/dropin/%.c \
                                             $(dir)/flags
	$(compile_major)
$(filter %.13.o,$(major_objects)): $d/%.13.o: src/platform/dropin/%.c \
                                             $(dir)/flags
	$(compile_major)

$(drop_in)/libnccl.so: $(nccl_library)
	$(Q)ln -sf $(<F) $@

$(drop_in)/libcudart.so: $(drop_in)/libcudart.so.13
	$(Q)ln -sf $(<F) $@

# ---- tests ------------------------------------------------------------------

STRESS_SECONDS ?= 1
race_length    := $(if $(STRESS_ROUNDS),$(STRESS_ROUNDS)r,$(STRESS_SECONDS))

tests    := $(dir)/tests
support  := $(tests)/support.a
unit     := $(tests)/unit/unit
api      := $(tests)/api/api
platform := $(tests)/platform/platform
fault    := $(fault_tests:%=$(tests)/fault/%)
stress   := $(stress_tests:%=$(tests)/stress/%)
races    := $(race_tests:%=$(tests)/stress/%)
gpu      := $(gpu_tests:%=$(tests)/gpu/%)
soak     := $(tests)/soak/soak
corpus   := $(tests)/fuzz/replay
fuzz     := $(tests)/fuzz/platform
abi      := $(tests)/abi/abi
walk     := $(dir)/bench/walk
foreign  := $(out)/cohort $(library) $(drop_ins) $(gpu) $(walk)

# Of these the drop-in libraries are tried with.
foreign_programs := abort.c exchange.c graph.c groups.c hello.cc nonblocking.c \
  registered.c ring.c runtime.c scaled.c split.c threads.c

# How each ring is run, one quoted command per program.  Criterion 2.4.1 loses
# count when two tests at a time run into their timeouts: one at a time.
# What stands on the host platform has to be legal NCCL, which strict mode checks;
# but what that keeps, AddressSanitizer could not find used after it was freed.
strict       := $(if $(filter asan,$(VARIANT)),,env COHORT_HOST_STRICT=1 )
# And the gpu platform stands on the drop-in libraries.
on_gpu       := env COHORT_PLATFORM=gpu COHORT_GPU_LIBRARIES=$(drop_in)
# With devices that wait for each other, as GPUs do.
on_device    := env COHORT_HOST_SYNC=device COHORT_LAUNCH=together
run.unit     := '$(unit) --jobs=1 --verbose'
run.api      := '$(strict)$(api) --jobs=1 --verbose' \
                '$(on_device) $(strict)$(on_gpu) $(api) --jobs=1 --verbose'
run.platform := '$(platform) --jobs=1 --verbose' \
                '$(on_gpu) $(platform) --jobs=1 --verbose'
run.fault    := $(fault:%='$(strict)%')
run.stress   := $(patsubst %,'$(strict)% $(STRESS_SECONDS)',$(stress)) \
                $(patsubst %,'$(strict)% $(race_length)',$(races))
run.corpus   := '$(strict)$(corpus) tests/fuzz/corpus'
run.abi      := '$(abi)'
# Those of groups that end, where ranks launch together; the programs mix and lives call
# native functions, which launch at once anyway.
run.together := $(patsubst %,'env COHORT_LAUNCH=together $(strict)$(tests)/stress/% \
                   $(race_length)',abort siblings splits)
# The fault and stress programs on devices that wait for each other; what cannot run
# there is skipped, and says why.
run.device   := $(fault:%='$(on_device) $(strict)%') \
                $(stress:%='$(on_device) $(strict)% $(STRESS_SECONDS)') \
                $(races:%='$(on_device) $(strict)% $(race_length)')
run.foreign  := 'tests/foreign/header.sh tests/foreign/header.c $(lib)' \
                'tests/foreign/header.sh tests/foreign/header.cc $(lib)' \
                'tests/foreign/symbols.sh $(lib) $(cuda)' \
                'tests/foreign/install.sh' \
                'tests/foreign/loader.sh $(out)/cohort' \
                'tests/foreign/real.sh $(out)/cohort $(lib) $(cuda)' \
                'tests/foreign/gpu.sh $(out)/cohort $(drop_in) $(walk) \
                   $(gpu)' \
                'tests/foreign/command.sh $(out)/cohort' \
                'tests/foreign/average.sh $(out)/cohort $(drop_in)' \
                'tests/foreign/overlap.sh $(out)/cohort $(drop_in)' \
                'tests/foreign/drill.sh $(out)/cohort' \
                'tests/foreign/dump.sh $(out)/cohort $(lib)' \
                'tests/foreign/hang.sh $(out)/cohort' \
                'python3 tests/foreign/trace.py $(out)/cohort' \
                'python3 tests/foreign/dump_mutations.py $(out)/cohort' \
                'python3 tests/foreign/debuginfod.py $(out)/cohort' \
                'tests/foreign/peers.sh $(out)/cohort' \
                $(foreach p,$(foreign_programs),\
                  'tests/foreign/dropin.sh tests/foreign/programs/$p \
                   $(out) $(cuda)') \
                'tests/foreign/standin.sh $(lib) $(out)/cohort' \
                'tests/foreign/readme.sh $(lib)' \
                'tests/foreign/examples.sh $(lib)' \
                'tests/foreign/bare.sh' \
                'python3 tests/foreign/python.py $(shared)'
run = CC='$(CC)' CXX='$(CXX)' scripts/run-tests.sh

# The suites need Criterion, the rest nothing but a compiler.  Those that cannot be
# built are skipped.
suites := $(foreach ring,$(filter unit api platform,$(rings.$(VARIANT))),$($(ring)))
test: $(if $(filter api,$(rings.$(VARIANT))),$(drop_ins)) \
      $(filter-out $(suites),$(foreach ring,$(rings.$(VARIANT)),$($(ring)))) $(races)
	$(Q)$(if $(suites),CC='$(CC)' scripts/deps.sh || :)
	$(Q)$(if $(suites),! CC='$(CC)' scripts/deps.sh --check || \
	  $(MAKE) --no-print-directory $(suites))
	$(Q)$(if $(suites),CC='$(CC)' scripts/deps.sh --check || \
	  export TEST_NO_CRITERION='$(suites)'; )$(run) \
	  $(foreach ring,$(rings.$(VARIANT)),$(run.$(ring)))

test-gpu: $(out)/cohort $(gpu) $(walk)
	$(Q)! CC='$(CC)' scripts/deps.sh >/dev/null 2>&1 || \
	  $(MAKE) --no-print-directory $(api) $(platform)
	$(Q)$(if $(GPU_LIBRARIES),COHORT_GPU_LIBRARIES='$(abspath $(GPU_LIBRARIES))') \
	  scripts/test-gpu.sh $(out)/cohort '$(api) $(platform)' '$(gpu)' \
	  '$(walk) --gpu --rounds 51'

stress: $(stress) $(races)
	$(Q)$(run) $(run.stress)

SOAK_SECONDS ?= 60
SOAK_SEED    ?= 1
soak: $(soak)
	$(Q)TEST_SHOW=soak TEST_TIMEOUT=$$(($(SOAK_SECONDS) + 120)) \
	  $(run) '$(strict)$(soak) $(SOAK_SECONDS) $(SOAK_SEED)'

# Ranks come late by up to 10 ms.  How late verdicts are is judged elsewhere.
DEVICE_SECONDS ?= 30
device_length  := $(if $(DEVICE_ROUNDS),$(DEVICE_ROUNDS)r,$(DEVICE_SECONDS))
device: $(out)/cohort $(soak) $(tests)/stress/memory
	$(Q)! CC='$(CC)' scripts/deps.sh || $(MAKE) --no-print-directory $(api)
	$(Q)CC='$(CC)' scripts/deps.sh --check || \
	  export TEST_NO_CRITERION='$(api)'; $(run) $(if $(DEVICE_ROUNDS),,\
	    '$(on_device) $(strict)$(api) --jobs=1 --verbose' \
	    '$(strict)$(on_gpu) $(api) --jobs=1 --verbose' \
	    'env COHORT_LAUNCH=together $(strict)$(api) --jobs=1 --verbose') \
	  '$(on_device) $(strict)$(tests)/stress/memory $(device_length) 10000' \
	  '$(on_device) $(strict)$(soak) $(DEVICE_SECONDS) $(SOAK_SEED)' \
	  '$(on_device) $< demo --verify' \
	  $(foreach n,2 4 8,'$(on_device) $< drill --ranks $n --slack 1000')

DRILL_ROUNDS  ?= 20
DRILL_SECONDS ?= 1200
drill-load: $(out)/cohort
	$(Q)TEST_SHOW=drill TEST_TIMEOUT=$$(($(DRILL_SECONDS) + 300)) \
	  $(run) 'scripts/drill-load.sh $< $(DRILL_ROUNDS) $(DRILL_SECONDS)'

# With clang, whatever the rest is built with.
CLANG        ?= clang
FUZZ_SECONDS ?= 60
fuzz:
	$(Q)scripts/fuzz.sh --check '$(CLANG)'
	$(Q)$(MAKE) --no-print-directory VARIANT=fuzz CC='$(CLANG)' fuzz-here

fuzz-here: $(fuzz)
	$(Q)scripts/fuzz.sh $< tests/fuzz/corpus $(FUZZ_SECONDS) $(FUZZ_FLAGS)

asan tsan:
	$(Q)$(MAKE) --no-print-directory VARIANT=$@ test

deps criterion:
	$(Q)CC='$(CC)' scripts/deps.sh

# Looked up when a recipe runs, after Criterion was installed.
criterion_cflags = $(shell pkg-config --cflags criterion 2>/dev/null)
criterion_libs   = $(or $(shell pkg-config --libs criterion 2>/dev/null),\
                     -lcriterion)

$(tests)/%.o: extra = -Itests
$(suite_objects): extra = -Itests $(criterion_cflags)
$(suite_objects): | criterion

# What measures is measured, too.
$(unit): $(call objects,$(unit_sources)) \
         $(filter-out %/bench.o,$(filter $(dir)/src/cli/bench%,$(command_objects))) \
         $(call objects,src/cli/cli.c src/cli/drill_table.c src/cli/progress.c)
$(api): $(call objects,$(api_sources))
$(platform): $(call objects,$(platform_sources))
# Its functions are to be found by their names, in stacks.
$(unit) $(api) $(tests)/stress/stack: link += -rdynamic
$(unit) $(api) $(platform): $(call objects,$(skip_sources)) \
                            $(whole) $(support)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $(filter %.o,$^) $(support) $(criterion_libs) $(libs)

# Every allocation of these goes through tests/support/heap.c.
comma := ,
$(fault): wrap = $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc \
                   aligned_alloc posix_memalign free)
# Its rounds are programs of the fuzzer's.
$(tests)/stress/mix: $(fuzz_objects)
$(fault) $(stress) $(races) $(gpu) $(soak): %: %.o $(whole) $(support)
	$(call say,LINK,$@)
	$(Q)$(link) $(wrap) -o $@ $(filter %.o,$^) $(support) $(libs)

$(corpus): $(replay_objects)
$(fuzz): $(mutate_objects)
$(fuzz): libs += -fsanitize=fuzzer
$(corpus) $(fuzz): $(fuzz_objects) $(whole) $(support)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^ $(libs)

# An archive, so that a program takes only the helpers that it uses.
$(support): $(support_objects)
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# facts.c is compiled against our headers, and against the real ones where
# there are any; the program compares.
$(tests)/abi/main.o: extra = $(if $(cuda),,-DABI_NO_REAL)
$(tests)/abi/facts_ours.o: extra = -DABI_OURS
$(tests)/abi/facts_real.o: extra = -DABI_REAL -isystem $(cuda)/include
$(tests)/abi/facts_ours.o $(tests)/abi/facts_real.o: tests/abi/facts.c \
                                                     $(dir)/flags
	$(call say,CC,$< ($(@F)))
	@mkdir -p $(@D)
	$(Q)$(compile) $(extra) -c -o $@ $<

$(abi): $(tests)/abi/main.o $(tests)/abi/facts_ours.o \
        $(if $(cuda),$(tests)/abi/facts_real.o)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^

# ---- benchmarks and checks --------------------------------------------------

model:
	$(Q)CC='$(CC)' tests/model/run.sh

bench := $(bench_programs:%=$(dir)/bench/%)
bench_objects := $(bench_support:%=$(dir)/bench/%.o)

# The last is a figure, where there is a gnuplot.
OVERLAP_FLAGS ?= --shapes bench/shapes/resnet50.tsv \
  --backward x0.25,x0.5,x0.75,x1,x1.5,x2,x3
bench: $(bench) $(out)/cohort
	$(Q)set -e; for program in $(bench); do $$program; done
	$(Q)if command -v gnuplot >/dev/null; then \
	  set -- --plot $(out)/overlap.svg; fi; \
	$(out)/cohort bench overlap $(OVERLAP_FLAGS) "$$@"

# What bench/peer.c needs to be compiled, bench/peers.py looks for.
PEER_FLAGS ?=
bench-peers: $(out)/cohort
	$(Q)bench/peers.py --out $(out) $(PEER_FLAGS) $<

# Likewise bench/average_peer.c, and bench/average.py.
AVERAGE_FLAGS ?=
bench-average: $(out)/cohort
	$(Q)bench/average.py --out $(out) $(AVERAGE_FLAGS) $<

$(bench): %: %.o $(bench_objects) $(whole)
	$(call say,LINK,$@)
	$(Q)$(link) -o $@ $^ $(libs)

lint: $(library) $(drop_ins)
	$(Q)CC='$(CC)' FLAGS='$(cppflags) $(cflags)' scripts/lint.sh $(lib) $(cuda)

# ---- install ----------------------------------------------------------------

prefix     ?= /usr/local
bindir     ?= $(prefix)/bin
includedir ?= $(prefix)/include
libdir     ?= $(prefix)/lib

install: all
	install -d '$(DESTDIR)$(bindir)' '$(DESTDIR)$(includedir)/cohort' \
	  '$(DESTDIR)$(libdir)/pkgconfig'
	install -m 755 $(out)/cohort '$(DESTDIR)$(bindir)'
	install -m 644 $(public_headers:%=include/cohort/%) \
	  '$(DESTDIR)$(includedir)/cohort'
	install -m 755 $(shared) '$(DESTDIR)$(libdir)'
	cp -P $(lib)/libcohort.so.$(major) $(lib)/libcohort.so \
	  '$(DESTDIR)$(libdir)'
	install -m 644 $(lib)/libcohort.a '$(DESTDIR)$(libdir)'
	install -d '$(DESTDIR)$(libdir)/cohort/drop-in'
	install -m 755 $(host_library) $(nccl_library) $(cudart) \
	  '$(DESTDIR)$(libdir)/cohort/drop-in'
	cp -P $(drop_in_links) '$(DESTDIR)$(libdir)/cohort/drop-in'
	install -m 644 $(lib)/cohort.pc '$(DESTDIR)$(libdir)/pkgconfig'

uninstall:
	rm -f '$(DESTDIR)$(bindir)/cohort' \
	  '$(DESTDIR)$(libdir)/pkgconfig/cohort.pc' \
	  $(patsubst %,'$(DESTDIR)$(libdir)/%',$(filter libcohort.%,$(notdir $(library))))
	rm -f $(public_headers:%='$(DESTDIR)$(includedir)/cohort/%')
	rm -f $(patsubst $(lib)/%,'$(DESTDIR)$(libdir)/cohort/%',$(drop_ins))
	-rmdir '$(DESTDIR)$(includedir)/cohort' \
	  '$(DESTDIR)$(libdir)/cohort/drop-in' '$(DESTDIR)$(libdir)/cohort'

# ---- the rest ---------------------------------------------------------------

clean:
	rm -rf build

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

-include $(patsubst %.o,%.d,$(library_objects) $(command_objects) \
  $(drop_in_objects) $(suite_objects) $(support_objects) $(fault:=.o) \
  $(gpu:=.o) $(soak:=.o) $(stress:=.o) $(races:=.o) \
  $(fuzz_objects) $(replay_objects) $(mutate_objects) \
  $(bench:=.o) $(bench_objects) $(tests)/abi/main.o $(tests)/abi/facts_ours.o \
  $(tests)/abi/facts_real.o)
