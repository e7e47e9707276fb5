/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hand-made ELF files for tests: sections are added one by one and land in an
 * anonymous file, each at a page of its own, with one loadable segment over all
 * of it (address = IMAGE_BASE + offset).
 */
#ifndef HDTRACE_TESTS_ELF_IMAGE_H
#define HDTRACE_TESTS_ELF_IMAGE_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define IMAGE_BASE 0x400000ull
#define IMAGE_SECTIONS 16
#define IMAGE_ALIGN 64

struct image {
	uint8_t *bytes;
	size_t size;
	Elf64_Shdr sections[IMAGE_SECTIONS];
	uint16_t section_count;
	char names[512];
	size_t names_size;
	Elf64_Phdr segments[2];
	Elf64_Ehdr header;
	size_t segments_end; /* where the loadable segment ends; 0: with the file */
};

static inline void image_begin(struct image *image)
{
	*image = (struct image){.section_count = 1, .names_size = 1};
	image->size = sizeof(Elf64_Ehdr) + sizeof(image->segments);
	image->bytes = calloc(1, image->size);
	memcpy(image->header.e_ident, ELFMAG, SELFMAG);
	image->header.e_ident[EI_CLASS] = ELFCLASS64;
	image->header.e_ident[EI_DATA] = ELFDATA2LSB;
	image->header.e_ident[EI_VERSION] = EV_CURRENT;
	image->header.e_type = ET_DYN;
	image->header.e_machine = EM_X86_64;
	image->header.e_version = EV_CURRENT;
	image->header.e_ehsize = sizeof(Elf64_Ehdr);
	image->header.e_phentsize = sizeof(Elf64_Phdr);
	image->header.e_shentsize = sizeof(Elf64_Shdr);
	image->header.e_phoff = sizeof(Elf64_Ehdr);
	image->header.e_phnum = 1;
	image->segments[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = IMAGE_BASE};
}

static inline size_t image_append(struct image *image, const void *bytes, size_t size)
{
	size_t offset = (image->size + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;

	image->bytes = realloc(image->bytes, offset + size);
	memset(image->bytes + image->size, 0, offset - image->size);
	if (size)
		memcpy(image->bytes + offset, bytes, size);
	image->size = offset + size;
	return offset;
}

/* Returns the section's index. */
static inline uint16_t image_section(
	struct image *image, const char *name, uint32_t type, const void *bytes, size_t size, uint32_t link)
{
	size_t offset = image_append(image, bytes, size);

	image->sections[image->section_count] = (Elf64_Shdr){
		.sh_name = (uint32_t)image->names_size,
		.sh_type = type,
		.sh_addr = IMAGE_BASE + offset,
		.sh_offset = offset,
		.sh_size = size,
		.sh_link = link,
		.sh_addralign = 1,
	};
	memcpy(image->names + image->names_size, name, strlen(name) + 1);
	image->names_size += strlen(name) + 1;
	return image->section_count++;
}

/* Adds a symbol table and its strings; entry 0 is the null symbol. Returns its index. */
static inline uint16_t image_symbols(struct image *image, const char *name, uint32_t type, const Elf64_Sym *symbols,
	size_t count, const char *strings, size_t strings_size)
{
	uint16_t link =
		image_section(image, type == SHT_DYNSYM ? ".dynstr" : ".strtab", SHT_STRTAB, strings, strings_size, 0);

	return image_section(image, name, type, symbols, count * sizeof(*symbols), link);
}

/* Writes the file; further changes of image->header before it are kept. Returns a descriptor. */
static inline int image_finish(struct image *image)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	image->header.e_shstrndx = image_section(image, ".shstrtab", SHT_STRTAB, image->names, sizeof(image->names), 0);
	image->header.e_shoff = image_append(image, image->sections, image->section_count * sizeof(Elf64_Shdr));
	image->header.e_shnum = image->section_count;
	image->segments[0].p_filesz = image->segments[0].p_memsz =
		image->segments_end ? image->segments_end : image->size;
	memcpy(image->bytes, &image->header, sizeof(image->header));
	memcpy(image->bytes + sizeof(image->header), image->segments, sizeof(image->segments));
	if (write(fd, image->bytes, image->size) != (ssize_t)image->size)
		abort();
	free(image->bytes);
	return fd;
}

#endif
