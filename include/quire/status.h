/// The outcome of a call: a result, or an error whose text says what failed, where, and what to do.
///
/// Layer      public, below everything
/// Threads    a value; distinct objects are independent
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "quire/export.h"

namespace quire QUIRE_EXPORT {

/// The kind of outcome. The numbers are part of the C API and never change.
enum class Code : int {
  kOk = 0,
  kNotFound = 1,         ///< The key, database or file does not exist. A result, not a failure.
  kInvalidArgument = 2,  ///< The caller's input is out of range. Nothing was done.
  kReadOnly = 3,         ///< Writes are not allowed, by protection or after a background failure.
  kNoSpace = 4,          ///< The device or a quota is full. Not applied; works again with space.
  kIo = 5,               ///< The operating system refused a call on a file.
  kCorruption = 6,       ///< Stored or received bytes are damaged. The text names the place.
  kBusy = 7,             ///< Another program holds it. The text names the holder.
  kTimedOut = 8,         ///< A deadline passed. The outcome at the other side is unknown.
  kPeerFailed = 9,       ///< A rank died or left. The outcome at that rank is unknown.
  kOutOfMemory = 10,     ///< Memory, descriptors or threads are short. Nothing was done.
  kUnsupported = 11,     ///< This build, machine or file version cannot do it.
};

/// Returns the name of a code, such as "not found".
const char* CodeName(Code code);

/// A code and, for errors, a sentence. Cheap to copy; an OK or kNotFound status does not
/// allocate.
class [[nodiscard]] Status {
 public:
  /// Makes OK.
  Status() = default;
  /// Makes an outcome without a sentence.
  explicit Status(Code code) : code_(code) {}
  /// Makes an outcome with a sentence that says what failed, where, and what to do.
  Status(Code code, std::string message)
      : code_(code), message_(std::make_shared<const std::string>(std::move(message))) {}

  /// Returns whether the code is kOk.
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  /// Returns the sentence; empty if there is none.
  const std::string& message() const;
  /// Returns "code name: sentence".
  std::string ToString() const;
  /// Returns this status with `context` and ": " before its sentence. OK stays OK.
  Status WithContext(const std::string& context) const;

 private:
  Code code_ = Code::kOk;
  std::shared_ptr<const std::string> message_;
};

/// A value, or the status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  /// Holds a value; implicit, for `return value;`.
  Result(T value) : value_(std::move(value)) {}            // NOLINT: implicit by intent
  /// Holds an error, which must not be OK; implicit, for `return status;`.
  Result(Status status) : status_(std::move(status)) {}    // NOLINT: implicit by intent

  /// Returns whether there is a value.
  bool ok() const { return value_.has_value(); }
  /// Returns OK if there is a value, else the error.
  const Status& status() const { return status_; }
  /// Returns the value; requires ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T operator*() && { return *std::move(value_); }  // by value: safe in a range-for over a call
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace quire

/// Returns the status of `expr` from the calling function unless it is OK.
#define QUIRE_RETURN_IF_ERROR(expr)                   \
  do {                                                \
    if (::quire::Status quire_status_ = (expr); !quire_status_.ok()) return quire_status_; \
  } while (false)

#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)
/// Assigns the value of `expr` to `lhs`, or returns its status from the calling function.
#define QUIRE_ASSIGN_OR_RETURN(lhs, expr) \
  QUIRE_ASSIGN_OR_RETURN_INNER(QUIRE_CONCAT(quire_result_, __LINE__), lhs, expr)
#define QUIRE_ASSIGN_OR_RETURN_INNER(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return tmp.status();                \
  lhs = std::move(tmp).value()
