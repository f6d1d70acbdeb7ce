// SPDX-License-Identifier: Apache-2.0
// Early returns on Status, and checks of our own invariants.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "estream/status.h"

#define ES_CONCAT_INNER(a, b) a##b
#define ES_CONCAT(a, b) ES_CONCAT_INNER(a, b)

// Returns the Status of `expr` from the current function if it is not ok.
#define ES_RETURN_IF_ERROR(expr)                                                 \
  do {                                                                           \
    if (::estream::Status es_status = (expr); !es_status.ok()) return es_status; \
  } while (0)

// ES_ASSIGN_OR_RETURN(auto x, F()): x is F()'s value, or the current function returns F()'s Status.
#define ES_ASSIGN_OR_RETURN(lhs, expr) ES_ASSIGN_OR_RETURN_IMPL(ES_CONCAT(es_result_, __LINE__), lhs, expr)
#define ES_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                             \
  if (!result.ok()) return result.status();         \
  lhs = std::move(result).value()

// ES_CHECK: a broken invariant of ours, never reachable from input; prints and aborts.
#define ES_CHECK(cond)                                                              \
  do {                                                                              \
    if (!(cond)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #cond); \
      std::abort();                                                                 \
    }                                                                               \
  } while (0)

// ES_DCHECK: a precondition in hot code; compiled out of release builds.
#ifdef NDEBUG
#define ES_DCHECK(cond) static_cast<void>(sizeof(!(cond)))
#else
#define ES_DCHECK(cond) ES_CHECK(cond)
#endif
