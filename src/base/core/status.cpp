#include "quire/status.h"

#include "base/core/out_of_memory.h"
#include "base/text/printable.h"

namespace quire {

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kNotFound: return "not found";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kReadOnly: return "read-only";
    case Code::kNoSpace: return "no space";
    case Code::kIo: return "input/output error";
    case Code::kCorruption: return "corruption";
    case Code::kBusy: return "busy";
    case Code::kTimedOut: return "timed out";
    case Code::kPeerFailed: return "peer failed";
    case Code::kOutOfMemory: return "out of memory";
    case Code::kUnsupported: return "unsupported";
  }
  return "unknown code";
}

const std::string& Status::message() const {
  static const std::string* const kEmpty = new std::string;  // outlives every static destructor
  return message_ ? *message_ : *kEmpty;
}

std::string Status::ToString() const {
  std::string text = CodeName(code_);
  if (message_) text.append(": ").append(base::Legible(*message_));
  return text;
}

Status Status::WithContext(const std::string& context) const {
  if (ok()) return *this;
  return Status(code_, message_ ? context + ": " + *message_ : context);
}

Status base::OutOfMemory() {
  // Made when the program is loaded, and never destroyed: there is no memory for its text when it
  // is needed.
  static const Status* const made = new Status(Code::kOutOfMemory, "an allocation failed");
  return *made;
}

[[maybe_unused]] static const Status out_of_memory_made = base::OutOfMemory();

}  // namespace quire
