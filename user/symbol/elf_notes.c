/* SPDX-License-Identifier: BSD-2-Clause */
/* What ELF files say beside their symbols: build-id, soname, TLS slots of the GOT, USDT points. */
#include "symbol/elf_private.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_MAX (64u << 10)       /* bytes of one PT_NOTE segment */
#define NOTE_SEGMENTS_MAX 16        /* of them looked into */
#define BUILD_ID_MAX 64             /* bytes; linkers write 8 to 32 */
#define DYNAMIC_MAX (1u << 20)      /* bytes of .dynamic */
#define SONAME_MAX 4096             /* bytes */
#define NT_STAPSDT 3                /* note type of USDT points, owner "stapsdt" */
#define USDT_SECTION_MAX (1u << 20) /* bytes: 10,000 points */
#define USDT_OWNER "stapsdt"
#define USDT_ADDRESSES 3 /* location, base, semaphore */

static bool note_is(
	const Elf_Data *notes, const GElf_Nhdr *header, size_t name_offset, uint32_t type, const char *owner)
{
	size_t length = strlen(owner) + 1;

	return header->n_type == type && header->n_namesz == length &&
	       !memcmp((const char *)notes->d_buf + name_offset, owner, length);
}

/* --- build-id ---------------------------------------------------------------- */

static char *hex_text(const uint8_t *bytes, size_t count)
{
	static const char digits[] = "0123456789abcdef";
	char *text = malloc(2 * count + 1);

	if (!text)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	text[2 * count] = '\0';
	return text;
}

/* Looks for the build-id among the notes of one segment. */
static int build_id_search(struct elf_file *file, const Elf64_Phdr *header)
{
	Elf_Type type = header->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
	size_t size = header->p_filesz < NOTES_MAX ? header->p_filesz : NOTES_MAX;
	Elf_Data *notes = elf_getdata_rawchunk(file->elf, (int64_t)header->p_offset, size, type);
	size_t position = 0, name_offset, offset;
	GElf_Nhdr note;

	if (!notes)
		return 0;
	while ((position = gelf_getnote(notes, position, &note, &name_offset, &offset)) > 0) {
		if (!note_is(notes, &note, name_offset, NT_GNU_BUILD_ID, "GNU"))
			continue;
		if (note.n_descsz == 0 || note.n_descsz > BUILD_ID_MAX)
			continue;
		file->build_id = hex_text((const uint8_t *)notes->d_buf + offset, note.n_descsz);
		return file->build_id ? 0 : -ENOMEM;
	}
	return 0;
}

int elf_build_id_load(struct elf_file *file)
{
	const Elf64_Phdr *headers = elf64_getphdr(file->elf);
	size_t count, seen = 0;
	int err = 0;

	if (!headers || elf_getphdrnum(file->elf, &count))
		return -EBADMSG;
	for (size_t i = 0; !err && !file->build_id && i < count && seen < NOTE_SEGMENTS_MAX; i++) {
		if (headers[i].p_type != PT_NOTE || headers[i].p_filesz == 0)
			continue;
		if (headers[i].p_offset > file->size || headers[i].p_filesz > file->size - headers[i].p_offset)
			continue;
		seen++;
		err = build_id_search(file, &headers[i]);
	}
	return err;
}

/* --- soname ------------------------------------------------------------------ */

int elf_soname_load(struct elf_file *file)
{
	const struct elf_section *section = elf_section_find(file, ".dynamic");
	struct elf_strings strings;
	const uint8_t *bytes;
	uint64_t size;

	if (!section || section->type != SHT_DYNAMIC || section->size > DYNAMIC_MAX)
		return 0;
	if (elf_section_bytes(file, section, &bytes, &size) || elf_section_strings(file, section, &strings))
		return 0;
	for (uint64_t i = 0; i < size / sizeof(Elf64_Dyn); i++) {
		Elf64_Dyn entry;

		memcpy(&entry, bytes + i * sizeof(entry), sizeof(entry));
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag != DT_SONAME)
			continue;
		file->soname = strndup(elf_string(&strings, entry.d_un.d_val), SONAME_MAX);
		return file->soname ? 0 : -ENOMEM;
	}
	return 0;
}

/* --- TLS slots --------------------------------------------------------------- */

struct tls_relocations {
	uint32_t module, offset; /* relocation types */
};

static struct tls_relocations tls_relocations_of(enum elf_machine machine)
{
	if (machine == ELF_MACHINE_X86_64)
		return (struct tls_relocations){R_X86_64_DTPMOD64, R_X86_64_DTPOFF64};
	return (struct tls_relocations){R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_DTPREL};
}

