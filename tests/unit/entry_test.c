/* SPDX-License-Identifier: BSD-2-Clause */
/* Where entry probes go: the first instruction that the kernel emulates, with arguments and stack still known. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <unistd.h>

#include "symbol/entry.h"

#define TORCH_CPU "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13"

static struct entry_place decode(const char *code, size_t size)
{
	struct entry_place place;

	entry_decode(ELF_MACHINE_X86_64, (const uint8_t *)code, size, &place);
	return place;
}
#define DECODE(code) decode(code, sizeof(code) - 1)

#define assert_place(code, expected_offset, expected_stack)                                                            \
	do {                                                                                                           \
		struct entry_place place = DECODE(code);                                                               \
		cr_assert(place.emulated, "%s", entry_reason_text(place.reason));                                      \
		cr_assert_eq(place.reason, ENTRY_EMULATED);                                                            \
		cr_assert_eq(place.offset, (expected_offset), "offset %u", place.offset);                              \
		cr_assert_eq(place.stack_bytes, (expected_stack), "stack %u", place.stack_bytes);                      \
	} while (0)

#define assert_refused(code, expected_reason)                                                                          \
	do {                                                                                                           \
		struct entry_place place = DECODE(code);                                                               \
		cr_assert_not(place.emulated, "place at %u", place.offset);                                            \
		cr_assert_eq(place.offset, 0);                                                                         \
		cr_assert_eq(place.stack_bytes, 0);                                                                    \
		cr_assert_eq(place.reason, (expected_reason), "%s", entry_reason_text(place.reason));                  \
	} while (0)

Test(place, is_the_entry_where_it_is_emulated)
{
	assert_place("\x55", 0, 0);                     /* push rbp */
	assert_place("\x41\x57", 0, 0);                 /* push r15 */
	assert_place("\x90", 0, 0);                     /* nop */
	assert_place("\x66\x90", 0, 0);                 /* nop of two bytes */
	assert_place("\xe9\x00\x01\x00\x00", 0, 0);     /* jmp */
	assert_place("\xeb\x10", 0, 0);                 /* jmp */
	assert_place("\x74\x10", 0, 0);                 /* je */
	assert_place("\x0f\x85\x00\x01\x00\x00", 0, 0); /* jne */
	assert_place("\xe8\x00\x01\x00\x00", 0, 0);     /* call */
}

Test(place, is_behind_endbr64)
{
	assert_place("\xf3\x0f\x1e\xfa\x55", 4, 0);
	assert_place("\xf3\x0f\x1e\xfa\x41\x54", 4, 0);
}

Test(place, counts_what_the_stack_pointer_moved)
{
	/* endbr64; sub rsp, 0x228; mov rax, fs:0x28; jne */
	assert_place(
		"\xf3\x0f\x1e\xfa\x48\x81\xec\x28\x02\x00\x00\x64\x48\x8b\x04\x25\x28\x00\x00\x00\x75\x10", 20, 0x228);
	assert_place("\x48\x83\xec\x18\x84\xc0\x74\x10", 6, 24);     /* sub rsp, 24; test al, al; je */
	assert_place("\x48\x83\xc4\x80\x90", 4, 128);                /* add rsp, -128 */
	assert_place("\x48\x8d\x64\x24\xf8\x90", 5, 8);              /* lea rsp, [rsp - 8] */
	assert_place("\x6a\x00\x68\x00\x00\x00\x00\x90", 7, 16);     /* push 0; push 0 */
	assert_place("\xff\x75\x08\x90", 3, 8);                      /* push [rbp + 8] */
	assert_place("\x48\x83\xec\x20\x48\x83\xc4\x08\x90", 8, 24); /* sub 32, add 8 */
	assert_place("\x48\x55\x90", 2, 8);                          /* rex.w push rbp: not emulated */
}

Test(place, passes_what_leaves_arguments_alone)
{
	assert_place("\x48\x89\xe5\x90", 3, 0);                 /* mov rbp, rsp */
	assert_place("\x48\x89\x7c\x24\x08\x90", 5, 0);         /* mov [rsp + 8], rdi */
	assert_place("\x31\xc0\x90", 2, 0);                     /* xor eax, eax */
	assert_place("\x48\x8d\x05\x01\x02\x03\x04\x90", 7, 0); /* lea rax, [rip + …] */
	assert_place("\x48\x8b\x07\x90", 3, 0);                 /* mov rax, [rdi] */
	assert_place("\x80\x3d\x00\x00\x00\x00\x00\x90", 7, 0); /* cmp byte [rip], 0 */
	assert_place("\x48\x39\xf7\x90", 3, 0);                 /* cmp rdi, rsi */
	assert_place("\x48\x85\xff\x90", 3, 0);                 /* test rdi, rdi */
	assert_place("\x48\x83\xff\x08\x90", 4, 0);             /* cmp rdi, 8 */
	assert_place("\xf6\x07\x01\x90", 3, 0);                 /* test byte [rdi], 1 */
	assert_place("\x48\xb8\1\2\3\4\5\6\7\x8\x90", 10, 0);   /* mov rax, imm64 */
	assert_place("\x66\xb8\x01\x02\x90", 4, 0);             /* mov ax, imm16 */
	assert_place("\x0f\xb6\x07\x90", 3, 0);                 /* movzx eax, byte [rdi] */
	assert_place("\xf3\x0f\x6f\x07\x90", 4, 0);             /* movdqu xmm0, [rdi] */
	assert_place("\xf3\x0f\x7e\xc7\x90", 4, 0);             /* movq xmm0, xmm7 */
	assert_place("\xc5\xf9\xef\xc0\x90", 4, 0);             /* vpxor xmm0, xmm0, xmm0 */
	assert_place("\x88\xe0\x90", 2, 0);                     /* mov al, ah */
}

