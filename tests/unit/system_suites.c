/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#define SUITES "system_suites.def"
#include "suites.h"
