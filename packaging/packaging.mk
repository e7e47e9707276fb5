# What hdtrace is handed out as: a Debian package, and one file for machines without the libraries.

# --- deb: built from a copy of the tracked files, so that nothing else of this tree gets in ---

deb:
	@scripts/package '$(BUILD)/deb' '$(VERSION)'

# --- static: the same objects, linked with everything that they need ----------------

# Debian has no archive of these libraries, so they are built from its sources.
STATIC_SOURCES := zydis
ZYDIS := build/sources/zydis
ZYDIS_OBJECTS := $(patsubst $(ZYDIS)/src/%.c,$(BUILD)/static/zydis/%.o,$(wildcard $(ZYDIS)/src/*.c))

STATIC_LIBS = $(patsubst -lyajl,-lyajl_s,$(shell pkg-config --static --libs $(PACKAGES))) -lstdc++ -lm

static:
	@scripts/setup --static $(STATIC_SOURCES)
	+@$(MAKE) --no-print-directory $(BUILD)/hdtrace-static

$(BUILD)/static/zydis/%.o: $(ZYDIS)/src/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS) -I$(ZYDIS)/include -I$(ZYDIS)/src -DZYDIS_STATIC_BUILD -DZYCORE_STATIC_BUILD -c -o $@ $<

$(BUILD)/static/libZydis.a: $(ZYDIS_OBJECTS)
	$(call say,AR)rm -f $@ && ar rcs $@ $^

# Beside it, the licences of what is in it: of the Debian packages that its archives are from.
$(BUILD)/hdtrace-static: $(BUILD)/user/main.o $(BUILD)/libhdtrace.a $(BUILD)/static/libZydis.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -static-pie -s -Wl,--trace -o $@ $^ $(STATIC_LIBS) >$(BUILD)/static/linked
	@scripts/static-licences $(BUILD)/static/linked $(ZYDIS)/debian/copyright >$@.licences

.PHONY: deb static
