// SPDX-License-Identifier: BSD-2-Clause
/* Names of modules and lines, each once, with what lives there; the table has a bound. */
#include "live/state.h"

void places_begin(struct places *places)
{
	sh_new_strdup(places->index);
	arrzero(places->places, PLACES_FIRST);
}

void places_free(struct places *places)
{
	arrfree(places->places);
	shfree(places->index);
}

uint16_t place_find(struct places *places, const char *name, size_t max)
{
	struct place place = {0};
	ptrdiff_t at;

	if (!*name)
		return PLACE_NONE;
	at = shgeti(places->index, name);
	if (at >= 0)
		return places->index[at].value;
	if (arrlenu(places->places) - PLACES_FIRST >= max || arrlenu(places->places) > UINT16_MAX)
		return PLACE_OTHER;
	shput(places->index, name, (uint16_t)arrlenu(places->places));
	/* The map's own copy, which stays where it is. */
	place.name = places->index[shgeti(places->index, name)].key;
	arrput(places->places, place);
	return (uint16_t)(arrlenu(places->places) - 1);
}

/* Where the rank uses accelerators, what lies on the host is beside the point. */
static enum side side_of(const struct live_rank *rank)
{
	const struct live_device *device = live_device_main(rank);

	return device && !device_is_host(device->type) ? SIDE_DEVICE : SIDE_HOST;
}

/* Keeps the largest, in order: `count` of them are there. */
static size_t place_rank(struct live_place *places, size_t count, size_t room, const struct live_place *place)
{
	size_t at = count;

	while (at > 0 && places[at - 1].bytes < place->bytes)
		at--;
	if (at == room)
		return count;
	if (count == room)
		count--;
	memmove(&places[at + 1], &places[at], (count - at) * sizeof(*places));
	places[at] = *place;
	return count + 1;
}

size_t live_top(const struct live *live, size_t index, enum live_table table, struct live_place *places, size_t room)
{
	const struct state *state = live->states[index];
	enum side side = side_of(&state->rank);
	size_t count = 0;

	for (size_t i = PLACE_OTHER; i < arrlenu(state->places[table].places); i++) {
		const struct place *place = &state->places[table].places[i];
		struct live_place shown = {place->name, place->bytes[side], place->blocks[side]};

		if (shown.blocks && room)
			count = place_rank(places, count, room, &shown);
	}
	return count;
}
