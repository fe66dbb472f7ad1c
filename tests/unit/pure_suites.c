/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#define SUITES "pure_suites.def"
#include "suites.h"
