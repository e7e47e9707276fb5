// SPDX-License-Identifier: BSD-2-Clause
/*
 * Probes for a program that is about to start. One that uses a device without
 * PyTorch may do so in its first millisecond, before anybody could look at what
 * it has mapped. So its loader is asked which libraries it is going to map
 * (ld.so --list, which runs nothing of the program), and those of devices and of
 * collectives are probed for the process while it still waits for its exec. NVIDIA's
 * runtime, where it is linked statically, loads its driver by name when it is called first: a
 * program in which that name stands is taken to map it.
 *
 * A command that only starts the program (env, nice, a shell) names it somewhere: so
 * the words of the command line, and of a script among them, are looked at too. A
 * wrong guess costs some milliseconds at the start. What a process becomes by exec it is probed for; its
 * children are only prepared for, since probes of theirs can be set once they are there.
 */
#include "record/session.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "containers/containers.h"
#include "record/words.h"
#include "symbol/elf.h"

#define INTERPRETER_BYTES_MAX 256
#define LIST_BYTES_MAX (1u << 20)
#define EXECUTABLE_PATH_MAX 32
#define TEXTS_BYTES_MAX (64u << 20)

/* What of a program's file says what it will map. */
struct program_texts {
	char interpreter[INTERPRETER_BYTES_MAX]; /* its loader, "" for none */
	bool names_driver;
};

static void interpreter_read(const struct elf_file *elf, char interpreter[INTERPRETER_BYTES_MAX])
{
	struct elf_range range;

	if (!elf_file_section(elf, ".interp", &range) && range.size < INTERPRETER_BYTES_MAX &&
		elf_file_read(elf, range.address, interpreter, range.size) == (ssize_t)range.size)
		interpreter[range.size] = '\0';
	else
		interpreter[0] = '\0';
}

static bool driver_is_named(const struct elf_file *elf)
{
	struct elf_range range;
	bool named = false;
	char *texts;

	if (elf_file_section(elf, ".rodata", &range) || range.size > TEXTS_BYTES_MAX)
		return false;
	texts = malloc(range.size);
	if (texts && elf_file_read(elf, range.address, texts, range.size) == (ssize_t)range.size)
		named = memmem(texts, range.size, DRIVER_NAME, sizeof(DRIVER_NAME)) != NULL;
	free(texts);
	return named;
}

static void program_read(const char *path, struct program_texts *texts)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_file *elf;

	*texts = (struct program_texts){0};
	if (fd < 0)
		return;
	if (!elf_file_open(fd, &elf)) {
		interpreter_read(elf, texts->interpreter);
		texts->names_driver = driver_is_named(elf);
		elf_file_close(elf);
	}
	close(fd);
}

static char *text_read(int fd)
{
	char *text = NULL, buffer[4096];
	ssize_t count;

	while ((count = read(fd, buffer, sizeof(buffer))) > 0 && arrlenu(text) < LIST_BYTES_MAX)
		memcpy(arraddnptr(text, count), buffer, (size_t)count);
	arrput(text, '\0');
	return text;
}

/* What the loader says of a program, an stb_ds text; "" when it says nothing. */
static char *loader_ask(const struct program_texts *texts, const char *path)
{
	char *const arguments[] = {(char *)texts->interpreter, "--list", (char *)path, NULL};
	char *const with_driver[] = {
		(char *)texts->interpreter, "--preload", DRIVER_NAME, "--list", (char *)path, NULL};
	posix_spawn_file_actions_t actions;
	char *text = NULL;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return NULL;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (!posix_spawn(
		    &pid, texts->interpreter, &actions, NULL, texts->names_driver ? with_driver : arguments, environ)) {
		close(ends[1]);
		ends[1] = -1;
		text = text_read(ends[0]);
		waitpid(pid, NULL, 0);
	}
	posix_spawn_file_actions_destroy(&actions);
	close(ends[0]);
	if (ends[1] >= 0)
		close(ends[1]);
	return text;
}

static int file_ahead(struct session *session, struct target *target, const char *path)
{
	enum library_role role = library_role_of(path);
	struct mapped_file file = {.path = (char *)path};
	struct stat status;

	if (target->libraries[role] || stat(path, &status))
		return 0;
	file.device = status.st_dev;
	file.inode = status.st_ino;
	return library_makes_target(role) ? library_probe_ahead(session, target, &file, role)
	                                  : caller_probe(session, target, &file);
}

/* The path in a line "NAME => PATH (ADDRESS)", which is cut there; NULL: another line. */
static const char *line_path(char *line)
{
	char *path = strstr(line, "=> "), *end = path ? strrchr(path, '(') : NULL;

	if (!end || end - path < (ptrdiff_t)strlen("=> x "))
		return NULL;
	end[-1] = '\0';
	return path + strlen("=> ");
}

/* Paths of the libraries that a text of the loader names, stb_ds; they lie in the text. */
static const char **paths_of(char *text)
{
	const char **paths = NULL, *path;
	char *line, *rest = text;

	while ((line = strsep(&rest, "\n")))
		if ((path = line_path(line)))
			arrput(paths, path);
	return paths;
}

static int files_ahead(struct session *session, struct target *target, const char *program, const char **paths)
{
	struct stat status;
	bool found = false;
	int error = 0;

	for (size_t index = 0; index < arrlenu(paths); index++)
		found |= library_makes_target(library_role_of(paths[index]));
	if (!found)
		return 0;
	for (size_t index = 0; !error && index < arrlenu(paths); index++)
		error = file_ahead(session, target, paths[index]);
	if (!stat(program, &status))
		target->awaited_inode = status.st_ino;
	return error ? error : file_ahead(session, target, program);
}

/* Probe what a program is going to map. */
static int program_ahead(struct session *session, struct target *target, const char *path)
{
	struct program_texts texts;
	const char **paths = NULL;
	char *text = NULL;
	int error;

	program_read(path, &texts);
	if (texts.interpreter[0] == '/')
		text = loader_ask(&texts, path);
	if (text)
		paths = paths_of(text);
	error = files_ahead(session, target, path, paths);
	arrfree(paths);
	arrfree(text);
	return error;
}

int target_probe_ahead(struct session *session, struct target *target, char *const *words)
{
	const char *library_path = words_library_path(words), *own = getenv("LD_LIBRARY_PATH");
	char **programs = words_programs(words), *before = own ? strdup(own) : NULL;
	int error = 0;

	/* For the loader that is asked; the command has its environment already. */
	if (library_path)
		setenv("LD_LIBRARY_PATH", library_path, true);
	for (size_t index = 0; !error && !target->ahead && index < arrlenu(programs); index++) {
		session->guess.laying = index && guess_is_possible();
		error = program_ahead(session, target, programs[index]);
		target->guessed = target->ahead && index;
		session->guess.root = target->ahead && session->guess.laying ? target : NULL;
		session->guess.laying = false;
	}
	if (library_path && before)
		setenv("LD_LIBRARY_PATH", before, true);
	else if (library_path)
		unsetenv("LD_LIBRARY_PATH");
	free(before);
	words_free(programs);
	return error;
}

bool target_is_awaited(struct target *target)
{
	uint64_t now = monotonic_ns();
	char path[EXECUTABLE_PATH_MAX];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d/exe", target->process.pid);
	if (stat(path, &status) || status.st_ino != target->awaited_inode)
		return false;
	target->image_time_ns = now;
	return true;
}
