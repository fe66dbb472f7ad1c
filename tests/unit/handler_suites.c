/* SPDX-License-Identifier: MIT */
#include "autoconf.h"

#define SUITES "handler_suites.def"
#include "suites.h"