/* Index of a TLS symbol, defined here or elsewhere, in .dynsym; 0: none. */
static uint32_t dynamic_index(const struct elf_file *file, const char *name)
{
	const struct elf_section *section = elf_section_find(file, ".dynsym");
	struct elf_strings strings;
	const uint8_t *bytes;
	uint64_t size;

	if (!section || elf_section_bytes(file, section, &bytes, &size) || elf_section_strings(file, section, &strings))
		return 0;
	for (uint64_t i = 1; i < size / sizeof(Elf64_Sym) && i < ELF_SYMBOLS_MAX; i++) {
		Elf64_Sym symbol;

		memcpy(&symbol, bytes + i * sizeof(symbol), sizeof(symbol));
		if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS && !strcmp(elf_string(&strings, symbol.st_name), name))
			return (uint32_t)i;
	}
	return 0;
}

int elf_file_tls_got(const struct elf_file *file, const char *symbol, uint64_t *got_address)
{
	const struct elf_section *section = elf_section_find(file, ".rela.dyn");
	struct tls_relocations types = tls_relocations_of(file->machine);
	uint32_t index = dynamic_index(file, symbol);
	uint64_t module_slot = 0, offset_slot = 0, size;
	const uint8_t *bytes;
	int err;

	if (!index || !section)
		return -ENOENT;
	err = elf_section_bytes(file, section, &bytes, &size);
	if (err)
		return err;
	for (uint64_t i = 0; i < size / sizeof(Elf64_Rela); i++) {
		Elf64_Rela relocation;

		memcpy(&relocation, bytes + i * sizeof(relocation), sizeof(relocation));
		if (ELF64_R_SYM(relocation.r_info) != index)
			continue;
		if (ELF64_R_TYPE(relocation.r_info) == types.module)
			module_slot = relocation.r_offset;
		else if (ELF64_R_TYPE(relocation.r_info) == types.offset)
			offset_slot = relocation.r_offset;
		if (module_slot && offset_slot == module_slot + sizeof(uint64_t)) {
			*got_address = module_slot;
			return 0;
		}
	}
	return -ENOENT;
}

/* --- USDT -------------------------------------------------------------------- */

/* Takes one NUL-terminated string off the front of [*at, end), or NULL. */
static const char *string_take(const char **at, const char *end)
{
	const char *text = *at;
	const char *stop = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;

	if (!stop)
		return NULL;
	*at = stop + 1;
	return text;
}

static bool usdt_parse(const char *description, size_t size, uint64_t base, struct elf_usdt *out)
{
	uint64_t addresses[USDT_ADDRESSES];
	const char *at = description + sizeof(addresses), *end = description + size;
	uint64_t moved;

	if (size < sizeof(addresses))
		return false;
	memcpy(addresses, description, sizeof(addresses));
	out->provider = string_take(&at, end);
	out->name = out->provider ? string_take(&at, end) : NULL;
	out->arguments = out->name ? string_take(&at, end) : NULL;
	if (!out->arguments)
		return false;
	/* Prelink moves the section .stapsdt.base with the text, but does not know the note. */
	moved = base && addresses[1] ? base - addresses[1] : 0;
	out->location = addresses[0] + moved;
	out->semaphore = addresses[2] ? addresses[2] + moved : 0;
	return true;
}

int elf_file_usdt(const struct elf_file *file, size_t *position, struct elf_usdt *out)
{
	const struct elf_section *section = elf_section_find(file, ".note.stapsdt");
	const struct elf_section *base = elf_section_find(file, ".stapsdt.base");
	size_t next, name_offset, offset;
	const uint8_t *bytes;
	uint64_t size;
	Elf_Data notes = {0};
	GElf_Nhdr note;
	int err;

	if (!section)
		return 0;
	if (section->size > USDT_SECTION_MAX)
		return -EFBIG;
	err = elf_section_bytes(file, section, &bytes, &size);
	if (err)
		return err == -ENOENT ? 0 : err;
	/* The bytes as the file has them; gelf_getnote wants them declared notes. */
	notes = (Elf_Data){
		.d_buf = (void *)(uintptr_t)bytes, .d_size = size, .d_type = ELF_T_NHDR, .d_version = EV_CURRENT};
	while ((next = gelf_getnote(&notes, *position, &note, &name_offset, &offset)) > 0) {
		*position = next;
		if (note_is(&notes, &note, name_offset, NT_STAPSDT, USDT_OWNER) &&
			usdt_parse((const char *)bytes + offset, note.n_descsz, base ? base->address : 0, out))
			return 1;
	}
	return 0;
}
