/*
 * Graphs: a capture takes what is put on its streams, and none of it runs; a launch takes
 * as long as all of it together.
 */
#include "runtime.h"

static uint64_t captures;

int capture_is_open(const struct graph *graph)
{
	for (const struct stream *stream = made_streams; stream; stream = stream->next)
		if (stream->captured == graph)
			return 1;
	return 0;
}

EXPORT int cudaStreamBeginCapture(void *handle, int mode)
{
	struct stream *stream = stream_of(handle);
	struct graph *graph = calloc(1, sizeof(*graph));
	if (!graph)
		return fail(ERROR_MEMORY_ALLOCATION);
	timeline_lock();
	graph->id = ++captures;
	stream->captured = graph;
	timeline_unlock();
	return SUCCESS;
}

EXPORT int cudaStreamEndCapture(void *handle, struct graph **graph)
{
	timeline_lock();
	*graph = stream_of(handle)->captured;
	stream_of(handle)->captured = NULL;
	for (struct stream *stream = made_streams; stream; stream = stream->next)
		if (stream->captured == *graph)
			stream->captured = NULL;
	timeline_unlock();
	return *graph ? SUCCESS : fail(ERROR_INVALID_VALUE);
}

EXPORT int cudaStreamIsCapturing(void *handle, int *status)
{
	*status = stream_of(handle)->captured != NULL;
	return SUCCESS;
}

EXPORT int cudaStreamGetCaptureInfo_v2(void *handle, int *status, uint64_t *id, struct graph **graph,
	const void ***dependencies, size_t *dependency_count)
{
	const struct stream *stream = stream_of(handle);
	*status = stream->captured != NULL;
	if (id)
		*id = stream->captured ? stream->captured->id : 0;
	if (graph)
		*graph = stream->captured;
	if (dependencies)
		*dependencies = NULL;
	if (dependency_count)
		*dependency_count = 0;
	return SUCCESS;
}

EXPORT int cudaThreadExchangeStreamCaptureMode(int *mode)
{
	return SUCCESS;
}

EXPORT int cudaGraphGetNodes(const struct graph *graph, void **nodes, size_t *count)
{
	*count = graph->nodes;
	return SUCCESS;
}

EXPORT int cudaGraphInstantiate(struct graph **executable, const struct graph *graph, unsigned long long flags)
{
	*executable = malloc(sizeof(**executable));
	if (!*executable)
		return fail(ERROR_MEMORY_ALLOCATION);
	**executable = *graph;
	return SUCCESS;
}

EXPORT int cudaGraphInstantiateWithFlags(struct graph **executable, const struct graph *graph, unsigned long long flags)
{
	return cudaGraphInstantiate(executable, graph, flags);
}

EXPORT int cudaGraphLaunch(const struct graph *executable, void *handle)
{
	stream_append(stream_of(handle), executable->duration);
	return SUCCESS;
}

EXPORT int cudaGraphDestroy(struct graph *graph)
{
	free(graph);
	return SUCCESS;
}

EXPORT int cudaGraphExecDestroy(struct graph *executable)
{
	free(executable);
	return SUCCESS;
}