Test(place, is_refused_once_an_argument_register_is_written)
{
	assert_refused("\x48\x89\xc7\x55", ENTRY_ARGUMENT);         /* mov rdi, rax */
	assert_refused("\x31\xf6\x55", ENTRY_ARGUMENT);             /* xor esi, esi */
	assert_refused("\x48\x8d\x17\x55", ENTRY_ARGUMENT);         /* lea rdx, [rdi] */
	assert_refused("\xb9\1\0\0\0\x55", ENTRY_ARGUMENT);         /* mov ecx, 1 */
	assert_refused("\x4c\x8b\x07\x55", ENTRY_ARGUMENT);         /* mov r8, [rdi] */
	assert_refused("\x49\xff\xc1\x55", ENTRY_ARGUMENT);         /* inc r9 */
	assert_refused("\x48\x99\x55", ENTRY_ARGUMENT);             /* cqo */
	assert_refused("\x48\xf7\xe6\x55", ENTRY_ARGUMENT);         /* mul rsi */
	assert_refused("\xf3\x48\xab\x55", ENTRY_ARGUMENT);         /* rep stosq */
	assert_refused("\x0f\x94\xc1\x55", ENTRY_ARGUMENT);         /* sete cl */
	assert_refused("\xb6\x01\x55", ENTRY_ARGUMENT);             /* mov dh, 1 */
	assert_refused("\x48\x0f\x7e\xc7\x55", ENTRY_ARGUMENT);     /* movq rdi, mm0 */
	assert_refused("\x66\x48\x0f\x7e\xc7\x55", ENTRY_ARGUMENT); /* movq rdi, xmm0 */
	assert_refused("\x41\x90\x55", ENTRY_ARGUMENT);             /* xchg r8, rax */
	assert_refused("\x0f\x44\xf8\x55", ENTRY_ARGUMENT);         /* cmove edi, eax */
}

Test(place, is_refused_where_the_stack_pointer_is_lost)
{
	assert_refused("\x48\x83\xe4\xe0\x55", ENTRY_STACK);             /* and rsp, -32 */
	assert_refused("\x48\x89\xc4\x55", ENTRY_STACK);                 /* mov rsp, rax */
	assert_refused("\x58\x55", ENTRY_STACK);                         /* pop rax */
	assert_refused("\xc9\x55", ENTRY_STACK);                         /* leave */
	assert_refused("\x48\x83\xc4\x08\x55", ENTRY_STACK);             /* above the return address */
	assert_refused("\x48\x81\xec\x00\x00\x00\x7f\x55", ENTRY_STACK); /* 2 GB */
	assert_refused("\x48\x83\xec\x04\x55", ENTRY_STACK);             /* no whole word */
	assert_refused("\x83\xec\x08\x55", ENTRY_STACK);                 /* sub esp, 8 */
	assert_refused("\x66\x6a\x00\x55", ENTRY_STACK);                 /* push of two bytes */
}

Test(place, is_refused_where_the_function_ends_or_is_not_understood)
{
	assert_refused("\xc3\x55", ENTRY_END);                 /* ret */
	assert_refused("\xff\xe0\x55", ENTRY_END);             /* jmp rax */
	assert_refused("\xff\xd0\x55", ENTRY_END);             /* call rax */
	assert_refused("\x0f\x0b\x55", ENTRY_END);             /* ud2 */
	assert_refused("\x62\xf1\x7c\x48\x55", ENTRY_UNKNOWN); /* evex */
	assert_refused("\x0f\xa2\x55", ENTRY_UNKNOWN);         /* cpuid */
	assert_refused("\xf0\x48\x0f\xb1\x0f\x55", ENTRY_UNKNOWN);
	assert_refused("\x67\x8d\x00\x55", ENTRY_UNKNOWN);
	assert_refused("\xf3\x48\x0f\x1e\xc8\x55", ENTRY_UNKNOWN);   /* rdsspq rax */
	assert_refused("\x66\xe8\x01\x02\x00\x00", ENTRY_TRUNCATED); /* callw: not emulated, then the code ends */
}

