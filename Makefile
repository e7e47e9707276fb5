# Build, test and install hdtrace. `make help` lists the targets.

VERSION := 0.1.0
PREFIX ?= /usr/local
BUILD ?= build
DESTDIR ?=
V ?= 0
WERROR ?= $(if $(CI),1,0)

# Make itself sets CC to cc: that is not a choice of anybody's.
ifeq ($(origin CC),default)
  CC := gcc
endif
CLANG ?= clang
BPFTOOL ?= $(or $(shell command -v bpftool 2>/dev/null),/usr/sbin/bpftool)
JOBS ?= $(shell nproc)
ARCH := $(shell uname -m | sed -e s/aarch64/arm64/)
BPF_ARCH := $(ARCH:x86_64=x86)

ifeq ($(V),0)
  say = @printf '  %-8s %s\n' "$(1)" "$(patsubst $(CURDIR)/%,%,$@)";
endif

PACKAGES := libbpf libelf libzstd libxxhash yajl zlib ncursesw sqlite3 libcurl libmicrohttpd inih libcap-ng
WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla $(if $(filter 1,$(WERROR)),-Werror)
CFLAGS ?= -O2 -g
ALL_CFLAGS = $(BASE_CFLAGS) $(CPPFLAGS) $(CFLAGS)
BASE_CFLAGS := -std=gnu11 -D_GNU_SOURCE -DHDTRACE_VERSION='"$(VERSION)"' $(WARNINGS) -fstack-protector-strong \
	-Iinclude -Iuser -isystem $(BUILD) $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
LIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lZydis -lZycore -lstdc++ -lm

