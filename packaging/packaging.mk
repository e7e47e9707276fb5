# What hdtrace is handed out as: a Debian package, and one file for machines without the libraries.

# --- deb: built from a copy of the tracked files, so that nothing else of this tree gets in ---

deb:
	@scripts/package '$(BUILD)/deb' '$(VERSION)'

# --- static: the same objects, linked with everything that they need ----------------

# Of these libraries Debian has no archive, or one that needs others without; so they are built from its sources.
STATIC_SOURCES := zydis curl
ZYDIS := build/sources/zydis
ZYDIS_OBJECTS := $(patsubst $(ZYDIS)/src/%.c,$(BUILD)/static/zydis/%.o,$(wildcard $(ZYDIS)/src/*.c))

# libcurl with what hdtrace asks of it: HTTP, TLS, forms.
CURL := build/sources/curl
CURL_OPTIONS := --disable-shared --enable-static --with-openssl --with-zlib --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt \
	$(addprefix --without-,libpsl libidn2 nghttp2 brotli zstd librtmp libssh2 libgsasl) --disable-manual --disable-docs \
	$(addprefix --disable-,ares dict file ftp gopher imap ldap ldaps mqtt pop3 rtsp smb smtp telnet tftp unix-sockets netrc)

STATIC_LIBS = $(patsubst -lyajl,-lyajl_s,$(shell pkg-config --static --libs $(filter-out libcurl,$(PACKAGES)))) \
	-lssl -lcrypto -lz -lstdc++ -lm

static:
	@scripts/setup --static $(STATIC_SOURCES)
	+@$(MAKE) --no-print-directory $(BUILD)/hdtrace-static

$(BUILD)/static/zydis/%.o: $(ZYDIS)/src/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS) -I$(ZYDIS)/include -I$(ZYDIS)/src -DZYDIS_STATIC_BUILD -DZYCORE_STATIC_BUILD -c -o $@ $<

$(BUILD)/static/libZydis.a: $(ZYDIS_OBJECTS)
	$(call say,AR)rm -f $@ && ar rcs $@ $^

# Its configuration is that of this machine; what it said is in the log beside it.
$(BUILD)/static/libcurl.a: packaging/packaging.mk
	@rm -rf $(BUILD)/static/curl && mkdir -p $(BUILD)/static/curl
	$(call say,CURL)cd $(BUILD)/static/curl && { $(CURDIR)/$(CURL)/configure CC='$(CC)' CFLAGS='-O2 -fPIE -ffile-prefix-map=$(CURDIR)=.' $(CURL_OPTIONS) && \
		$(MAKE) -j$(JOBS) -C lib libcurl.la; } >log 2>&1 || { tail -n 20 log >&2; exit 1; }
	@cp $(BUILD)/static/curl/lib/.libs/libcurl.a $@

# Beside it, the licences of what is in it: of the Debian packages that its archives are from. The linker would warn that
# a static program should not load libraries: target/accelerator.c does not.
$(BUILD)/hdtrace-static: $(BUILD)/user/main.o $(BUILD)/libhdtrace.a $(BUILD)/static/libZydis.a $(BUILD)/static/libcurl.a
	$(call say,LINK)$(CC) $(CFLAGS) $(LDFLAGS) -static-pie -s -Wl,--trace,--no-warnings -o $@ $^ $(STATIC_LIBS) >$(BUILD)/static/linked
	@scripts/static-licences $(BUILD)/static/linked $(ZYDIS)/debian/copyright $(CURL)/debian/copyright >$@.licences

.PHONY: deb static
