/// What tests say of a Status.
///
/// Layer      tests
/// Threads    as GoogleTest's
#pragma once

#include <gtest/gtest.h>

#include "quire/status.h"

/// Ends the test, with the status's text, where `expression` is not OK.
#define ASSERT_OK(expression)                          \
  do {                                                 \
    const ::quire::Status asserted = (expression);     \
    ASSERT_TRUE(asserted.ok()) << asserted.ToString(); \
  } while (false)
#define EXPECT_OK(expression)                          \
  do {                                                 \
    const ::quire::Status expected = (expression);     \
    EXPECT_TRUE(expected.ok()) << expected.ToString(); \
  } while (false)
#define EXPECT_CODE(expression, expected) EXPECT_EQ((expression).code(), expected)
