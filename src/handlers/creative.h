/* SPDX-License-Identifier: MIT */
/* What a bid says about its creative, written once as JSON. */
#ifndef CREATIVE_H
#define CREATIVE_H

#include "campaign.h"

/*
 * Fills creative->bid with the members of an OpenRTB bid object from "price" on, without the
 * braces.  `source` is the campaign as configured, already checked.  False without memory.
 */
bool creative_render(struct campaign_creative *creative, const json_t *source);

#endif
