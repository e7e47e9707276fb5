/* SPDX-License-Identifier: BSD-2-Clause */
/* The schema of job.sqlite, database.sql, as a text of the program. */
	.section .rodata
	.global report_database_schema
report_database_schema:
	.incbin "user/report/database.sql"
	.byte 0

	.section .note.GNU-stack, "", %progbits
