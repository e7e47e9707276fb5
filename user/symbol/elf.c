/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening an ELF file: its header, segments and sections, checked once here so
 * that the other parts of the reader can rely on them. libelf does the reading
 * and the bookkeeping of section data; what it would allocate for is checked
 * before it is asked.
 */
#include "symbol/elf_private.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_BYTES 4096ull /* of a mapping, x86_64 */

static bool range_inside(uint64_t offset, uint64_t size, uint64_t whole)
{
	return offset <= whole && size <= whole - offset;
}

/* Refuses what hdtrace does not trace, and tables that do not fit the file: libelf allocates by these counts. */
static int header_check(int fd, uint64_t file_size, enum elf_machine *machine)
{
	Elf64_Ehdr header;
	ssize_t got = pread(fd, &header, sizeof(header), 0);

	if (got < 0)
		return -errno;
	if (got != sizeof(header) || memcmp(header.e_ident, ELFMAG, SELFMAG))
		return -ENOEXEC;
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	if (header.e_type != ET_DYN && header.e_type != ET_EXEC)
		return -ENOEXEC;
	if (header.e_machine == EM_X86_64)
		*machine = ELF_MACHINE_X86_64;
	else if (header.e_machine == EM_AARCH64)
		*machine = ELF_MACHINE_AARCH64;
	else
		return -ENOEXEC;
	if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr))
		return -ENOEXEC;
	if (header.e_phnum > ELF_SEGMENTS_MAX || header.e_shnum > ELF_SECTIONS_MAX)
		return -EFBIG;
	/* e_shnum 0 with a table means "look into section 0", for more than 65,279 sections. */
	if (header.e_shnum == 0 && header.e_shoff != 0)
		return -EFBIG;
	if (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr))
		return -EBADMSG;
	if (!range_inside(header.e_phoff, (uint64_t)header.e_phnum * sizeof(Elf64_Phdr), file_size) ||
		!range_inside(header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr), file_size))
		return -EBADMSG;
	return 0;
}

static int segments_load(struct elf_file *file)
{
	const Elf64_Phdr *headers = elf64_getphdr(file->elf);
	size_t count;

	if (!headers || elf_getphdrnum(file->elf, &count))
		return -EBADMSG;
	if (count > ELF_SEGMENTS_MAX)
		return -EFBIG;
	file->segments = calloc(count, sizeof(*file->segments));
	if (!file->segments)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr *header = &headers[i];

		if (header->p_type != PT_LOAD || header->p_filesz == 0)
			continue;
		if (!range_inside(header->p_offset, header->p_filesz, file->size) ||
			header->p_vaddr > UINT64_MAX - header->p_filesz)
			continue;
		file->segments[file->segment_count++] = (struct elf_segment){
			header->p_vaddr, header->p_offset, header->p_filesz, header->p_flags & PF_X};
	}
	return 0;
}

struct elf_strings elf_strings_of(const uint8_t *bytes, uint64_t size)
{
	const uint8_t *last = size ? memrchr(bytes, 0, size) : NULL;

	return (struct elf_strings){(const char *)bytes, last ? (uint64_t)(last - bytes) + 1 : 0};
}

const char *elf_string(const struct elf_strings *strings, uint64_t offset)
{
	return offset < strings->limit ? strings->bytes + offset : "";
}

int elf_section_bytes(
	const struct elf_file *file, const struct elf_section *section, const uint8_t **bytes, uint64_t *size)
{
	Elf_Scn *scn;
	Elf_Data *data;

	if (section->type == SHT_NOBITS || section->size == 0)
		return -ENOENT;
	if (!range_inside(section->offset, section->size, file->size))
		return -EBADMSG;
	if (section->size > ELF_TABLE_MAX)
		return -EFBIG;
	scn = elf_getscn(file->elf, (size_t)(section - file->sections));
	data = scn ? elf_rawdata(scn, NULL) : NULL;
	if (!data || !data->d_buf || data->d_size == 0)
		return -EBADMSG;
	*bytes = data->d_buf;
	*size = data->d_size;
	return 0;
}

int elf_section_strings(const struct elf_file *file, const struct elf_section *section, struct elf_strings *strings)
{
	const uint8_t *bytes;
	uint64_t size;
	int err;

	if (section->link == 0 || section->link >= file->section_count)
		return -EBADMSG;
	if (file->sections[section->link].type != SHT_STRTAB)
		return -EBADMSG;
	err = elf_section_bytes(file, &file->sections[section->link], &bytes, &size);
	if (err)
		return err;
	*strings = elf_strings_of(bytes, size);
	return 0;
}

/* Names are compared whole and rarely, so that their length needs no bound of its own. */
static void sections_name(struct elf_file *file, const uint32_t *name_offsets)
{
	struct elf_strings strings = {0};
	const uint8_t *bytes;
	uint64_t size;
	size_t index;

	if (elf_getshdrstrndx(file->elf, &index) == 0 && index != 0 && index < file->section_count &&
		elf_section_bytes(file, &file->sections[index], &bytes, &size) == 0)
		strings = elf_strings_of(bytes, size);
	for (size_t i = 0; i < file->section_count; i++)
		file->sections[i].name = elf_string(&strings, name_offsets[i]);
}

