#include "kv/persistence/restart_candidates.h"

#include <utility>

#include "base/core/log_sink.h"
#include "base/text/coding.h"
#include "io/paths/sole_writer.h"
#include "kv/generations/part_files.h"
#include "runtime/agreement.h"

namespace quire::kv {
namespace {

Status ReadCandidate(io::FileSystem& fs, const std::string& name, Candidate* candidate) {
  Result<CommitRecord> record = ReadCommitRecord(fs, candidate->directory);
  if (record.status().code() == Code::kNotFound) {
    return MissingFile(candidate->directory + "/" + kCommitName);
  }
  QUIRE_ASSIGN_OR_RETURN(candidate->record, std::move(record));
  if (candidate->record.database == name) return Status();
  return Status(Code::kCorruption, candidate->directory + " is a checkpoint of " +
                                       candidate->record.database + ", not of " + name);
}

// The complete checkpoints that come into question, newest first. All ranks see the same storage,
// but only rank 0 looks, so that all conclude the same.
Result<std::vector<Candidate>> FindCandidates(io::FileSystem& fs, const std::string& path,
                                              const std::string& name, uint64_t wanted) {
  const std::string home = CheckpointHome(path, name);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<CheckpointFound> found, FindCheckpoints(fs, home));
  QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(fs, home));
  if (!found.empty()) QUIRE_RETURN_IF_ERROR(io::CheckSoleWriter(fs, path));
  std::vector<Candidate> candidates;
  Status damage;
  for (size_t i = found.size(); i-- > 0;) {
    const bool published = found[i].state == CheckpointState::kComplete ||
                           found[i].state == CheckpointState::kUnrecorded;
    if (!published) continue;
    if (wanted != 0 && found[i].number != wanted) continue;
    Candidate candidate{found[i].number, found[i].directory, {}};
    const Status read = ReadCandidate(fs, name, &candidate);
    if (read.ok()) {
      candidates.push_back(std::move(candidate));
      continue;
    }
    if (!IsDamage(read)) return read;
    LogPassedOver(candidate, read.ToString());
    if (damage.ok()) damage = read;
  }
  if (!candidates.empty()) return candidates;
  if (!damage.ok()) return Status(Code::kCorruption, std::string(damage.message()));
  return Status(Code::kNotFound, "there is no complete checkpoint " +
                                     (wanted == 0 ? "" : std::to_string(wanted) + " ") + "of " +
                                     name + " in " + path + "; quire checkpoint list " + path +
                                     " shows what is there");
}

}  // namespace

void LogPassedOver(const Candidate& candidate, const std::string& why) {
  if (!base::LogEnabled()) return;
  base::Log(LogLevel::kError, "checkpoint " + std::to_string(candidate.number) + " in " +
                                  candidate.directory + " is passed over: " + why);
}

bool IsDamage(const Status& status) {
  return status.code() == Code::kCorruption || status.code() == Code::kUnsupported;
}

// Every rank reads the records that rank 0 chose.
Result<std::vector<Candidate>> AgreeOnCandidates(const runtime::ContextState& context,
                                                 const std::string& path, const std::string& name,
                                                 uint64_t wanted) {
  std::vector<Candidate> candidates;
  std::string numbers;
  Status status;
  if (context.rank() == 0) {
    Result<std::vector<Candidate>> found = FindCandidates(*context.fs, path, name, wanted);
    status = found.status();
    if (found.ok()) candidates = std::move(*found);
    for (const Candidate& candidate : candidates) base::PutFixed(&numbers, candidate.number);
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         runtime::GatherAgreed(*context.exchange, status, numbers));
  if (context.rank() != 0) {
    base::ByteReader reader(all[0]);
    uint64_t number = 0;
    while (status.ok() && reader.Fixed(&number)) {
      Candidate candidate{number, CheckpointDirectory(CheckpointHome(path, name), number), {}};
      status = ReadCandidate(*context.fs, name, &candidate);
      candidates.push_back(std::move(candidate));
    }
  }
  QUIRE_RETURN_IF_ERROR(context.exchange->Agree(status));
  return candidates;
}

}  // namespace quire::kv