# Everything under user/ but the program itself is a library, which tests link too.
SOURCES := $(wildcard user/*/*.c)
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o) $(BUILD)/user/report/page.o $(BUILD)/user/report/database_sql.o
BPF_SOURCES := $(wildcard bpf/*.bpf.c)
BPF_OBJECTS := $(BPF_SOURCES:%.c=$(BUILD)/%.o)
SKELETON := $(BUILD)/hdtrace.skel.h

all: $(BUILD)/hdtrace

bpf: $(BUILD)/hdtrace.bpf.o

help:
	@echo 'make                 build $(BUILD)/hdtrace'
	@echo 'make demo            set up, build, trace a small training job, show the report'
	@echo 'make check           set up and run every test; CHECKS="unit lint" only these'
	@echo 'make bench           measure overhead and report speed'
	@echo 'make install         install under $$(DESTDIR)$$(PREFIX) (now $(PREFIX))'
	@echo 'make deb             a Debian package, under $(BUILD)/deb'
	@echo 'make static          one program for machines without the libraries, $(BUILD)/hdtrace-static'
	@echo 'make clean           remove what was built; make distclean: the test roots too (docs/testing.md)'
	@echo 'make unit sanitize fuzz e2e e2e-sanitize check-build check-bpf check-docs check-install check-package check-format lint'
	@echo '                     one part of the checks; make e2e MATCH=NAME: only the tests named so'
	@echo 'make format          lay out the sources as .clang-format says'
	@echo 'make compile_commands.json'
	@echo 'variables: V=1 (show commands), CC=clang, WERROR=1, CFLAGS=…, BUILD=DIR'

# --- what everything was built with: other flags, another build -----------------

FLAGS := $(BUILD)/flags

$(FLAGS): always
	@pkg-config --exists 'libbpf >= 1.4' $(PACKAGES) || { echo 'libraries are missing: run scripts/setup' >&2; exit 1; }
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(LIBS) $(CLANG) $(BPF_ARCH))' | cmp -s - $@ || \
		printf '%s\n' '$(subst ','\'',$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(LIBS) $(CLANG) $(BPF_ARCH))' >$@

# --- program -----------------------------------------------------------------

$(BUILD)/hdtrace: $(BUILD)/user/main.o $(BUILD)/libhdtrace.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/libhdtrace.a: $(OBJECTS)
	$(call say,AR)rm -f $@ && ar rcs $@ $^

$(BUILD)/user/%.o: user/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(ALL_CFLAGS) -MD -MP -c -o $@ $<

# The hash functions of stb_ds.h shift and read unaligned on purpose.
$(BUILD)/user/containers/stb_ds.o: override CFLAGS += -fno-sanitize=undefined

# Sources that use the BPF skeleton need it made first.
$(filter $(BUILD)/user/attach/%,$(OBJECTS)): | $(SKELETON)

# --- the page of report.html: one file of its sources, which becomes part of the program ---

PAGE := user/report/page
PAGE_SCRIPTS := $(addprefix $(PAGE)/,$(addsuffix .js,format data rank groups view timeline chart blocks filter detail \
	instant treemap summary findings ranks main))

# Each in the place of its mark. All scripts are one, so that they share one scope and nothing else has it.
$(BUILD)/page.html: $(PAGE)/page.html $(PAGE)/style.css $(PAGE_SCRIPTS) $(FLAGS)
	$(call say,PAGE)cat $(PAGE_SCRIPTS) >$@.js && sed -e '/<!-- style -->/{r $(PAGE)/style.css' -e 'd}' \
		-e '/<!-- script -->/{r $@.js' -e 'd}' $(PAGE)/page.html >$@ && rm $@.js

$(BUILD)/user/report/page.o: user/report/page.S $(BUILD)/page.html
	@mkdir -p $(@D)
	$(call say,AS)$(CC) $(CFLAGS) -DREPORT_PAGE='"$(BUILD)/page.html"' -c -o $@ $<

# --- the schema of job.sqlite ---

$(BUILD)/user/report/database_sql.o: user/report/database_sql.S user/report/database.sql $(FLAGS)
	@mkdir -p $(@D)
	$(call say,AS)$(CC) $(CFLAGS) -c -o $@ $<

# --- BPF: one object a file, linked into one, made a skeleton ------------------

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,BPF)$(CLANG) -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) -Wall -Wextra -Wno-unused-parameter \
		$(if $(filter 1,$(WERROR)),-Werror) -Iinclude -Ivmlinux -I/usr/include/$(shell uname -m)-linux-gnu \
		-ffile-prefix-map=$(CURDIR)=. -MMD -MP -MT $@ -c -o $@ $<

$(BUILD)/hdtrace.bpf.o: $(BPF_OBJECTS)
	$(call say,BPFLINK)$(BPFTOOL) gen object $@ $^

$(SKELETON): $(BUILD)/hdtrace.bpf.o
	$(call say,SKEL)echo '/* NOLINTBEGIN */' >$@ && $(BPFTOOL) gen skeleton $< name hdtrace_bpf >>$@ && echo '/* NOLINTEND */' >>$@

# --- tests -------------------------------------------------------------------

include tests/tests.mk

# --- packages ----------------------------------------------------------------

include packaging/packaging.mk

# --- the rest ----------------------------------------------------------------

demo:
	@scripts/setup --tests
	@$(MAKE) --no-print-directory all
	@scripts/demo $(BUILD)/hdtrace

# Files of the agent, as far as there are any: FOLDER:PATTERN in packaging/agent/. A folder with a slash is outside of PREFIX.
AGENT_FILES := lib/systemd/system:*.service /etc/hdtrace:*.conf share/hdtrace/prometheus:*.yml share/hdtrace/grafana:*.json \
	/etc/apparmor.d:apparmor.d/*
agent_files = $(wildcard packaging/agent/$(lastword $(subst :, ,$(1))))
agent_folder = $(DESTDIR)$(if $(filter /%,$(1)),,$(PREFIX)/)$(firstword $(subst :, ,$(1)))

install: all
	install -D -m 755 $(BUILD)/hdtrace $(DESTDIR)$(PREFIX)/sbin/hdtrace
	install -D -m 644 docs/hdtrace.8 $(DESTDIR)$(PREFIX)/share/man/man8/hdtrace.8
	sed -i 's|/usr/local/|$(PREFIX)/|' $(DESTDIR)$(PREFIX)/share/man/man8/hdtrace.8
	install -D -m 644 packaging/hdtrace.bash-completion $(DESTDIR)$(PREFIX)/share/bash-completion/completions/hdtrace
	install -D -m 644 docs/report.schema.json $(DESTDIR)$(PREFIX)/share/hdtrace/report.schema.json
	install -D -m 644 docs/top.schema.json $(DESTDIR)$(PREFIX)/share/hdtrace/top.schema.json
	install -d $(DESTDIR)$(PREFIX)/share/hdtrace/queries
	install -m 644 queries/*.sql $(DESTDIR)$(PREFIX)/share/hdtrace/queries
	$(foreach place,$(AGENT_FILES),$(if $(call agent_files,$(place)),install -D -m 644 -t $(call agent_folder,$(place)) \
		$(call agent_files,$(place)) &&)) true
	sed -i 's|/usr/sbin/|$(PREFIX)/sbin/|' $(DESTDIR)$(PREFIX)/lib/systemd/system/hdtrace-agent.service $(DESTDIR)/etc/apparmor.d/hdtrace-agent

clean:
	@rm -rf $(BUILD) compile_commands.json

distclean: clean
	@scripts/test-root remove

FORMATTED = $(shell git ls-files -co --exclude-standard '*.c' '*.h' | grep -v '^vmlinux/')
format:
	@clang-format -i $(FORMATTED) && clang-format -i $(FORMATTED) # what was joined may be broken again

check-format:
	@clang-format --dry-run -Werror $(FORMATTED)
	@echo "$(words $(FORMATTED)) files are laid out as .clang-format says"

# One source a run, since clang-tidy 14 carries the state of its checks from one to
# the next. It is looked at again when its object is: when it or a header changed.
LINTED := $(SOURCES) user/main.c
# The analyzer looks at so many states of a function, not at six times as many: a fifth of the time.
ANALYZER := --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=40000

$(BUILD)/lint/%.log: $(BUILD)/%.o .clang-tidy | compile_commands.json
	@mkdir -p $(@D)
	$(call say,LINT)clang-tidy --quiet -p . $(ANALYZER) $*.c >$@ 2>/dev/null || { cat $@ >&2; exit 1; }

lint-run: $(LINTED:%.c=$(BUILD)/lint/%.log)

lint:
	$(AGAIN) -k lint-run
	@echo "$(words $(LINTED)) files: nothing to complain about"

# One entry a source, from the very command that make would run.
LISTED := $(LINTED) $(UNIT_SOURCES) $(FUZZ_SOURCES) $(BENCH_SOURCES)
compile_commands.json: $(FLAGS) $(LISTED)
	$(call say,GEN)sep='['; for source in $(LISTED); do \
		printf '%s\n {"directory": "%s", "file": "%s", "command": "%s -c %s"}' "$$sep" "$(CURDIR)" "$$source" \
			"$(CC) $(subst ",\\\",$(ALL_CFLAGS))" "$$source"; sep=','; \
	done >$@ && printf '\n]\n' >>$@

.PHONY: all bpf help demo install clean distclean format check-format lint lint-run always
.DELETE_ON_ERROR:
-include $(shell find $(BUILD) \( -name sources -o -name deb \) -prune -o -type f -name '*.d' -print 2>/dev/null)
