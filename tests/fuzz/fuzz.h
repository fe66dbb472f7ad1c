/* SPDX-License-Identifier: MIT */
/* What each harness defines: libFuzzer calls it with inputs it makes up, replay.c with those of a corpus. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#endif
