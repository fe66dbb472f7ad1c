/* SPDX-License-Identifier: MIT */
/* A descriptor without the one function that it must have. */
#include <whitecap.h>

WC_HANDLER(.name = "no_handle");
