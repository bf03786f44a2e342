# SPDX-License-Identifier: Apache-2.0
#
# The manual, the documentation site, and installation

prefix     ?= /usr/local
bindir     ?= $(prefix)/bin
includedir ?= $(prefix)/include
libdir     ?= $(prefix)/lib
datadir    ?= $(prefix)/share
mandir     ?= $(datadir)/man
docdir     ?= $(datadir)/doc/cohort
examplesdir ?= $(docdir)/examples
# Where each shell looks for completions of installed commands.
bashdir    ?= $(datadir)/bash-completion/completions
zshdir     ?= $(datadir)/zsh/site-functions
fishdir    ?= $(datadir)/fish/vendor_completions.d

# The manual pages are made from the headers and from the command's help.
python     := $(shell command -v python3 2>/dev/null)
man        := $(out)/man
pages_made := $(man)/made
$(pages_made): scripts/manual.py scripts/header_comments.py examples/manual.c \
               $(public_headers:%=include/cohort/%) CHANGELOG.md $(out)/cohort
	$(call say,MAN,$(man))
	$(Q)$(python) $< $(out)/cohort $(man)
	$(Q)touch $@

# Completions are made from the command's help.
completions      := $(out)/completions
completions_made := $(completions)/made
$(completions_made): scripts/completions.py scripts/manual.py scripts/header_comments.py \
                     include/cohort/types.h $(out)/cohort
	$(call say,SHELLS,$(completions))
	$(Q)$(python) $< $(out)/cohort $(completions)
	$(Q)touch $@

