// SPDX-License-Identifier: BSD-2-Clause
/* Keeping the capture below its bound; see window.h. */
#include "record/window.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stream/capture_reader.h"
#include "window/window.h"

/* Of the bound: what stays as it is, so that with what is kept besides it is about half. */
#define TAIL_NUMERATOR 3
#define TAIL_DENOMINATOR 8

/* What the process did. */
struct window_work {
	uint64_t end; /* offset in the capture, of what is yet to be copied */
	struct capture_progress progress;
	int error;
};

/* The probes must be gone when the recorder is: what keeps them there is open in it alone. */
static void descriptors_close(const struct window_state *window)
{
	unsigned int draft = (unsigned int)capture_writer_descriptor(window->draft);

	if (draft > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, draft - 1, 0);
	close_range(draft + 1, UINT_MAX, 0);
}

static void work_do(struct session *session, const struct window_state *window, uint64_t size)
{
	uint64_t tail = session->options->window / TAIL_DENOMINATOR * TAIL_NUMERATOR;
	struct window_work *work = window->work;

	descriptors_close(window);
	setpriority(PRIO_PROCESS, 0, window->nice);
	work->error = window_compact(session->options->capture_path, size, tail, window->draft, &work->end);
	work->progress = capture_writer_progress(window->draft);
}

static void window_fail(struct session *session, struct window_state *window, int error)
{
	window->failed = true;
	session_tell(session, "the capture can no longer be kept below --window (%s): it grows on", strerror(-error));
}

static int draft_open(struct session *session, struct window_state *window)
{
	struct capture_reader *reader;
	int error = capture_reader_open(session->options->capture_path, &reader, NULL);

	if (error)
		return error;
	error = capture_writer_draft(session->options->capture_path, capture_reader_header(reader), &window->draft);
	capture_reader_close(reader);
	return error;
}

static int work_start(struct session *session, struct window_state *window, uint64_t size)
{
	pid_t recorder = getpid();
	int error = draft_open(session, window);

	if (error)
		return error;
	window->work = mmap(NULL, sizeof(*window->work), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (window->work == MAP_FAILED) {
		window->work = NULL;
		return -errno;
	}
	window->process = fork();
	if (window->process < 0) {
		window->process = 0;
		return -errno;
	}
	if (window->process)
		return 0;
	/* Nobody would take the work over. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == recorder)
		work_do(session, window, size);
	_exit(0);
}

static void work_end(struct window_state *window)
{
	capture_writer_close(window->draft);
	window->draft = NULL;
	if (window->work)
		munmap(window->work, sizeof(*window->work));
	window->work = NULL;
}

/* The process has ended: its file takes the place of the capture. */
static int work_take(struct session *session, struct window_state *window, int status)
{
	const struct window_work *work = window->work;
	struct capture_writer *draft = window->draft;
	uint64_t size;
	int error;

	if (!WIFEXITED(status))
		return -ECHILD;
	if (work->error)
		return work->error;
	capture_writer_resume(draft, work->progress);
	window->draft = NULL;
	error = capture_writer_replace(session->capture, draft, work->end);
	if (error)
		return error;
	/* Where what is alive takes much room, compacting again at once would gain nothing. */
	size = capture_writer_bytes(session->capture) + session->options->window / 4;
	window->limit = size > session->options->window ? size : session->options->window;
	return 0;
}

void window_keep(struct session *session, struct window_state *window)
{
	uint64_t size = session->capture ? capture_writer_bytes(session->capture) : 0;
	uint64_t limit = window->limit ? window->limit : session->options->window;
	int error = 0, status;

	if (!session->options->window || window->failed)
		return;
	if (!window->process) {
		if (size <= limit)
			return;
		error = work_start(session, window, size);
		if (error)
			work_end(window);
	} else if (waitpid(window->process, &status, WNOHANG) == window->process) {
		window->process = 0;
		error = work_take(session, window, status);
		work_end(window);
	}
	if (error)
		window_fail(session, window, error);
}

void window_close(struct window_state *window)
{
	if (window->process) {
		kill(window->process, SIGKILL);
		waitpid(window->process, NULL, 0);
		window->process = 0;
	}
	work_end(window);
}
