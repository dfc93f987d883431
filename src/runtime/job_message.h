/// The messages between the ranks of a job: its state, and its end.
///
/// Layer      runtime (internal)
/// Encoding   docs/format/message-kv.md
/// Threads    pure functions; job_message.cpp also contains the methods of Job that handle messages
#pragma once

#include <string>

#include "quire/slice.h"
#include "quire/status.h"

namespace quire::runtime {

/// Values in place of a step: the job has ended; it is being undone; the sender requests its state.
constexpr int kJobEnd = 1 << 20;
constexpr int kJobUndo = kJobEnd - 1;
constexpr int kJobAsk = kJobEnd + 1;

struct JobMessage {
  int step = 0;
  Status status;
  std::string note;
};

std::string EncodeJobMessage(int step, const Status& status, Slice note);
/// Errors  kCorruption.
Status DecodeJobMessage(Slice text, JobMessage* news);

/// Returns the answer of rank `rank` to news as a status of the job: a rank does not serve a job
/// that it has abandoned.
Status FromRank(int rank, const Status& answered);

}  // namespace quire::runtime