# Headers for programs of the simulator, with its lists of functions expanded.
sim_headers      := $(notdir $(call sorted,src/sim/include/*.h))
sim_include      := $(out)/include
sim_headers_made := $(sim_include)/made
$(sim_headers_made): scripts/sim_headers.py $(sim_headers:%=src/sim/include/%) \
                     $(call sorted,src/platform/*.h) src/sim/exports.h src/sim/dropin/libcudart.c
	$(call say,HEADER,$(sim_include))
	$(Q)$(python) $< $(sim_include)
	$(Q)touch $@

# The documentation site.  Without PyPI and mandoc it is skipped.
site: $(if $(python),$(pages_made))
	$(Q)scripts/site.sh $(man) $(out)/site $(version) || \
	  { [ $$? -eq 77 ] && echo '0 passed, 0 failed, 1 skipped'; }

release:
	+$(Q)MAKE='$(MAKE)' scripts/release.sh

made_by_scripts := $(if $(python),$(pages_made) $(completions_made) $(sim_headers_made))

# The pages keep their places, so that their links to each other work.
doc_pages  := README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
docs       := $(call sorted,docs/*)
examples   := $(call sorted,examples/*)

# What uninstall takes back.  tests/system/install.sh says if a page is missing here.
commands := cohort cohort-bench cohort-bench-average cohort-bench-overlap cohort-check cohort-demo \
            cohort-drill cohort-info cohort-launch cohort-run cohort-top cohort-trace \
            cohort-watch
pages    := $(commands:%=man1/%.1) \
            $(patsubst %,man3/%.3,$(shell sed -n 's/^\t\(cohort_[a-z_0-9]*\);$$/\1/p' src/cohort.map)) \
            man7/cohort.7 $(patsubst %.h,man7/cohort-%.7,$(filter-out cohort.h,$(public_headers)))

install: all $(made_by_scripts)
	install -d '$(DESTDIR)$(bindir)' '$(DESTDIR)$(includedir)/cohort' \
	  '$(DESTDIR)$(libdir)/pkgconfig' '$(DESTDIR)$(libdir)/cmake/cohort'
	install -m 755 $(out)/cohort '$(DESTDIR)$(bindir)'
	install -m 644 $(patsubst %,include/cohort/%,$(public_headers) $(cpp_headers)) \
	  '$(DESTDIR)$(includedir)/cohort'
	install -m 755 $(shared) '$(DESTDIR)$(libdir)'
	cp -P $(lib)/libcohort.so.$(major) $(lib)/libcohort.so \
	  '$(DESTDIR)$(libdir)'
	install -m 644 $(lib)/libcohort.a '$(DESTDIR)$(libdir)'
	install -d '$(DESTDIR)$(libdir)/cohort/drop-in'
	install -m 755 $(drop_in_files) \
	  '$(DESTDIR)$(libdir)/cohort/drop-in'
	cp -P $(drop_in_links) '$(DESTDIR)$(libdir)/cohort/drop-in'
	$(if $(nvidia),install -d '$(DESTDIR)$(libdir)/cohort/nvidia' && \
	  install -m 755 $(nvidia) '$(DESTDIR)$(libdir)/cohort/nvidia')
	install -d '$(DESTDIR)$(libdir)/cohort/watch'
	install -m 755 $(watch_files) '$(DESTDIR)$(libdir)/cohort/watch'
	install -m 644 $(lib)/cohort.pc '$(DESTDIR)$(libdir)/pkgconfig'
	install -m 644 $(cmake_files) '$(DESTDIR)$(libdir)/cmake/cohort'
	install -d '$(DESTDIR)$(docdir)/docs' '$(DESTDIR)$(examplesdir)'
	install -m 644 $(doc_pages) '$(DESTDIR)$(docdir)'
	install -m 644 $(docs) '$(DESTDIR)$(docdir)/docs'
	install -m 644 $(examples) '$(DESTDIR)$(examplesdir)'
	$(if $(python),for section in man1 man3 man7; do \
	  install -d '$(DESTDIR)$(mandir)'/$$section && \
	  find $(man)/$$section -type f -exec install -m 644 -t '$(DESTDIR)$(mandir)'/$$section {} + && \
	  find $(man)/$$section -type l -exec cp -P -t '$(DESTDIR)$(mandir)'/$$section {} + || \
	  exit 1; done; \
	  install -d '$(DESTDIR)$(bashdir)' '$(DESTDIR)$(zshdir)' '$(DESTDIR)$(fishdir)' && \
	  install -m 644 $(completions)/cohort.bash '$(DESTDIR)$(bashdir)/cohort' && \
	  install -m 644 $(completions)/_cohort '$(DESTDIR)$(zshdir)' && \
	  install -m 644 $(completions)/cohort.fish '$(DESTDIR)$(fishdir)' && \
	  install -d '$(DESTDIR)$(includedir)/cohort-simulator' && \
	  install -m 644 $(sim_headers:%=$(sim_include)/%) '$(DESTDIR)$(includedir)/cohort-simulator' && \
	  install -m 644 $(lib)/cohort-simulator.pc '$(DESTDIR)$(libdir)/pkgconfig',\
	  @echo 'no manual, no completions, no headers of the simulator: there is no python3')

uninstall:
	rm -f '$(DESTDIR)$(bindir)/cohort' '$(DESTDIR)$(bashdir)/cohort' \
	  '$(DESTDIR)$(zshdir)/_cohort' '$(DESTDIR)$(fishdir)/cohort.fish' \
	  '$(DESTDIR)$(libdir)/pkgconfig/cohort.pc' '$(DESTDIR)$(libdir)/pkgconfig/cohort-simulator.pc' \
	  $(patsubst %,'$(DESTDIR)$(includedir)/cohort-simulator/%',$(sim_headers)) \
	  $(patsubst $(lib)/%,'$(DESTDIR)$(libdir)/cmake/cohort/%',$(cmake_files)) \
	  $(patsubst %,'$(DESTDIR)$(libdir)/%',$(filter libcohort.%,$(notdir $(library))))
	rm -f $(patsubst %,'$(DESTDIR)$(includedir)/cohort/%',$(public_headers) $(cpp_headers))
	! cd '$(DESTDIR)$(mandir)' 2>/dev/null || rm -f $(pages)
	rm -f $(patsubst %,'$(DESTDIR)$(docdir)/%',$(doc_pages) $(docs)) \
	  $(patsubst examples/%,'$(DESTDIR)$(examplesdir)/%',$(examples))
	rm -f $(patsubst $(lib)/%,'$(DESTDIR)$(libdir)/cohort/%',$(drop_ins) $(nvidia) $(watch_files))
	$(if $(nvidia),-rmdir '$(DESTDIR)$(libdir)/cohort/nvidia')
	-rmdir '$(DESTDIR)$(libdir)/cohort/watch'
	-rmdir '$(DESTDIR)$(includedir)/cohort' '$(DESTDIR)$(includedir)/cohort-simulator' '$(DESTDIR)$(libdir)/cmake/cohort' \
	  '$(DESTDIR)$(libdir)/cohort/drop-in' '$(DESTDIR)$(libdir)/cohort' \
	  '$(DESTDIR)$(examplesdir)' '$(DESTDIR)$(docdir)/docs' '$(DESTDIR)$(docdir)'