Test(place, is_refused_in_a_loop)
{
	/* Stack probing: sub rsp, 4096; or qword [rsp], 0; cmp rsp, r11; jne back */
	assert_refused("\x48\x81\xec\x00\x10\x00\x00\x48\x83\x0c\x24\x00\x4c\x39\xdc\x75\xef", ENTRY_LOOP);
	assert_place("\x85\xc0\x75\xf0", 2, 0); /* back to before the function: no loop in it */
}

Test(place, prefers_others_to_a_long_nop)
{
	struct entry_place nop = DECODE("\x0f\x1f\x44\x00\x00\x48\x83\xec\x08\xc3");

	cr_assert(nop.emulated);
	cr_assert_eq(nop.reason, ENTRY_LONG_NOP);
	cr_assert_eq(nop.offset, 0);
	assert_place("\x0f\x1f\x44\x00\x00\x55", 5, 0);
	/* A segment prefix makes a nop that no kernel knows. */
	assert_refused("\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\xc3", ENTRY_END);
}

Test(place, is_refused_where_the_code_ends)
{
	assert_refused("", ENTRY_TRUNCATED);
	assert_refused("\x48", ENTRY_TRUNCATED);
	assert_refused("\x48\x81\xec\x00", ENTRY_TRUNCATED);
	assert_refused("\x31\xc0", ENTRY_TRUNCATED);
	assert_refused("\xe9\x00", ENTRY_TRUNCATED);
}

Test(place, is_not_sought_beyond_the_bound)
{
	char code[ENTRY_BYTES_MAX + 2];
	struct entry_place place;

	for (size_t i = 0; i + 1 < sizeof(code); i += 2) {
		code[i] = 0x31; /* xor eax, eax */
		code[i + 1] = (char)0xc0;
	}
	code[ENTRY_BYTES_MAX] = 0x55;
	place = decode(code, sizeof(code));
	cr_assert_not(place.emulated);
	cr_assert_eq(place.reason, ENTRY_TRUNCATED);
}

Test(place, is_named_unsupported_on_other_machines)
{
	struct entry_place place;

	entry_decode(ELF_MACHINE_AARCH64, (const uint8_t *)"\x55", 1, &place);
	cr_assert_not(place.emulated);
	cr_assert_eq(place.reason, ENTRY_MACHINE);
	cr_assert_not_null(strstr(entry_reason_text(place.reason), "machine"));
}

Test(place, is_rather_one_that_writes_nothing)
{
	assert_place("\x55\x48\x85\xd2\x75\x10", 4, 8);     /* push rbp; test rdx, rdx; jne */
	assert_place("\x55\x90", 1, 8);                     /* push rbp; nop */
	assert_place("\x55\xe8\x00\x01\x00\x00\x90", 0, 0); /* behind a call the arguments are gone */
	assert_place("\x55\x48\x89\xf7\x75\x10", 0, 0);     /* push rbp; mov rdi, rsi */
	assert_place("\x55\xc3\x75\x10", 0, 0);             /* push rbp; ret */
	assert_place("\x55\x48\x85\xd2\x75\xfa", 0, 0);     /* a jump back to the push */
}

#define BYTES(code) code, sizeof(code) - 1

Test(returns, are_seen_where_their_result_still_stands)
{
	static const struct {
		const char *code;
		size_t size;
		uint32_t offset;
	} cases[] = {
		{BYTES("\x85\xc0\x75\x10"), 2},                         /* test eax, eax; jne */
		{BYTES("\x41\xb8\x01\x00\x00\x00\x85\xc0\x74\x10"), 8}, /* mov r8d, 1; test eax, eax; je */
		{BYTES("\x89\xc7\xe8\x00\x01\x00\x00"), 2},             /* mov edi, eax; call */
		{BYTES("\x31\xc0\x75\x10"), 0},                         /* xor eax, eax: the result is gone */
		{BYTES("\x48\x83\xc4\x08\x75\x10"), 0},                 /* add rsp, 8 */
		{BYTES("\xc3\x75\x10"), 0},                             /* ret */
		{BYTES("\x75\x10"), 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(return_decode(ELF_MACHINE_X86_64, (const uint8_t *)cases[i].code, cases[i].size),
			cases[i].offset, "case %zu", i);
	cr_expect_eq(return_decode(ELF_MACHINE_AARCH64, (const uint8_t *)cases[0].code, cases[0].size), 0);
}

Test(real, all_operator_functions_have_an_emulated_place)
{
	int fd = open(TORCH_CPU, O_RDONLY);
	const struct elf_symbol *symbols;
	struct elf_file *file;
	size_t count;

	cr_assert_eq(elf_file_open(fd, &file), 0);
	close(fd);
	symbols = elf_file_symbols_prefix(file, "_ZN2at4_ops", &count);
	cr_assert_eq(count, 5904);
	for (size_t i = 0; i < count; i++) {
		struct entry_place place;

		cr_assert_eq(entry_find(file, symbols[i].address, symbols[i].size, &place), 0);
		cr_assert(place.emulated, "%s", symbols[i].name);
	}
	elf_file_close(file);
}