static int sections_load(struct elf_file *file)
{
	uint32_t *names = NULL;
	size_t count;
	int err = 0;

	if (elf_getshdrnum(file->elf, &count))
		return -EBADMSG;
	if (count > ELF_SECTIONS_MAX)
		return -EFBIG;
	if (count == 0)
		return 0;
	file->sections = calloc(count, sizeof(*file->sections));
	names = calloc(count, sizeof(*names));
	if (!file->sections || !names) {
		err = -ENOMEM;
		goto cleanup;
	}
	file->section_count = count;
	for (size_t i = 0; i < count; i++) {
		Elf_Scn *scn = elf_getscn(file->elf, i);
		const Elf64_Shdr *header = scn ? elf64_getshdr(scn) : NULL;

		if (!header) {
			err = -EBADMSG;
			goto cleanup;
		}
		names[i] = header->sh_name;
		file->sections[i] = (struct elf_section){
			.address = header->sh_addr,
			.offset = header->sh_offset,
			.size = header->sh_size,
			.entry_size = header->sh_entsize,
			.type = header->sh_type,
			.link = header->sh_link,
		};
	}
	sections_name(file, names);
cleanup:
	free(names);
	return err;
}

static int file_begin(struct elf_file *file, int fd)
{
	struct stat status;
	int err;

	if (fstat(fd, &status))
		return -errno;
	if (!S_ISREG(status.st_mode))
		return -ENOEXEC;
	file->size = (uint64_t)status.st_size;
	err = header_check(fd, file->size, &file->machine);
	if (err)
		return err;
	file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (file->fd < 0)
		return -errno;
	if (elf_version(EV_CURRENT) == EV_NONE)
		return -ENOSYS;
	return 0;
}

static int tables_load(struct elf_file *file)
{
	int err;

	file->elf = elf_begin(file->fd, ELF_C_READ, NULL);
	if (!file->elf || elf_kind(file->elf) != ELF_K_ELF)
		return -ENOEXEC;
	err = sections_load(file);
	return err ? err : elf_symbols_load(file);
}

int elf_file_open(int fd, struct elf_file **out)
{
	struct elf_file *file = calloc(1, sizeof(*file));
	int err;

	*out = NULL;
	if (!file)
		return -ENOMEM;
	file->fd = -1;
	err = file_begin(file, fd);
	if (!err)
		err = tables_load(file);
	if (!err)
		err = segments_load(file);
	if (!err)
		err = elf_build_id_load(file);
	if (!err)
		err = elf_soname_load(file);
	if (err) {
		elf_file_close(file);
		return err;
	}
	*out = file;
	return 0;
}

void elf_file_release(struct elf_file *file)
{
	if (!file || !file->elf)
		return;
	free(file->static_names);
	free(file->symbols);
	free(file->sections);
	elf_end(file->elf);
	file->static_names = NULL;
	file->symbols = NULL;
	file->sections = NULL;
	file->symbol_count = file->section_count = 0;
	file->elf = NULL;
}

void elf_file_wake(const struct elf_file *file)
{
	struct elf_file *asleep = (struct elf_file *)file; /* what a caller sees of it does not change */

	if (!file->elf && tables_load(asleep))
		elf_file_release(asleep);
}

void elf_file_close(struct elf_file *file)
{
	if (!file)
		return;
	elf_file_release(file);
	free(file->soname);
	free(file->build_id);
	free(file->segments);
	if (file->fd >= 0)
		close(file->fd);
	free(file);
}

enum elf_machine elf_file_machine(const struct elf_file *file)
{
	return file->machine;
}

const char *elf_file_build_id(const struct elf_file *file)
{
	return file->build_id ? file->build_id : "";
}

const char *elf_file_soname(const struct elf_file *file)
{
	return file->soname ? file->soname : "";
}

static const struct elf_segment *segment_find(const struct elf_file *file, uint64_t address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *segment = &file->segments[i];

		if (address >= segment->address && address - segment->address < segment->size)
			return segment;
	}
	return NULL;
}

int elf_file_offset(const struct elf_file *file, uint64_t address, uint64_t *offset)
{
	const struct elf_segment *segment = segment_find(file, address);

	if (!segment)
		return -ENOENT;
	*offset = address - segment->address + segment->offset;
	return 0;
}

int elf_file_address(const struct elf_file *file, uint64_t offset, uint64_t *address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *segment = &file->segments[i];

		if (offset >= segment->offset && offset - segment->offset < segment->size) {
			*address = offset - segment->offset + segment->address;
			return 0;
		}
	}
	return -ENOENT;
}

int elf_file_code_address(const struct elf_file *file, uint64_t offset, uint64_t *address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *segment = &file->segments[i];
		uint64_t first = segment->offset & ~(PAGE_BYTES - 1);

		if (segment->executable && offset >= first &&
			offset - first < segment->size + segment->offset - first) {
			*address = segment->address - segment->offset + offset;
			return 0;
		}
	}
	return -ENOENT;
}

ssize_t elf_file_read(const struct elf_file *file, uint64_t address, void *buffer, size_t size)
{
	const struct elf_segment *segment = segment_find(file, address);
	uint64_t skip, rest;
	size_t done = 0;

	if (!segment)
		return -ENOENT;
	skip = address - segment->address;
	rest = segment->size - skip;
	if (size > rest)
		size = (size_t)rest;
	while (done < size) {
		ssize_t got =
			pread(file->fd, (char *)buffer + done, size - done, (off_t)(segment->offset + skip + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return done ? (ssize_t)done : -ENOENT;
}

const struct elf_section *elf_section_find(const struct elf_file *file, const char *name)
{
	elf_file_wake(file);
	for (size_t i = 1; i < file->section_count; i++)
		if (!strcmp(file->sections[i].name, name))
			return &file->sections[i];
	return NULL;
}

int elf_file_section(const struct elf_file *file, const char *name, struct elf_range *range)
{
	const struct elf_section *section = elf_section_find(file, name);
	bool in_file;

	if (!section)
		return -ENOENT;
	in_file = section->type != SHT_NOBITS;
	if (in_file && !range_inside(section->offset, section->size, file->size))
		return -EBADMSG;
	*range = (struct elf_range){section->address, section->offset, section->size, in_file};
	return 0;
}
