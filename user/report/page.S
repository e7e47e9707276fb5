/* SPDX-License-Identifier: BSD-2-Clause */
/* The page of report.html, put together from page/ by the Makefile, as bytes of the program. */
	.section .rodata
	.global report_page_begin, report_page_end
report_page_begin:
	.incbin REPORT_PAGE
report_page_end:
	.byte 0

	.section .note.GNU-stack, "", %progbits
